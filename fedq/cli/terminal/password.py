"""Where a command gets a password from: the command line, stdin, or a prompt that shows nothing."""

import getpass
import sys
from typing import Annotated

import typer

from fedq.cli.terminal.failure import USAGE, CommandError

PasswordOption = Annotated[
    str | None,
    typer.Option(
        "--password",
        metavar="TEXT",
        help="The password. Others on this machine may see it: better be asked, or use "
        "--password-stdin.",
        show_default=False,
    ),
]
PasswordStdinOption = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the first line of stdin.")
]


def read_password(given: str | None, from_stdin: bool, *, twice: bool) -> str:
    """The password; `twice`: a person is asked again, since nobody sees what was typed.

    Raises `CommandError` (exit code 2) if there is none.
    """
    if given is not None and from_stdin:
        raise CommandError("--password and --password-stdin exclude each other; give one", USAGE)
    if given is not None:
        return _checked(given)
    if from_stdin:
        return _checked(sys.stdin.readline().rstrip("\r\n"))
    if not sys.stdin.isatty():
        raise CommandError(
            "no password; give --password-stdin (or --password), since nobody is there to ask",
            USAGE,
        )
    password = _checked(getpass.getpass("Password: "))
    if twice and getpass.getpass("Again: ") != password:
        raise CommandError("the two passwords differ; nothing was changed", USAGE)
    return password


def _checked(password: str) -> str:
    if not password:
        raise CommandError("the password is empty; nobody could log in with it", USAGE)
    return password
