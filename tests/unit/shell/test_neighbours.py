"""Links and the log follow who is of the cluster."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedq.core.ids import NodeId
from fedq.shell.identity import IdentityFile
from fedq.shell.neighbours import Addresses, Neighbours
from fedq.wiring.cluster_map.state import Place
from tests.unit.shell.fakes import run, until

A, B, C, D = (NodeId(name) for name in "abcd")


class World:
    """A node whose map a test writes, and what its links and its log were told."""

    def __init__(
        self, data: Path, configured: dict[NodeId, str], stored: dict[NodeId, str]
    ) -> None:
        self.roster: dict[NodeId, Place] = {}
        self.is_up = False
        self.links: dict[NodeId, Addresses] = {}
        self.known: list[NodeId] = []
        self.dropped: list[NodeId] = []
        self.voters: tuple[NodeId, ...] = ()
        self.file = IdentityFile(data, A, [A])
        self.file.begin()
        self.neighbours = Neighbours(A, configured, stored)
        known = SimpleNamespace(roster=self.roster, is_up=lambda *_: self.is_up)
        node: Any = SimpleNamespace(me=A, settings=SimpleNamespace(incarnation=1), map=known)
        self.neighbours.connect(node, self, self, self.file, self.dropped.append)
        self.neighbours.start()

    def reach(self, peer: NodeId, addresses: Addresses) -> None:
        self.links[peer] = addresses

    def leave(self, peer: NodeId) -> None:
        del self.links[peer]

    def know(self, peer: NodeId) -> None:
        self.known.append(peer)

    def forget(self, peer: NodeId) -> bool:
        self.known.remove(peer)
        return True

    async def says(self, *, is_up: bool, **roster: str) -> None:
        """The map says so from now on."""
        self.is_up = is_up
        self.roster.clear()
        self.roster |= {NodeId(n): Place(address, "", True) for n, address in roster.items()}
        self.neighbours.follow()
        await asyncio.sleep(0)


def test_who_says_where_it_is_is_tried_there_too(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path, {A: "h:1", B: "h:2"}, {})
        await world.says(is_up=True, a="h:1", b="h:2")
        for node, address in ((B, "h:2"), (B, "h:9"), (B, "h:7"), (D, "h:8")):
            world.neighbours.try_at(node, address)
            await asyncio.sleep(0)
        assert world.links == {B: ("h:2", "h:7")}
        await world.says(is_up=True, a="h:1", b="h:7")
        assert world.links == {B: ("h:7", "h:2")}

    run(scene())


def test_links_open_move_and_close_by_the_roster(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path, {A: "a:1"}, {})
        assert not world.neighbours
        await world.says(is_up=True, a="a:1", b="b:1", c="c:1")
        assert world.links == {B: ("b:1",), C: ("c:1",)}
        assert world.known == [B, C]
        assert B in world.neighbours
        await world.says(is_up=True, a="a:1", b="b:2", d="d:1")
        assert world.links == {B: ("b:2",), D: ("d:1",)}
        assert world.dropped == [C]
        assert C not in world.neighbours
        assert dict(world.file.begin().roster) == {A: "a:1", B: "b:2", D: "d:1"}

    run(scene())


def test_an_old_map_leaves_out_nobody_whom_the_disk_or_the_file_names(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path, {A: "a:1", B: "b:9"}, {B: "b:1", C: "c:1"})
        assert world.links == {B: ("b:9", "b:1"), C: ("c:1",)}
        # A start reads what was long ago.
        await world.says(is_up=False, a="a:1", b="b:8", d="d:1")
        assert world.links == {B: ("b:9", "b:1", "b:8"), C: ("c:1",), D: ("d:1",)}
        assert world.file.begin().roster == ()
        await world.says(is_up=True, a="a:1", b="b:1", c="c:1")
        assert world.links == {B: ("b:1", "b:9"), C: ("c:1",)}

    run(scene())


def test_what_is_no_address_is_said_once_and_never_dialled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        # As a map has it that was written before addresses were checked.
        world = World(tmp_path, {A: "a:1"}, {B: "a..b:1", C: "c:1"})
        for _ in range(3):
            await world.says(is_up=True, a="a:1", b="a..b:1", c="garbage", d="d:1")
            assert world.links == {C: ("c:1",), D: ("d:1",)}
        # They are of the cluster all the same: what they say is heard.
        assert list(world.neighbours) == [B, C, D]
        await world.says(is_up=True, a="a:1", b="b:1", c="c:2", d="d:1")
        assert world.links == {B: ("b:1",), C: ("c:2",), D: ("d:1",)}

    run(scene())
    assert len([each for each in caplog.messages if "is no address" in each]) == 2


def test_whom_the_log_still_counts_keeps_its_link(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path, {A: "a:1", B: "b:1"}, {})
        world.voters = (A, B)
        await world.says(is_up=True, a="a:1")
        assert world.links == {B: ("b:1",)}
        world.voters = (A,)
        await world.says(is_up=True, a="a:1")
        assert world.links == {}

    run(scene())


def test_a_disk_that_is_full_is_asked_again(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("fedq.shell.neighbours._AGAIN_S", 0.001)

    async def scene() -> None:
        world = World(tmp_path, {A: "a:1"}, {})
        left = [OSError(28, "full"), OSError(28, "full")]
        remember = world.neighbours._remember

        def full(roster: Mapping[NodeId, str]) -> None:
            if left:
                raise left.pop()
            remember(roster)

        world.neighbours._remember = full
        await world.says(is_up=True, a="a:1", b="b:1")
        await until(lambda: not left)
        await until(lambda: (tmp_path / "identity.json").read_bytes().find(b"b:1") > 0)

    run(scene())
