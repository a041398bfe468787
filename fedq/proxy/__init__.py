"""Floor 3: serving a client with what lives on other nodes."""
