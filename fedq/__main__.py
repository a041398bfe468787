"""`python -m fedq` is the `fedq` command."""

from fedq.cli.main import main

if __name__ == "__main__":
    main()
