"""A model of a data directory on a disk: what is safe on it, and what a power cut may leave.

Inputs: the directory as it was, all of it safe, and the lines of the record since. Outputs: `now`,
what the directory looks like to a process; `after_cut`, what may be left of it. The rules:

* What was synced stays: a file's bytes up to the beginning of a sync that came back well, a
  directory's names likewise. A file that is synced has no safe name by that.
* Each 4 KiB page that was written since may be on disk or not, as it was at any moment since, in
  any order; or torn, each of its sectors from another moment. A file is as long as it was at some
  moment since, or anything between; what is missing below its end is zeros.
* A truncation happens after what was before it, of which nothing need be on disk.
* Creations, links, renames and deletions since happen as a whole or not at all: a beginning of
  them, as ext4 has it in its journal, or any part, as POSIX allows, but in order for each name.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Self

from tests.powercut.record import Line

PAGE: Final = 4096
SECTOR: Final = 512

#: Path below the directory: content; None is a directory.
Tree = dict[str, bytes | None]


class UnknownCall(Exception):
    """The process did something that the record does not tell enough about."""


class Write(NamedTuple):
    """Bytes that were written at a place."""

    at: int
    data: bytes


class Truncate(NamedTuple):
    """A length that was set."""

    length: int


Change = Write | Truncate


def change_all(image: bytearray, changes: Iterable[Change]) -> None:
    """Does the changes to the content, one after the other."""
    for change in changes:
        if isinstance(change, Truncate):
            del image[change.length :]
            image.extend(bytes(change.length - len(image)))
        else:
            end = change.at + len(change.data)
            image.extend(bytes(max(0, change.at - len(image))))
            image[change.at : end] = change.data


@dataclass(eq=False)
class File:
    """Content that is safe, and the changes since."""

    safe: bytearray = field(default_factory=bytearray)
    later: list[Change] = field(default_factory=list)
    #: How many changes there were in all.
    count: int = 0

    def change(self, change: Change) -> None:
        """Notes a change that is not safe yet."""
        self.later.append(change)
        self.count += 1

    def sync(self, count: int) -> None:
        """The first `count` changes of all are safe."""
        size = max(0, count - (self.count - len(self.later)))
        change_all(self.safe, self.later[:size])
        del self.later[:size]

    def now(self) -> bytes:
        """The content as processes see it."""
        image = bytearray(self.safe)
        change_all(image, self.later)
        return bytes(image)

    def after_cut(self, dice: random.Random, chance: float) -> bytes:
        """Content that may be left; `chance`: of what was not synced to be there."""
        if chance == 1:
            return self.now()
        image = bytearray(self.safe)
        if chance == 0:
            return bytes(image)
        writes: list[Write] = []
        for change in self.later:
            if isinstance(change, Write):
                writes.append(change)
            elif dice.random() < chance:
                image = leave_some(image, writes, dice, chance)
                change_all(image, [change])
                writes = []
            else:
                break
        return bytes(leave_some(image, writes, dice, chance))


def leave_some(
    safe: bytearray, writes: list[Write], dice: random.Random, chance: float
) -> bytearray:
    """Some of the writes, in pages and in any order, on top of what is safe."""
    image = bytearray(safe)
    #: Each page that was touched, as it was at each moment.
    moments: dict[int, list[bytes]] = {}
    for write in writes:
        pages = range(write.at // PAGE, -(-(write.at + len(write.data)) // PAGE))
        for page in pages:
            moments.setdefault(page, [_page(image, page)])
        change_all(image, [write])
        for page in pages:
            moments[page].append(_page(image, page))
    longest = len(image)
    left = bytearray(safe)
    left.extend(bytes(longest - len(safe)))
    for page, forms in moments.items():
        found = _form(forms, dice, chance)
        size = min(PAGE, longest - page * PAGE)
        left[page * PAGE : page * PAGE + size] = found[:size]
    end = longest if dice.random() < chance else dice.randint(len(safe), longest)
    del left[end:]
    return left


def _page(image: bytearray, page: int) -> bytes:
    return bytes(image[page * PAGE : (page + 1) * PAGE]).ljust(PAGE, b"\0")


def _form(forms: list[bytes], dice: random.Random, chance: float) -> bytes:
    """One form of a page, or one that is torn."""
    luck = dice.random()
    if luck < chance * 0.8:
        return forms[-1]
    if luck < 0.8:
        return dice.choice(forms)
    return b"".join(dice.choice(forms)[at : at + SECTOR] for at in range(0, PAGE, SECTOR))


@dataclass(eq=False)
class Folder:
    """Names that are safe; those since are `Move`s."""

    safe: dict[str, "Node"] = field(default_factory=dict)


Node = File | Folder
#: A name in a directory, by the directory's identity.
_Key = tuple[int, str]


@dataclass(eq=False)
class Move:
    """What happened to names, as one: each of them is given something, or nothing."""

    given: list[tuple[Folder, str, Node | None]]
    number: int
    #: Directories of it that were not synced since.
    unsynced: set[Folder] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.unsynced = {folder for folder, _, _ in self.given}

    @property
    def keys(self) -> set[_Key]:
        """The names."""
        return {(id(folder), name) for folder, name, _ in self.given}

    def do(self, names: dict[Folder, dict[str, Node]]) -> None:
        """Does it."""
        for folder, name, node in self.given:
            entries = names.setdefault(folder, dict(folder.safe))
            if node is None:
                entries.pop(name, None)
            else:
                entries[name] = node


class Disk:
    """One data directory."""

    def __init__(self) -> None:
        self.root = Folder()
        #: What an inode is at the moment; numbers are used again.
        self._nodes: dict[int, Node] = {}
        self._moves: list[Move] = []
        self._count = 0
        #: Syncs that have begun: what they cover.
        self._syncs: dict[int, tuple[Node, int]] = {}

    @classmethod
    def of(cls, directory: Path) -> Self:
        """The directory as it is, all of it safe."""
        disk = cls()
        disk._load(directory, disk.root)
        return disk

    def _load(self, directory: Path, folder: Folder) -> None:
        self._nodes[directory.stat().st_ino] = folder
        for path in sorted(directory.iterdir()):
            inode = path.stat().st_ino
            if path.is_dir():
                inner = Folder()
                self._load(path, inner)
                folder.safe[path.name] = inner
            else:
                file = self._nodes.setdefault(inode, File(bytearray(path.read_bytes())))
                folder.safe[path.name] = file

    # --- what happens -----------------------------------------------------------------------------

    def do(self, line: Line) -> None:
        """Takes in one line of the record; raises `UnknownCall`."""
        match line.kind:
            case "C":
                self._nodes[line.node] = File()
                self._give(self._folder(line.place), line.name, self._nodes[line.node])
            case "M":
                self._nodes[line.node] = Folder()
                self._give(self._folder(line.place), line.name, self._nodes[line.node])
            case "L":
                self._give(self._folder(line.place), line.name, self._file(line.node))
            case "U" | "D":
                self._give(self._folder(line.place), line.name, None)
            case "R":
                self._rename(line)
            case "W":
                self._file(line.node).change(Write(line.number, line.data))
            case "T":
                self._file(line.node).change(Truncate(line.number))
            case "B":
                node = self._node(line.node)
                count = node.count if isinstance(node, File) else self._count
                self._syncs[line.number] = node, count
            case "E":
                self._sync(*self._syncs.pop(line.number))
            case _:
                raise UnknownCall(f"{line.name or line.kind} of inode {line.node}")

    def _node(self, inode: int) -> Node:
        if inode not in self._nodes:
            raise UnknownCall(f"inode {inode} came from nowhere")
        return self._nodes[inode]

    def _file(self, inode: int) -> File:
        node = self._node(inode)
        assert isinstance(node, File), "bytes are in files"
        return node

    def _folder(self, inode: int) -> Folder:
        node = self._node(inode)
        assert isinstance(node, Folder), "names are in directories"
        return node

    def _give(self, folder: Folder, name: str, node: Node | None) -> None:
        self._move([(folder, name, node)])

    def _rename(self, line: Line) -> None:
        old, _, new = line.name.partition("\0")
        self._move([
            (self._folder(line.place), old, None),
            (self._folder(line.to), new, self._node(line.node)),
        ])  # fmt: skip

    def _move(self, given: list[tuple[Folder, str, Node | None]]) -> None:
        self._moves.append(Move(given, self._count))
        self._count += 1

    def _sync(self, node: Node, count: int) -> None:
        if isinstance(node, File):
            node.sync(count)
            return
        for move in self._moves:
            if move.number < count:
                move.unsynced.discard(node)
        # What a safe one builds on is safe, too, though a directory of it was not synced.
        wanted: set[_Key] = set()
        for move in reversed(self._moves):
            if not move.unsynced or move.keys & wanted:
                move.unsynced.clear()
                wanted |= move.keys
        for move in self._moves:
            if not move.unsynced:
                for folder, name, given in move.given:
                    folder.safe.pop(name, None)
                    if given is not None:
                        folder.safe[name] = given
        self._moves = [move for move in self._moves if move.unsynced]

    # --- what there is ----------------------------------------------------------------------------

    @property
    def loose(self) -> int:
        """How many changes are not safe, of names, and of what has a name."""
        nodes = {node for _, node in _walk(self.root, self._names(self._moves), "")}
        changes = sum(len(node.later) for node in nodes if isinstance(node, File))
        return changes + len(self._moves)

    def now(self) -> Tree:
        """The directory as processes see it."""
        return self._tree(self._moves, random.Random(0), 1)

    def after_cut(self, dice: random.Random) -> Tree:
        """What may be left when the power goes now."""
        chance = dice.choice([0, 0.1, 0.5, 0.9, 1])
        return self._tree(_some_moves(self._moves, dice), dice, chance)

    @staticmethod
    def _names(moves: list[Move]) -> dict[Folder, dict[str, Node]]:
        """The names of each directory in which something has moved."""
        names: dict[Folder, dict[str, Node]] = {}
        for move in moves:
            move.do(names)
        return names

    def _tree(self, moves: list[Move], dice: random.Random, chance: float) -> Tree:
        tree: Tree = {}
        contents: dict[File, bytes] = {}
        for path, node in _walk(self.root, self._names(moves), ""):
            if isinstance(node, Folder):
                tree[path] = None
            else:
                if node not in contents:
                    contents[node] = node.after_cut(dice, chance)
                tree[path] = contents[node]
        return tree


def _some_moves(moves: list[Move], dice: random.Random) -> list[Move]:
    """Those that happened: a beginning, or any part in which each name's order is kept."""
    if dice.random() < 0.5:
        return moves[: dice.randint(0, len(moves))]
    chance = dice.choice([0.2, 0.5, 0.8])
    left: list[Move] = []
    lost: set[_Key] = set()
    for move in moves:
        if move.keys & lost or dice.random() >= chance:
            lost |= move.keys
        else:
            left.append(move)
    return left


