"""The part of `fedq queue show` about where a queue's messages are: in memory, on disk, on whom.

In: the queue as a JSON value (`forms.stored_form`). Out: tables and sentences for people.
"""

from collections.abc import Iterator
from typing import Final

from rich.table import Table

from fedq.cli.asking.forms import Form
from fedq.cli.terminal.screen import Cell, duration, size, table

_COLUMNS: Final = (
    "#FRAGMENT", "NODE", "COPY", "#MESSAGES", "#ON DISK ALONE", "#MEMORY", "#JOURNAL", "#SEGMENTS",
    "#DEAD THERE", "#SCRATCH", "#READING", "#AT HAND", "#OLDEST",
)  # fmt: skip
_STREAM_COLUMNS: Final = (
    "#FRAGMENT", "#FIRST OFFSET", "#LAST OFFSET", "#SEGMENTS", "#BYTES", "#READERS HERE",
)  # fmt: skip


def storage_tables(queue: Form) -> Iterator[Table]:
    """A table of all copies, and one of what is a stream, if it is."""
    rows = [_row(fragment, copy) for fragment in queue["fragments"] for copy in fragment["copies"]]
    if rows:
        yield table(_COLUMNS, rows)
    streams = [
        _stream_row(fragment, copy["stream"])
        for fragment in queue["fragments"]
        for copy in fragment["copies"]
        if copy["role"] is not None and copy["stream"] is not None
    ]
    if streams:
        yield table(_STREAM_COLUMNS, streams)


def _row(fragment: Form, copy: Form) -> list[Cell]:
    number, node = fragment["fragment"], copy["node"]
    if copy["role"] is None:
        return [number, node, *[None] * (len(_COLUMNS) - 2)]
    return [
        number,
        node,
        copy["role"],
        copy["messages"],
        copy["messages_on_disk_alone"],
        size(copy["memory_bytes"]),
        size(copy["journal_bytes"]),
        copy["journal_segments"],
        size(copy["journal_dead_bytes"]),
        size(copy["scratch_bytes"]),
        size(copy["reading_bytes"]) if copy["role"] == "primary" else "",
        size(copy["at_hand_bytes"]) if copy["role"] == "primary" else "",
        _age(copy),
    ]


def _stream_row(fragment: Form, stream: Form) -> list[Cell]:
    is_empty = stream["first_offset"] is None
    return [
        fragment["fragment"],
        "" if is_empty else stream["first_offset"],
        "" if is_empty else stream["last_offset"],
        stream["segments"],
        size(stream["bytes"]),
        stream["readers"],
    ]


def _age(copy: Form) -> str:
    """How old the next message is: the later bound, with the earlier one where they differ."""
    least, most = copy["age_ms"], copy["age_ms_max"]
    if least is None:
        return ""
    if most is None:
        return f"{duration(least)} or more"
    shortest, longest = duration(least), duration(most)
    return longest if shortest == longest else f"{shortest} to {longest}"
