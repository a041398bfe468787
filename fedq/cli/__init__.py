"""Floor 7: the `fedq` command line. Starts things, asks the admin service, shows answers."""
