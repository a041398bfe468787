"""The way from a publish to every queue it is for, here or elsewhere, and back to its confirm."""
