"""The snapshot of a table: which files it consists of, and up to where it goes (docs/adr/0080).

A table is what its snapshot names. A change is a new snapshot, which replaces the old one on disk
in one step, after the files that it names are there. Files are never changed, and no name is used
twice. Next to the files stands, for each fragment of the source, the offset of the next row: a row
below it is in the table already.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import orjson

from fedq.pipeline.failure import PipelineError
from fedq.pipeline.jobs.kit.directory import unusable
from fedq.shell.disk.durable_files import replace_durably

NAME: Final = "snapshot.json"
STAGING: Final = ".staging"
VERSION: Final = 1
#: Files of a table; beyond that a snapshot takes too long to replace.
FILES_MAX: Final = 200_000


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table."""

    #: Relative to the table, with slashes.
    path: str
    rows: int
    size: int

    @property
    def partition(self) -> str:
        """The directory that it is in, as "day=…/hour=…"; empty at the top."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Replaced:
    """A file that was, kept for readers that are under way."""

    path: str
    #: When it was replaced, in seconds since 1970.
    at_s: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a table consists of."""

    #: Grows with each change.
    number: int = 0
    files: tuple[TableFile, ...] = ()
    #: By fragment: the offset of the first row that is not in the table.
    next: Mapping[int, int] = field(default_factory=dict)
    replaced: tuple[Replaced, ...] = ()

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return sum(each.rows for each in self.files)

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(each.size for each in self.files)

    def partitions(self) -> dict[str, list[TableFile]]:
        """The files by their directories, ascending."""
        found: dict[str, list[TableFile]] = {}
        for each in sorted(self.files, key=lambda file: file.path):
            found.setdefault(each.partition, []).append(each)
        return found

    def with_rows(self, files: Sequence[TableFile], ends: Mapping[int, int]) -> "Snapshot":
        """The table with more files; `ends`: the offset behind the last row of each fragment."""
        if len(self.files) + len(files) > FILES_MAX:
            raise PipelineError(
                f"the table would have more than {FILES_MAX} files: take fewer, larger batches"
            )
        further = {fragment: max(end, self.next.get(fragment, 0)) for fragment, end in ends.items()}
        return replace(
            self, number=self.number + 1, files=(*self.files, *files),
            next={**self.next, **further},
        )  # fmt: skip

    def with_replaced(
        self, old: Iterable[TableFile], new: Sequence[TableFile], now_s: int
    ) -> "Snapshot":
        """The table with some files in place of others, which are kept for a while."""
        gone = {each.path: None for each in old}
        kept = tuple(each for each in self.files if each.path not in gone)
        assert len(kept) + len(gone) == len(self.files), "only files of the table are replaced"
        was = tuple(Replaced(path, now_s) for path in gone)
        return replace(
            self, number=self.number + 1, files=(*kept, *new), replaced=(*self.replaced, *was)
        )

    def without_replaced(self, before_s: int) -> "Snapshot":
        """The table without what was replaced before a time."""
        kept = tuple(each for each in self.replaced if each.at_s >= before_s)
        if len(kept) == len(self.replaced):
            return self
        return replace(self, number=self.number + 1, replaced=kept)

    def names(self) -> set[str]:
        """The files that must not be deleted."""
        return {each.path for each in self.files} | {each.path for each in self.replaced}


def load(table: Path) -> Snapshot:
    """The snapshot of a table; an empty one where there is none. Raises PipelineError."""
    path = table / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Snapshot()
    except OSError as error:
        raise unusable(path, error) from error
    try:
        return _from_form(orjson.loads(content))
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"{path} is damaged ({error}): restore it from a copy") from error


def commit(table: Path, snapshot: Snapshot) -> None:
    """Makes this the table's snapshot: the one step in which a change happens."""
    replace_durably(table / NAME, orjson.dumps(_form(snapshot), option=orjson.OPT_INDENT_2) + b"\n")


def sweep(table: Path, snapshot: Snapshot) -> int:
    """Deletes what no snapshot names: left by a writer that was killed, or replaced long ago."""
    named, count = snapshot.names(), 0
    for directory, children, files in os.walk(table):
        at = Path(directory)
        if at == table:
            # Checkpoints, locks and logs are no files of the table.
            children[:] = [each for each in children if "=" in each or each == STAGING]
            continue
        for name in files:
            if (at / name).relative_to(table).as_posix() not in named:
                (at / name).unlink(missing_ok=True)
                count += 1
    for directory, _, _ in os.walk(table / STAGING, topdown=False):
        Path(directory).rmdir()
    return count


def _form(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "version": VERSION,
        "number": snapshot.number,
        "next": {str(fragment): at for fragment, at in sorted(snapshot.next.items())},
        "files": [[each.path, each.rows, each.size] for each in snapshot.files],
        "replaced": [[each.path, each.at_s] for each in snapshot.replaced],
    }


def _from_form(form: dict[str, Any]) -> Snapshot:
    if form["version"] != VERSION:
        raise ValueError(f"form {form['version']}, where this release knows {VERSION}")
    files = form["files"]
    return Snapshot(
        number=int(form["number"]),
        files=tuple(TableFile(str(path), int(rows), int(size)) for path, rows, size in files),
        next={int(fragment): int(at) for fragment, at in form["next"].items()},
        replaced=tuple(Replaced(str(path), int(at)) for path, at in form["replaced"]),
    )  # fmt: skip
