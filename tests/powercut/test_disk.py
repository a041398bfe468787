"""What the model of a disk leaves: all that was synced, and of the rest only what ever was."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.powercut.disk import Disk, Tree, UnknownCall, difference, read_tree, write_tree
from tests.powercut.record import Line

SEEDS = range(60)
#: A file of two pages and a half.
LONG = bytes(range(1, 251)) * 40


class Scribe:
    """Writes a record by hand: inodes are given out, and used again as soon as they are free."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.disk = Disk.of(directory)
        self._root = directory.stat().st_ino
        self._syncs = 0
        #: Each name's inode, and what a file with the inode has: the simplest file system.
        self.names: dict[str, int] = {}
        self.contents: dict[int, bytes] = {}

    def _do(self, kind: str, **more: Any) -> None:
        self.disk.do(Line(kind, 0, **more))

    def create(self, name: str) -> None:
        node = next(node for node in range(1, 1_000) if node not in self.names.values())
        self.names[name], self.contents[node] = node, b""
        self._do("C", place=self._root, name=name, node=node)

    def write(self, name: str, at: int, data: bytes) -> None:
        node = self.names[name]
        old = self.contents[node].ljust(at, b"\0")
        self.contents[node] = old[:at] + data + old[at + len(data) :]
        self._do("W", node=node, number=at, data=data)

    def append(self, name: str, data: bytes) -> None:
        self.write(name, len(self.contents[self.names[name]]), data)

    def truncate(self, name: str, length: int) -> None:
        node = self.names[name]
        self.contents[node] = self.contents[node][:length].ljust(length, b"\0")
        self._do("T", node=node, number=length)

    def rename(self, old: str, new: str) -> None:
        node = self.names[new] = self.names.pop(old)
        self._do("R", place=self._root, to=self._root, node=node, name=f"{old}\0{new}")

    def unlink(self, name: str) -> None:
        self._do("U", place=self._root, node=self.names.pop(name), name=name)

    def begin(self, name: str | None) -> int:
        self._syncs += 1
        self._do("B", node=self.names[name] if name else self._root, number=self._syncs)
        return self._syncs

    def end(self, number: int) -> None:
        self._do("E", number=number)

    def sync(self, name: str | None = None) -> None:
        self.end(self.begin(name))

    def seen(self) -> Tree:
        return {name: self.contents[node] for name, node in self.names.items()}


@pytest.fixture
def scribe(tmp_path: Path) -> Scribe:
    return Scribe(tmp_path / "data")


def cuts(scribe: Scribe) -> list[Tree]:
    return [scribe.disk.after_cut(random.Random(seed)) for seed in SEEDS]


def test_what_is_synced_with_its_name_stays(scribe: Scribe) -> None:
    scribe.create("file")
    scribe.write("file", 0, LONG)
    scribe.sync("file")
    scribe.sync()
    assert scribe.disk.loose == 0
    assert all(tree == {"file": LONG} for tree in cuts(scribe))


def test_a_synced_file_has_no_safe_name_by_that(scribe: Scribe) -> None:
    scribe.create("file")
    scribe.write("file", 0, LONG)
    scribe.sync("file")
    found = cuts(scribe)
    assert {} in found
    assert all(tree in ({}, {"file": LONG}) for tree in found)


def test_a_sync_covers_what_was_written_before_it_began(scribe: Scribe) -> None:
    scribe.create("file")
    scribe.sync()
    scribe.append("file", b"before")
    number = scribe.begin("file")
    scribe.append("file", b"meanwhile")
    assert any(not tree["file"] for tree in cuts(scribe))
    scribe.end(number)
    found = {tree["file"] for tree in cuts(scribe)}
    assert {b"before", b"beforemeanwhile"} <= found
    assert all((content or b"").startswith(b"before") for content in found)


def test_unsynced_pages_go_missing_and_tear_in_any_order(scribe: Scribe) -> None:
    scribe.create("file")
    scribe.append("file", LONG)
    scribe.sync("file")
    scribe.sync()
    scribe.append("file", b"x" * 20_000)
    scribe.append("file", b"y" * 20_000)
    contents = [tree["file"] or b"" for tree in cuts(scribe)]
    assert all(content.startswith(LONG) for content in contents)
    assert len({len(content) for content in contents}) > 10
    assert any(b"\0" * 4096 + b"y" in content for content in contents), "a hole before the end"
    assert any(b"\0" * 512 in content.partition(b"\0" * 4096)[0] for content in contents), "torn"
    assert {LONG, LONG + b"x" * 20_000 + b"y" * 20_000} <= set(contents)


def test_what_is_overwritten_is_old_or_new(scribe: Scribe) -> None:
    scribe.create("file")
    scribe.append("file", b"o" * 12_288)
    scribe.sync("file")
    scribe.sync()
    scribe.write("file", 4_000, b"n" * 4_000)
    for tree in cuts(scribe):
        content = tree["file"] or b""
        assert len(content) == 12_288
        assert set(content[4_000:8_000]) <= set(b"on")
        assert content[:4_000] + content[8_000:] == b"o" * 8_288


