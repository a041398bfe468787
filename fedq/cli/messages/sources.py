"""Where bodies come from: the command line, a file, or the lines of one as they come.

In: bytes. Out: bodies, none longer than was said; `CommandError` (exit code 2) for a longer one.
Invariant: of lines no more is held than one read and one unfinished line.
"""

import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from fedq.cli.terminal.failure import USAGE, CommandError

_READ_BYTES: Final = 65_536
STDIN: Final = "-"


class Source(Protocol):
    """Bodies, in order."""

    @property
    def is_over(self) -> bool:
        """There are no more."""

    @property
    def waits_for(self) -> BinaryIO | None:
        """What has to become readable before there is another body; None: there is one, or none."""

    def read(self) -> None:
        """Reads what has become readable."""

    def next(self) -> bytes:
        """The next body, if nothing has to be waited for."""


class Repeated:
    """One body, so many times."""

    def __init__(self, body: bytes, count: int) -> None:
        self._body = body
        self._left = count

    @property
    def is_over(self) -> bool:
        """There are no more."""
        return self._left < 1

    @property
    def waits_for(self) -> BinaryIO | None:
        """None: it is all there."""
        return None

    def read(self) -> None:
        """Reads nothing."""

    def next(self) -> bytes:
        """The body, once more."""
        self._left -= 1
        return self._body


class Lines:
    """The lines of a file or pipe, without their ends; each is a body."""

    def __init__(self, file: BinaryIO, bytes_max: int, count: int | None = None) -> None:
        """`count`: at most so many; None: all."""
        self._file = file
        self._bytes_max = bytes_max
        self._left = count
        self._lines: deque[bytes] = deque()
        self._begun = bytearray()
        self._at_end = False

    @property
    def is_over(self) -> bool:
        """There are no more."""
        return self._left == 0 or (self._at_end and not self._lines)

    @property
    def waits_for(self) -> BinaryIO | None:
        """The file, while there is no whole line."""
        return None if self._lines or self.is_over else self._file

    def read(self) -> None:
        """Reads once; raises `CommandError` for a line that is too long."""
        data = os.read(self._file.fileno(), _READ_BYTES)
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._begun += line
            self._check()
            self._lines.append(bytes(self._begun).removesuffix(b"\r"))
            self._begun.clear()
        self._begun += rest
        self._check()
        if not data:
            self._at_end = True
            if self._begun:
                self._lines.append(bytes(self._begun))

    def _check(self) -> None:
        if len(self._begun) > self._bytes_max:
            raise CommandError(
                f"a line is longer than {self._bytes_max} bytes; raise --max-bytes, or leave out "
                "--lines to publish the whole as one message",
                USAGE,
            )

    def next(self) -> bytes:
        """The next line."""
        if self._left is not None:
            self._left -= 1
        return self._lines.popleft()


@contextmanager
def opened(place: str) -> Iterator[BinaryIO]:
    """A file to read from for the time of the block, or standard input for `-`."""
    if place == STDIN:
        yield sys.stdin.buffer
        return
    try:
        file = Path(place).open("rb")  # noqa: SIM115 (an error of the block is not one of opening)
    except OSError as error:
        raise CommandError(f"{place} cannot be read: {error.strerror}", USAGE) from error
    with file:
        yield file


def whole(file: BinaryIO, bytes_max: int) -> bytes:
    """All that is there; raises `CommandError` if that is too much."""
    return checked(file.read(bytes_max + 1), bytes_max)


def checked(body: bytes, bytes_max: int) -> bytes:
    """A body that is not too long; raises `CommandError`."""
    if len(body) > bytes_max:
        raise CommandError(
            f"the message is longer than {bytes_max} bytes; raise --max-bytes, or publish each "
            "line by itself with --lines",
            USAGE,
        )
    return body
