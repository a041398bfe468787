"""A node that is gone is taken out of a cluster that runs: by its map, its log and its disks."""

import asyncio
from pathlib import Path

import orjson
import pytest

from fedq.core.ids import NodeId
from fedq.shell.config.file import parse
from fedq.shell.config.yaml import Value
from fedq.shell.runner import NodeRunner
from fedq.wiring.cluster_map.map import Result
from fedq.wiring.cluster_map.operations_members import ForgetNode
from fedq.wiring.cluster_map.state import Ok
from tests.integration.ports import free_ports
from tests.unit.shell.fakes import until

pytestmark = pytest.mark.slow

NAMES = tuple(NodeId(f"n{number}") for number in range(1, 5))
STAY, GONE = NAMES[:3], NAMES[3]
#: For nodes to serve, or to see that one does not.
WITHIN_S = 60.0


class Nodes:
    """Real nodes on this event loop, with one configuration for all starts."""

    def __init__(self, base: Path) -> None:
        self.base = base
        ports = free_ports(2 * len(NAMES))
        self._peers = {str(name): f"127.0.0.1:{ports.pop()}" for name in NAMES}
        self._amqp = {name: ports.pop() for name in NAMES}
        self.runners: dict[NodeId, NodeRunner] = {}

    async def start(self, *names: NodeId) -> None:
        for name in names:
            values: dict[str, Value] = {
                "node": str(name),
                "data": f"{name}-data",
                "peers": {**self._peers},
                "amqp": {"listen": [{"host": "127.0.0.1", "port": self._amqp[name]}]},
                "admin": None,
                "timing": {"lease_ms": 3_000, "suspect_ms": 7_000},
            }
            self.runners[name] = NodeRunner(parse(values, base=self.base))
            await self.runners[name].start()

    async def stop(self, *names: NodeId) -> None:
        for name in names or tuple(self.runners):
            await self.runners.pop(name).stop()

    def all_serve(self) -> bool:
        return all(
            runner.node.state.serving and runner.node.state.map.roster
            for runner in self.runners.values()
        )

    def votes(self, name: NodeId) -> tuple[tuple[NodeId, ...], ...]:
        runner = self.runners[name]
        return runner.raft.voters, runner.node.state.map.voters, runner.node.state.voters


def test_a_node_is_forgotten_while_the_others_run(tmp_path: Path) -> None:
    async def main() -> None:
        nodes = Nodes(tmp_path)
        try:
            await shrink(nodes)
            await come_back(nodes)
            await go_on(nodes)
        finally:
            await nodes.stop()

    asyncio.run(main())


async def shrink(nodes: Nodes) -> None:
    await nodes.start(*NAMES)
    await until(nodes.all_serve, WITHIN_S)
    incarnation = nodes.runners[GONE].node.state.settings.incarnation
    await nodes.stop(GONE)
    first = nodes.runners[STAY[0]]
    await until(lambda: not first.node.state.map.members[GONE].up, WITHIN_S)
    answers: list[Result] = []
    first.input(first.node.on_change_asked, ForgetNode(GONE, incarnation), answers.append)
    await until(lambda: all(set(nodes.votes(name)) == {STAY} for name in STAY), WITHIN_S)
    assert answers == [Ok(1)]
    for name in STAY:
        identity = orjson.loads((nodes.base / f"{name}-data" / "identity.json").read_bytes())
        assert identity["voters"][1] == list(STAY)


async def come_back(nodes: Nodes) -> None:
    await nodes.start(GONE)
    await until(lambda: nodes.runners[GONE].failure is not None, WITHIN_S)
    assert "was taken out of this cluster" in str(nodes.runners[GONE].failure)
    await nodes.stop(GONE)


async def go_on(nodes: Nodes) -> None:
    """The configurations still name four; two of three are a majority."""
    await nodes.stop()
    await nodes.start(*STAY)
    await until(nodes.all_serve, WITHIN_S)
    assert all(set(nodes.votes(name)) == {STAY} for name in STAY)
    await nodes.stop(STAY[2])
    members = nodes.runners[STAY[0]].node.state.map.members
    await until(lambda: not members[STAY[2]].up, WITHIN_S)
    await until(nodes.all_serve, WITHIN_S)