def _walk(
    folder: Folder, names: dict[Folder, dict[str, Node]], prefix: str
) -> Iterator[tuple[str, Node]]:
    for name, node in sorted(names.get(folder, folder.safe).items()):
        yield prefix + name, node
        if isinstance(node, Folder):
            yield from _walk(node, names, f"{prefix}{name}/")


def read_tree(directory: Path) -> Tree:
    """A directory on this machine."""
    return {
        str(path.relative_to(directory)): None if path.is_dir() else path.read_bytes()
        for path in sorted(directory.rglob("*"))
    }


def write_tree(directory: Path, tree: Tree) -> None:
    """Fills an empty directory, which may be read by its owner alone."""
    for name, content in sorted(tree.items()):
        path = directory / name
        if content is None:
            path.mkdir(mode=0o700)
        else:
            path.touch(mode=0o600)
            path.write_bytes(content)


def difference(record: Tree, seen: Tree) -> str:
    """Why the record cannot be complete; "" if it may be.

    Of what the process did last, the kill may have taken the line: one file has more content, or
    one name, or two of a rename, are others.
    """
    names = sorted(record.keys() ^ seen.keys())
    contents = [name for name in record if name in seen and record[name] != seen[name]]
    if len(names) + len(contents) <= (2 if names else 1):
        return ""
    return f"names {names}, contents {sorted(contents)}"
