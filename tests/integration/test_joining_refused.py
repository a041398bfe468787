"""Who is not let into a cluster that runs, with what to do; and what a stranger can do: nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from fedq.core.errors import NodeFailure
from fedq.core.ids import Incarnation, NodeId
from fedq.core.limits import NODES_MAX
from fedq.core.versions import NEWEST
from fedq.shell import joining
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.config.file import parse
from fedq.shell.config.values import ConfigError, NodeConfig
from fedq.shell.config.yaml import Value
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peers.admitting import JOIN_METHOD
from fedq.shell.peers.channel import HELLO_METADATA, NODE_METADATA, open_channel
from fedq.shell.peers.desk import agreed_settings
from fedq.shell.peers.hello import Hello, Process, encode_hello
from fedq.shell.runner import NodeRunner
from tests.integration.ports import free_ports
from tests.unit.shell.fakes import until

pytestmark = pytest.mark.slow

HOST = "127.0.0.1"
WITHIN_S = 30.0


class Site:
    """Directories and ports of nodes that run on this event loop."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.running: list[NodeRunner] = []
        self.ports: dict[str, int] = {}

    def address(self, name: str) -> str:
        port = self.ports.setdefault(name, 0) or free_ports(1)[0]
        self.ports[name] = port
        return f"{HOST}:{port}"

    def config(self, name: str, *join: str, **more: Value) -> NodeConfig:
        self.address(name)
        values: dict[str, Value] = {
            "node": name,
            "data": f"{name}-data",
            "amqp": {"listen": [{"host": HOST, "port": free_ports(1)[0]}]},
            "peer": {"host": HOST, "port": self.ports[name]},
            "admin": None,
        }
        if join:
            values["join"] = [self.address(each) for each in join]
        return parse(values | more, base=self.base)

    async def start(self, config: NodeConfig) -> NodeRunner:
        runner = NodeRunner(config)
        await runner.start()
        self.running.append(runner)
        await until(lambda: runner.node.state.serving, WITHIN_S)
        await until(lambda: runner.node.state.map.roster, WITHIN_S)
        return runner

    async def stop(self, *runners: NodeRunner) -> None:
        for runner in runners or tuple(self.running):
            self.running.remove(runner)
            await runner.stop()

    def certificates(self, authority: str, name: str) -> dict[str, Value]:
        """Files of a node, by an authority of that name."""
        directory = self.base / authority
        if not directory.exists():
            directory.mkdir()
            make_authority(directory)
        files = make_node_certificate(directory, NodeId(name), [HOST])
        return {
            "authority": str(files.authority),
            "certificate": str(files.certificate),
            "key": str(files.key),
        }


@asynccontextmanager
async def site(base: Path) -> AsyncIterator[Site]:
    made = Site(base)
    try:
        yield made
    finally:
        await made.stop()


