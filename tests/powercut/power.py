"""The power of all nodes of a cluster: what their disks hold, and the cut.

`remember` before the nodes start, `cut` when they have been killed. What was there before a cut,
what the kill left and what the cut left stay beside the data directory until the next one (`base`,
`killed`, `cut`, and the records), for whoever has to find out what went wrong.
"""

import copy
import random
import shutil
from pathlib import Path
from typing import Final, NamedTuple

from tests.powercut import record
from tests.powercut.disk import Disk, Tree, UnknownCall, difference, read_tree, write_tree
from tests.powercut.record import Line

#: What is done to names, and lengths that are set.
_RARE: Final = "CMLURDT"
#: So long after or before such a thing, in nanoseconds.
_BESIDE_NS: Final = (-1, 0, 0, 200_000, 2_000_000)


class Cut(NamedTuple):
    """A moment at which the power went, and how much of what was told before counted."""

    moment: str
    ns: int
    lines: int = 0
    #: Changes that were not synced.
    loose: int = 0
    #: Segments that were begun and deleted since the start, and those left.
    begun: int = 0
    dropped: int = 0
    segments: int = 0


class Power:
    """Of the nodes whose directories are given, by name."""

    def __init__(self, directories: dict[str, Path], records: Path, dice: random.Random) -> None:
        """`records`: where the nodes' processes write down what they do."""
        self._directories = directories
        self._records = records
        self._dice = dice
        self._disks: dict[str, Disk] = {}

    def remember(self) -> None:
        """All that is there now counts as durable; the record begins anew."""
        record.forget(self._records)
        for name, directory in self._directories.items():
            _copy(directory / "data", directory / "base")
            self._disks[name] = Disk.of(directory / "data")

    def cut(self, floor_ns: int, killed_ns: int) -> Cut:
        """Makes each data directory what may be left when the power goes at some moment.

        The moment is drawn between `floor_ns` and `killed_ns`, which is before the first kill.
        Raises `UnknownCall` if the record does not explain what there is.
        """
        lines = {name: record.lines_of(self._records, name) for name in self._directories}
        for name in lines:
            self._check(name, lines[name])
        moment, ns = self._moment(lines, floor_ns, killed_ns)
        cut = Cut(moment, ns)
        for name in self._directories:
            before = [line for line in lines[name] if line.ns <= ns]
            disk = self._disks[name]
            for line in before:
                disk.do(line)
            tree = disk.after_cut(self._dice)
            self._rebuild(name, tree)
            cut = cut._replace(
                lines=cut.lines + len(before),
                loose=cut.loose + disk.loose,
                begun=cut.begun + sum(_is_segment(line, "C") for line in before),
                dropped=cut.dropped + sum(_is_segment(line, "U") for line in before),
                segments=cut.segments + sum(path.endswith(".journal") for path in tree),
            )
        return cut

    def _check(self, name: str, lines: list[Line]) -> None:
        """The record must explain what the kill left."""
        disk = copy.deepcopy(self._disks[name])
        for line in lines:
            disk.do(line)
        if wrong := difference(disk.now(), read_tree(self._directories[name] / "data")):
            raise UnknownCall(f"{name} did what its record does not tell: {wrong}")

    def _rebuild(self, name: str, tree: Tree) -> None:
        directory = self._directories[name]
        data = directory / "data"
        shutil.rmtree(directory / "killed", ignore_errors=True)
        data.rename(directory / "killed")
        data.mkdir(mode=0o700)
        write_tree(data, tree)
        _copy(data, directory / "cut")
        for path in self._records.glob(f"{name}.*.record"):
            shutil.copyfile(path, directory / "last.record")

    def _moment(
        self, lines: dict[str, list[Line]], floor_ns: int, killed_ns: int
    ) -> tuple[str, int]:
        """At the end, at any time, beside a call on names, or at a write, before its sync."""
        every = [
            (name, line) for name in lines for line in lines[name]
            if floor_ns <= line.ns <= killed_ns
        ]  # fmt: skip
        luck = self._dice.random()
        if luck < 0.2 or not every:
            return "at the kill", killed_ns
        if luck < 0.35:
            ns = self._dice.randint(floor_ns or every[0][1].ns, killed_ns)
            return f"{(killed_ns - ns) / 1e9:.2f} s before the kill", ns
        kinds = _RARE if luck < 0.65 else "W"
        rare = [(name, line) for name, line in every if line.kind in kinds]
        name, line = self._dice.choice(rare or every)
        ns = max(floor_ns, min(killed_ns, line.ns + self._dice.choice(_BESIDE_NS)))
        what = line.name.replace("\0", " to ") or str(line.node)
        return f"beside {line.kind} {what} of {name}", ns


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def _is_segment(line: Line, kind: str) -> bool:
    return line.kind == kind and line.name.endswith(".journal")
