"""Publishes of publishers with names: who published a message, and its sequence (docs/adr/0078).

Both stand in headers of the message. Inputs: property lists, encoded messages (`fedq.core.message`)
whose lists were checked. Outputs: names and sequences, runs of them; what is wrong with them, in a
sentence for the publisher.

Messages of one publisher differ in the number alone. Where that stands is found once, and messages
that are equal before and behind it need no other look: a table is decoded for the first one only.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from fedq.amqp.values import FieldTable, Timestamp, decode_table, skip_value
from fedq.core.limits import NAME_BYTES_MAX, SEQUENCE_MAX
from fedq.core.message import HEAD_SIZE
from fedq.core.publish_messages import NamedRun

PUBLISHER: Final = "x-fedq-publisher"
SEQUENCE: Final = "x-fedq-sequence"

#: As it stands in a table: behind its length.
_KEY: Final = b"\x0f" + SEQUENCE.encode()
_KEY_SIZE: Final = len(_KEY)
#: What both names begin with.
_BEGINNING: Final = b"x-fedq-"
#: The octets of a value that is an integer, by its type letter.
_WIDTHS: Final = {
    ord("b"): 1, ord("B"): 1, ord("s"): 2, ord("u"): 2, ord("I"): 4, ord("i"): 4, ord("l"): 8,
    ord("L"): 8,
}  # fmt: skip
#: Those of them that have no sign.
_UNSIGNED: Final = frozenset(b"Bui")
#: Property flags: headers; and what stands before them.
_HEADERS: Final = 0x20
_BEFORE_HEADERS: Final = (0x80, 0x40)
#: What property lists are known by: themselves, or what those of one publisher with a name share.
#: No bytes that a client sends are equal to the latter.
KnownBy: TypeAlias = bytes | tuple[bytes, bytes]


def likely_place(properties: bytes) -> int:
    """Where the value of a sequence, with its type letter, seems to stand; -1: there is none."""
    found = properties.find(_KEY)
    if found < 0:
        return -1
    at = found + _KEY_SIZE
    width = _WIDTHS.get(properties[at]) if at < len(properties) else None
    return at if width is not None and at + width < len(properties) else -1


def without_sequence(properties: bytes, place: int) -> tuple[bytes, bytes]:
    """What lists share that differ in the number at a place alone; no list is equal to it."""
    end = place + 1 + _WIDTHS[properties[place]]
    return properties[: place + 1], properties[end:]


def place_of_sequence(properties: bytes) -> int:
    """Where the value of the sequence stands in a well-formed list; -1: nowhere, or it is none."""
    at, found = _table_at(properties), -1
    if at < 0:
        return found
    end = at + 4 + int.from_bytes(properties[at : at + 4], "big")
    at += 4
    while at < end:
        value_at = at + 1 + properties[at]
        if properties[at:value_at] == _KEY:
            # Of repeated keys the last one counts.
            found = value_at if properties[value_at] in _WIDTHS else -1
        at = skip_value(properties, value_at)
    return found


def _table_at(properties: bytes) -> int:
    """Where the headers begin; -1: there are none."""
    if not properties[0] & _HEADERS:
        return -1
    at = 2
    for bit in _BEFORE_HEADERS:
        if properties[0] & bit:
            at += 1 + properties[at]
    return at


class Looked(NamedTuple):
    """How many messages are right, in how many runs; and what is wrong with the next one, if so."""

    size: int
    runs: int
    fault: str


class NamedReader:
    """Reads who published messages, quickly where they follow on each other."""

    __slots__ = ("_before", "_behind", "_has_sign", "_publisher", "_size", "_width")

    def __init__(self) -> None:
        #: The publisher of the last message, what stands before and behind its sequence in the
        #: property list, and the size of that as it stands in the message; empty: not known.
        self._publisher = ""
        self._before = self._behind = self._size = b""
        self._width = 0
        self._has_sign = True

    def read(self, message: bytes) -> tuple[str, int]:
        """The publisher and the sequence of a message; no name and 0 for one that has none.

        Raises `ValueError`, with a sentence, where they are not what they have to be.
        """
        at = HEAD_SIZE + (message[1] << 8 | message[2])
        if message[3:HEAD_SIZE] == self._size and message.startswith(self._before, at):
            start = at + len(self._before)
            end = start + self._width
            if message.startswith(self._behind, end):
                sequence = int.from_bytes(message[start:end], "big", signed=self._has_sign)
                if 0 < sequence <= SEQUENCE_MAX:
                    return self._publisher, sequence
        end = at + int.from_bytes(message[3:HEAD_SIZE], "big")
        if message.find(_BEGINNING, at, end) < 0:
            return "", 0
        return self._look_at(message[at:end], message[3:HEAD_SIZE])

    def _look_at(self, properties: bytes, size: bytes) -> tuple[str, int]:
        table_at = _table_at(properties)
        headers = decode_table(properties, table_at)[0] if table_at >= 0 else {}
        if PUBLISHER not in headers and SEQUENCE not in headers:
            return "", 0
        publisher, sequence = _publisher_in(headers), _sequence_in(headers)
        place = place_of_sequence(properties)
        # internal: the sequence is an integer.
        assert place >= 0
        self._publisher, self._size = publisher, size
        self._width = _WIDTHS[properties[place]]
        self._has_sign = properties[place] not in _UNSIGNED
        self._before = properties[: place + 1]
        self._behind = properties[place + 1 + self._width :]
        return publisher, sequence

    def look_at(self, messages: Sequence[bytes], most: int) -> Looked:
        """Looks at the next messages, until one is wrong, or they are so many runs."""
        publisher, last, runs = "", 0, 0
        for index, message in enumerate(messages):
            try:
                name, sequence = self.read(message)
            except ValueError as error:
                return Looked(index, runs, str(error))
            if sequence != last + 1 or name != publisher:
                if runs == most:
                    return Looked(index, runs, "")
                runs += 1
                publisher = name
            last = sequence
        return Looked(len(messages), runs, "")

    def runs_in(self, messages: Sequence[bytes], place: int = 0) -> list[NamedRun]:
        """The runs of publishers with names; the first message stands at a place in its batch.

        The messages were looked at before (`look_at`).
        """
        runs: list[NamedRun] = []
        publisher, start, first, last = "", 0, 0, 0
        for index, message in enumerate(messages):
            name, sequence = self.read(message)
            if sequence == last + 1 and name == publisher and name:
                last = sequence
                continue
            if publisher:
                runs.append(NamedRun(place + start, index - start, publisher, first))
            publisher, start, first, last = name, index, sequence, sequence
        if publisher:
            runs.append(NamedRun(place + start, len(messages) - start, publisher, first))
        return runs


def _publisher_in(headers: FieldTable) -> str:
    publisher = headers.get(PUBLISHER)
    if not isinstance(publisher, str):
        raise ValueError(
            f"header '{SEQUENCE}' without a '{PUBLISHER}' that is a string: a publisher with a "
            "name says both in each message"
        )
    if not 0 < len(publisher.encode("utf-8", "surrogateescape")) <= NAME_BYTES_MAX:
        raise ValueError(f"header '{PUBLISHER}' must have 1 to {NAME_BYTES_MAX} bytes")
    return publisher


def _sequence_in(headers: FieldTable) -> int:
    sequence = headers.get(SEQUENCE)
    # In this order: compiled, what is known to be an int is nothing else any more.
    if isinstance(sequence, bool | Timestamp) or not isinstance(sequence, int):
        raise ValueError(
            f"header '{PUBLISHER}' without a '{SEQUENCE}' that is an integer: a publisher with a "
            "name says both in each message"
        )
    if not 0 < sequence <= SEQUENCE_MAX:
        raise ValueError(f"header '{SEQUENCE}' is {sequence}: from 1 to {SEQUENCE_MAX}, ascending")
    return sequence
