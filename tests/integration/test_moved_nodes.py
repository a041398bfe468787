"""A node that is reached elsewhere now, and is itself needed for the majority that notes that."""

from pathlib import Path

import pytest

from fedq.core.ids import NodeId
from fedq.shell import opening
from tests.integration.test_joining_refused import WITHIN_S, Site, play
from tests.unit.shell.fakes import until

pytestmark = pytest.mark.slow


def test_one_of_two_voters_may_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_MOVED_S", 0.5)

    async def scene(made: Site) -> None:
        one = await made.start(made.config("a"))
        two = await made.start(made.config("b", "a"))
        await until(lambda: one.raft.voters == two.raft.voters == ("a", "b"), WITHIN_S)
        await made.stop(two)
        del made.ports["b"]
        two = await made.start(made.config("b", "a"))
        await until(lambda: one.node.state.serving and two.node.state.serving, WITHIN_S)
        for runner in (one, two):
            place = runner.node.state.map.roster[NodeId("b")]
            assert place.peer_address == made.address("b")

    play(tmp_path, scene)
