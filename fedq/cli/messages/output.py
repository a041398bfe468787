"""Where messages that were taken are written: bodies, or JSON lines, on stdout."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import orjson

from fedq.cli.asking.amqp_client import Message
from fedq.cli.terminal.failure import FAILED, CommandError
from fedq.cli.terminal.plain_text import printable_lines
from fedq.core.limits import BODY_BYTES_MAX

Shown = Callable[[Message], bytes]
END: Final = b"\n"


class Stdout:
    """Standard output; what is flushed there has left this process."""

    @property
    def is_full(self) -> bool:
        """Never: how many are wanted is the taker's business."""
        return False

    def write(self, data: bytes) -> None:
        """Writes bytes."""
        sys.stdout.buffer.write(data)

    def flush(self) -> None:
        """Has everything leave this process."""
        sys.stdout.buffer.flush()


class Output(Stdout):
    """Messages on stdout, up to so many bytes."""

    def __init__(self, shown: Shown, bytes_max: int | None = None) -> None:
        """`shown`: how a message is written; `bytes_max`: of all bodies together."""
        self._shown = shown
        self._left = bytes_max
        self.bytes = 0

    def take(self, message: Message) -> bool:
        """Writes a message; False: the bodies would be more than was asked for."""
        if self._left is not None:
            if message.size > self._left:
                return False
            self._left -= message.size
        if message.size > BODY_BYTES_MAX:
            raise CommandError(
                f"a message has {message.size} bytes, {BODY_BYTES_MAX} at most are taken here: it "
                "stays in its queue",
                FAILED,
            )
        self.bytes += message.size
        self.write(self._shown(message))
        return True


def body_line(message: Message) -> bytes:
    """The body, and a line end."""
    return message.body + END


def terminal_line(message: Message) -> bytes:
    """The body as a terminal may be given it, and a line end."""
    return printable_lines(message.body.decode("utf-8", "backslashreplace")).encode() + END


def raw_body(message: Message) -> bytes:
    """The body, and nothing else."""
    return message.body


def json_line(form: dict[str, Any]) -> bytes:
    """A JSON value on a line of its own."""
    return orjson.dumps(form) + END


def forget_stdout() -> None:
    """Has what nobody reads go nowhere, so that the end of the process is quiet."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