def test_a_truncation_happens_or_not(scribe: Scribe) -> None:
    scribe.create("file")
    scribe.append("file", b"o" * 1_000)
    scribe.sync("file")
    scribe.sync()
    scribe.truncate("file", 10)
    scribe.append("file", b"n" * 20)
    for tree in cuts(scribe):
        content = tree["file"] or b""
        assert content == b"o" * 1_000 or content[:10] == b"o" * 10
        assert len(content) == 1_000 or 10 <= len(content) <= 30


def test_a_rename_leaves_the_old_one_or_the_new_one_whole(scribe: Scribe) -> None:
    scribe.create("file")
    scribe.append("file", b"old")
    scribe.sync("file")
    scribe.sync()
    scribe.create("new")
    scribe.append("new", b"new")
    scribe.sync("new")
    scribe.rename("new", "file")
    found = cuts(scribe)
    allowed: list[Tree] = [{"file": b"old"}, {"file": b"old", "new": b"new"}, {"file": b"new"}]
    assert all(tree in allowed for tree in found)
    assert all(tree in found for tree in allowed)
    scribe.sync()
    assert cuts(scribe) == [{"file": b"new"}] * len(SEEDS)


def test_a_deleted_name_may_come_back_without_others(scribe: Scribe) -> None:
    for name in ("one", "two"):
        scribe.create(name)
        scribe.append(name, name.encode())
        scribe.sync(name)
    scribe.sync()
    scribe.unlink("one")
    scribe.unlink("two")
    found = {tuple(tree) for tree in cuts(scribe)}
    assert found == {(), ("one",), ("two",), ("one", "two")}


def test_an_inode_that_is_used_again_is_another_file(scribe: Scribe) -> None:
    scribe.create("one")
    scribe.append("one", b"one")
    scribe.sync("one")
    scribe.sync()
    node = scribe.names["one"]
    scribe.unlink("one")
    scribe.create("two")
    assert scribe.names["two"] == node
    scribe.append("two", b"two")
    for tree in cuts(scribe):
        assert tree.get("one", b"one") == b"one"
        assert (tree.get("two") or b"").strip(b"two\0") == b""


def test_what_is_not_understood_is_said(scribe: Scribe) -> None:
    with pytest.raises(UnknownCall, match="mmap of inode 7"):
        scribe.disk.do(Line("X", 0, node=7, name="mmap"))
    with pytest.raises(UnknownCall, match="from nowhere"):
        scribe.disk.do(Line("W", 0, node=7, data=b"?"))


def test_trees_are_read_as_they_are_written(tmp_path: Path) -> None:
    tree: Tree = {"folder": None, "folder/file": LONG, "empty": b""}
    write_tree(tmp_path, tree)
    assert read_tree(tmp_path) == tree
    assert Disk.of(tmp_path).now() == tree
    assert Disk.of(tmp_path).after_cut(random.Random(1)) == tree


def test_a_record_may_lack_the_last_call_and_no_more() -> None:
    tree: Tree = {"one": b"1", "two": b"2"}
    assert not difference(tree, tree)
    assert not difference(tree, {"one": b"1", "two": b"2+"})
    assert not difference(tree, {"one": b"1", "three": b"2"})
    assert difference(tree, {"one": b"1+", "two": b"2+"})
    assert difference(tree, {"one": b"1", "three": b"2", "four": b"4"})


# --- properties -----------------------------------------------------------------------------------

NAMES = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "write", "truncate", "rename", "unlink", "sync", "names"]),
        st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(0, 9_000),
        st.binary(min_size=1, max_size=40),
    ),
    max_size=40,
)  # fmt: skip


def play(scribe: Scribe, steps: list[tuple[str, str, str, int, bytes]]) -> None:
    for what, name, other, number, data in steps:
        if what == "names":
            scribe.sync()
            continue
        if name not in scribe.names:
            scribe.create(name)
        match what:
            case "append":
                scribe.append(name, data * (1 + number % 300))
            case "write":
                scribe.write(name, number, data)
            case "truncate":
                scribe.truncate(name, number)
            case "unlink":
                scribe.unlink(name)
            case "rename" if name != other:
                scribe.rename(name, other)
            case _:
                scribe.sync(name)


@given(steps=STEPS, seed=st.integers())
def test_the_model_sees_what_a_process_sees(
    tmp_path_factory: pytest.TempPathFactory, steps: Any, seed: int
) -> None:
    scribe = Scribe(tmp_path_factory.mktemp("disk") / "data")
    play(scribe, steps)
    assert scribe.disk.now() == scribe.seen()
    for name in scribe.names:
        scribe.sync(name)
    scribe.sync()
    assert scribe.disk.loose == 0
    assert scribe.disk.after_cut(random.Random(seed)) == scribe.seen()


@given(before=STEPS, after=STEPS, seed=st.integers())
def test_synced_bytes_survive_whatever_is_appended(
    tmp_path_factory: pytest.TempPathFactory, before: Any, after: Any, seed: int
) -> None:
    scribe = Scribe(tmp_path_factory.mktemp("disk") / "data")
    play(scribe, before)
    for name in scribe.names:
        scribe.sync(name)
    scribe.sync()
    synced = scribe.seen()
    play(scribe, [step for step in after if step[0] in ("append", "names", "sync")])
    left = scribe.disk.after_cut(random.Random(seed))
    for name, content in synced.items():
        assert (left[name] or b"").startswith(content or b"")
    for name, content in left.items():
        assert len(content or b"") <= len(scribe.seen()[name] or b"")
