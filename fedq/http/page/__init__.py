"""The web page beside the API: a few files, as they are."""
