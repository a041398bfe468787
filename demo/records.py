"""What the demo's clients write down while they work, and how it is read again.

A record is one line `milliseconds kind message number redelivered`, appended by one client to
its own file, in the order in which things happened to it. Milliseconds are of the machine's
monotonic clock, which all processes share. Nothing else is evidence for the verdict.

A message is named by its publisher and sequence number; `attempt` counts how often the
publisher sent it (a publisher that heard no confirm must send again).
"""

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

#: The publisher sent an attempt.
SENT: Final = "sent"
#: The broker confirmed the attempt.
CONFIRMED: Final = "confirmed"
#: The broker refused the attempt (basic.nack); it is sent again.
REFUSED: Final = "refused"
#: The attempt was delivered to this consumer.
DELIVERED: Final = "delivered"
#: The client is connected to the node named.
CONNECTED: Final = "connected"
#: The client lost its connection, or could not open one; the reason is the name.
LOST: Final = "lost"
#: The client has done what it was asked to do.
FINISHED: Final = "finished"


class Record(NamedTuple):
    """One line."""

    at_ms: int
    kind: str
    #: The publisher for messages, a node or reason for connections.
    name: str
    sequence: int
    attempt: int
    redelivered: bool


def body_of(publisher: str, sequence: int, attempt: int) -> bytes:
    """The body of a message, which says what it is."""
    return f"{publisher}:{sequence}:{attempt}".encode()


def parse_body(body: bytes) -> tuple[str, int, int]:
    """(publisher, sequence, attempt); raises `ValueError` for a body that is not ours."""
    publisher, sequence, attempt = body.decode().split(":")
    return publisher, int(sequence), int(attempt)


class Recorder:
    """Appends records to a file; a line is complete on the file or not at all."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1 << 16)

    def write(
        self, kind: str, name: str, sequence: int = 0, attempt: int = 0, redelivered: bool = False
    ) -> None:
        """Adds one record, now; `flush` makes it visible to readers."""
        at_ms = time.monotonic_ns() // 1_000_000
        # Names are for people: reasons of lost connections may hold anything.
        plain = "_".join(name.split())[:120] or "-"
        self._file.write(f"{at_ms} {kind} {plain} {sequence} {attempt} {int(redelivered)}\n")

    def flush(self) -> None:
        """Hands everything to the operating system; call once per batch, not per message."""
        self._file.flush()

    def close(self) -> None:
        """Flushes and closes the file."""
        self._file.close()


class Follower:
    """Reads a record file while it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> Iterator[Record]:
        """Records that were completed since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self._offset += end
        yield from parse(data[:end].decode())


def parse(text: str) -> Iterator[Record]:
    """The records in a text of complete lines."""
    for line in io.StringIO(text):
        at_ms, kind, name, sequence, attempt, redelivered = line.split()
        yield Record(int(at_ms), kind, name, int(sequence), int(attempt), redelivered == "1")


def read(path: Path) -> list[Record]:
    """All records of a file."""
    return list(Follower(path).new())
