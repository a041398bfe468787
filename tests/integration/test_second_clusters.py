"""No second cluster beside one that grew: its only founder, emptied or put back, leads nothing."""

import shutil
from pathlib import Path
from typing import Any

import grpc
import pytest

from fedq.shell.peers.admitting import JOIN_METHOD
from fedq.shell.peers.channel import open_channel
from fedq.shell.runner import NodeRunner
from tests.integration.test_joining_refused import (
    HOST,
    WITHIN_S,
    Site,
    code_of,
    play,
    request,
    said,
)
from tests.unit.shell.fakes import until

pytestmark = pytest.mark.slow

SUBJECT = "callers of a cluster"


async def begun(made: Site) -> NodeRunner:
    """The node a, started with the file that it had when it was alone."""
    runner = NodeRunner(made.config("a"))
    await runner.start()
    made.running.append(runner)
    return runner


async def leads_nothing(one: NodeRunner, sentence: str) -> None:
    """It says why, and that it goes on when it would long lead."""
    state = one.node.state
    await until(lambda: sentence in state.found.get(SUBJECT, ("", 0))[0], WITHIN_S)
    until_ms = state.found[SUBJECT][1] + 2_500
    await until(lambda: state.found[SUBJECT][1] > until_ms, WITHIN_S)
    assert state.leader is None
    assert not state.serving
    assert one.failure is None


def test_the_founder_emptied_or_put_back_leads_nothing_beside_what_grew(tmp_path: Path) -> None:
    async def scene(made: Site) -> None:
        data, copy = made.base / "a-data", made.base / "copy"
        one = await made.start(made.config("a"))
        await made.stop(one)
        shutil.copytree(data, copy)
        one = await made.start(made.config("a"))
        two = await made.start(made.config("b", "a"))
        await until(lambda: two.raft.voters == ("a", "b"), WITHIN_S)
        await made.stop(one)
        for emptied, sentence in ((False, "does not know it"), (True, "a is of no cluster yet")):
            shutil.rmtree(data)
            if not emptied:
                shutil.copytree(copy, data)
            one = await begun(made)
            await leads_nothing(one, sentence)
            await made.stop(one)
        await until(lambda: not two.node.state.serving, WITHIN_S)
        async with open_channel(made.address("b"), None) as channel:
            # Who is cut off knows of a while ago: it refuses nobody for good.
            call: Any = channel.unary_unary(JOIN_METHOD)
            asked = call(request(f"{HOST}:1"), metadata=said("z", belongs_to="another"))
            assert await code_of(asked) is grpc.StatusCode.UNAVAILABLE
        # What calls it is gone: it founds its own.
        await made.stop(two)
        one = await made.start(made.config("a"))
        assert one.node.state.map.roster.keys() == {"a"}

    play(tmp_path, scene)
