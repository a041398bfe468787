"""How a command fails: one sentence on stderr, and an exit code that scripts can rely on.

    0  done
    1  it was tried and failed
    2  the command line or the configuration is wrong
    3  the node could not be reached, or did not answer in time
    4  the node answered, and says that something is wrong
    5  the node's event loop stood still (`fedq.shell.host.watchdog`)
    6  a message reached no queue
    7  the broker refused a message (basic.nack)
    8  the broker takes no messages at present (connection.blocked)
  130  Ctrl-C or SIGTERM came before it was done

Anything else that escapes from a command is a bug of fedq and shows its traceback.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Final, ParamSpec

import typer

from fedq.cli.terminal.plain_text import printable_lines

FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
UNWELL: Final = 4
HUNG: Final = 5
UNROUTABLE: Final = 6
REFUSED: Final = 7
BLOCKED: Final = 8
#: What shells say of a process that Ctrl-C has ended.
INTERRUPTED: Final = 130

#: What each code means, for help texts and manual pages.
MEANINGS: Final = {
    0: "done",
    FAILED: "it was tried and failed",
    USAGE: "the command line or the configuration is wrong",
    UNREACHABLE: "the node or broker could not be reached, or did not answer in time",
    UNWELL: "the answer is that something is wrong",
    HUNG: "the node's event loop stood still",
    UNROUTABLE: "a message reached no queue",
    REFUSED: "the broker refused a message (basic.nack)",
    BLOCKED: "the broker takes no messages at present (connection.blocked)",
    INTERRUPTED: "ended by Ctrl-C or SIGTERM before it was done",
}


def exit_codes(codes: Iterable[int]) -> str:
    """A line for a help text: what these codes mean."""
    return "Exit codes: " + "; ".join(f"{code} {MEANINGS[code]}" for code in codes) + "."


P = ParamSpec("P")


class CommandError(Exception):
    """The command cannot do what it was asked; the text is one sentence for the user."""

    def __init__(self, sentence: str, exit_code: int = FAILED) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.exit_code = exit_code


def reporting(command: Callable[P, None]) -> Callable[P, None]:
    """A command whose `CommandError`s become their sentence and exit code."""

    @functools.wraps(command)
    def reported(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except CommandError as error:
            # A broker's words may be in it, or the name of a queue.
            typer.echo(f"fedq: {printable_lines(error.sentence)}", err=True)
            raise typer.Exit(error.exit_code) from error

    return reported