def play(tmp_path: Path, scene: Callable[[Site], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with site(tmp_path) as made:
            await scene(made)

    asyncio.run(main())


def test_what_is_wrong_with_a_node_that_joins_is_said(tmp_path: Path) -> None:
    async def scene(made: Site) -> None:
        one = await made.start(made.config("a"))
        with pytest.raises(ConfigError, match=r"this is node 'a' of the cluster: give yours"):
            await made.start(twin_of(made))
        slow: dict[str, Value] = {"lease_ms": 3_000, "suspect_ms": 7_000}
        with pytest.raises(ConfigError, match=r"timing.lease_ms is '700' at a and '3000' at b"):
            await made.start(made.config("b", "a", timing=slow))
        two = await made.start(made.config("b", "a"))
        other = made.config("b", "a", data="elsewhere")
        made.ports.pop("b")
        await made.stop(two)
        with pytest.raises(ConfigError, match=r"there is a node 'b' in the cluster, with another"):
            await made.start(other)
        assert one.node.state.map.roster.keys() == {"a", "b"}

    play(tmp_path, scene)


def twin_of(made: Site) -> NodeConfig:
    """Another node that calls itself a, at an address of its own."""
    values: dict[str, Value] = {
        "node": "a",
        "data": "twin-data",
        "amqp": {"listen": [{"host": HOST, "port": free_ports(1)[0]}]},
        "peer": {"host": HOST, "port": free_ports(1)[0]},
        "admin": None,
        "join": [made.address("a")],
    }
    return parse(values, base=made.base)


def test_a_node_of_another_cluster_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    async def scene(made: Site) -> None:
        one = await made.start(made.config("a"))
        other = await made.start(made.config("x"))
        third = await made.start(made.config("b", "x"))
        await made.stop(third)
        # A directory that joined belongs to that cluster; its address has changed, so it asks.
        del made.ports["b"]
        third = await made.start(made.config("b", "a"))
        assert third.node.state.map.roster.keys() == {"x", "b"}
        await made.stop(other, third)
        del made.ports["b"]
        with pytest.raises(ConfigError, match=r"belongs to cluster .*empty data directory"):
            await made.start(made.config("b", "a"))
        # Whoever has a cluster goes on in that, and may keep `join` in its file.
        other = NodeRunner(made.config("x", "a"))
        await other.start()
        made.running.append(other)
        assert "x" in other.raft.voters
        assert "a" not in other.raft.voters
        assert one.failure is None
        assert one.node.state.serving

    play(tmp_path, scene)


def test_another_authority_and_nobody_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "PATIENCE_S", 1.0)

    async def scene(made: Site) -> None:
        await made.start(made.config("a", certificates=made.certificates("ours", "a")))
        theirs = made.certificates("theirs", "b")
        with pytest.raises(ConfigError, match="of another authority than this node's"):
            await made.start(made.config("b", "a", certificates=theirs))
        # A certificate for another name than the node's own is found out before it asks.
        with pytest.raises(ConfigError, match="certificates"):
            await made.start(made.config("c", "a", certificates=made.certificates("ours", "d")))
        with pytest.raises(NodeFailure, match=r"no node of a cluster has let node 'e' in .*join"):
            await made.start(made.config("e", "nobody"))
        two = await made.start(made.config("f", "a", certificates=made.certificates("ours", "f")))
        assert two.node.state.map.roster.keys() == {"a", "f"}

    play(tmp_path, scene)


def test_a_stranger_finds_a_bounded_roster_and_leaves_nothing_else(tmp_path: Path) -> None:
    async def scene(made: Site) -> None:
        one = await made.start(made.config("a"))
        state = one.node.state
        async with open_channel(made.address("a"), None) as channel:
            call: Any = channel.unary_unary(JOIN_METHOD)
            for data, metadata in (
                (b"", ()),
                (b"\xff" * 100, ((NODE_METADATA, "z"),)),
                (b"", ((NODE_METADATA, "z"), (HELLO_METADATA, b"\xff\xff"))),
                (b"\xff" * 100, said("z")),
                (b"\x0a" + b"x" * 2_000, said("z")),
                (request("no address"), said("z")),
                (request("0.0.0.0:1"), said("z")),
                (request(f"{HOST}:1"), said("z", speaks=(1, 2))),
                (request(f"{HOST}:1"), said("z", speaks=(NEWEST + 5, NEWEST + 6))),
                (request(f"{HOST}:1"), said("z", belongs_to="another")),
                (request(made.address("a")), said("z")),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call(data, metadata=metadata)
                assert refused.value.code() in (
                    grpc.StatusCode.PERMISSION_DENIED,
                    grpc.StatusCode.FAILED_PRECONDITION,
                )
                assert refused.value.details()
            assert state.map.roster.keys() == {"a"}
            codes = [
                await code_of(
                    call(request(f"{HOST}:{1_000 + number}"), metadata=said(f"x{number}"))
                )
                for number in range(NODES_MAX + 60)
            ]
            assert codes.count(grpc.StatusCode.OK) == NODES_MAX - 1
            assert len(state.map.roster) == NODES_MAX
            applied = one.raft.applied_index
            for number in range(200):
                metadata = said(f"y{number}")
                assert await code_of(call(request(f"{HOST}:1"), metadata=metadata)) is (
                    grpc.StatusCode.FAILED_PRECONDITION
                )
            # Nobody who is refused costs the cluster a commit, or is remembered.
            assert one.raft.applied_index - applied < 50
        assert not [subject for subject in state.found if "y1" in subject or "x1" in subject]
        assert state.serving
        assert one.raft.voters == ("a",)

    play(tmp_path, scene)


def said(name: str, **more: Any) -> tuple[tuple[str, str | bytes], ...]:
    """The metadata of a caller."""
    process = Process(Incarnation(1), "0123456789abcdef", 1)
    hello = Hello(NodeId(name), process, agreed_settings((), 700, 1_800))._replace(**more)
    return ((NODE_METADATA, name), (HELLO_METADATA, encode_hello(hello)))


def request(address: str) -> bytes:
    return pb.JoinRequest(peer_address=address, directory="some disk").SerializeToString()


async def code_of(call: Any) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
