"""What a process did to its data directory, as `preload.c` wrote it down."""

import heapq
import struct
import subprocess
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults.power import compiler

_SOURCE: Final = Path(__file__).with_name("preload.c")
#: `struct line`.
_HEADER: Final = struct.Struct("=4sIQQQQqQ")
_MARK: Final = b"PC1"


class Line(NamedTuple):
    """One call that went well, or the beginning of a sync. `preload.c` says what the kinds are."""

    kind: str
    #: Of the monotonic clock.
    ns: int
    node: int = 0
    place: int = 0
    to: int = 0
    number: int = 0
    name: str = ""
    data: bytes = b""


def build(directory: Path) -> Path:
    """Compiles `preload.c` into the directory; returns the library."""
    library = directory / "preload.so"
    subprocess.run(
        [
            compiler() or "cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", str(library),
            str(_SOURCE), "-ldl",
        ],
        check=True,
    )  # fmt: skip
    return library


def prefix(library: Path, records: Path, sync_us: int = 0) -> list[str]:
    """What goes before the command of a process whose record is to be kept in `records`.

    `sync_us`: how much longer the sync of a file takes; below 0: it does nothing, the disk lies.
    """
    variables = {"LD_PRELOAD": library, "FEDQ_RECORD": f"{records}/", "FEDQ_SYNC_US": sync_us}
    return ["env", *(f"{name}={value}" for name, value in variables.items())]


def read(content: bytes) -> Iterator[Line]:
    """The lines of one record; the last one may have been cut off by the kill."""
    at = 0
    while at + _HEADER.size <= len(content):
        mark, name_size, ns, node, place, to, number, data_size = _HEADER.unpack_from(content, at)
        if mark[1:] != _MARK:
            raise ValueError(f"the record is broken at {at}")
        name_at = at + _HEADER.size
        data_at = name_at + name_size
        at = data_at + data_size
        if at > len(content):
            return
        name = content[name_at:data_at].decode()
        data = content[data_at:at]
        yield Line(chr(mark[0]), ns, node, place, to, number, name, data)


def lines_of(records: Path, name: str) -> list[Line]:
    """Everything that processes which began in the directory `name` did, in order."""
    paths = sorted(records.glob(f"{name}.*.record"))
    return merge(list(read(path.read_bytes())) for path in paths)


def merge(records: Iterable[list[Line]]) -> list[Line]:
    """The lines of several processes in the order in which things happened."""
    return list(heapq.merge(*records, key=attrgetter("ns")))


def forget(records: Path) -> None:
    """Deletes all records in the directory."""
    for path in records.glob("*.record"):
        path.unlink()
