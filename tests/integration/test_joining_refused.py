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
from fedq.shell.peers.channel import HELLO_METADATA, NODE_METADATA, SERVICE, open_channel
from fedq.shell.peers.desk import agreed_settings
from fedq.shell.peers.hello import Hello, Process, encode_hello
from fedq.shell.runner import NodeRunner
from tests.integration.ports import free_ports
from tests.unit.shell.fakes import until

pytestmark = pytest.mark.slow

HOST = "127.0.0.1"
OK = grpc.StatusCode.OK
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
                # A resolver raises what is no `OSError` for these.
                (request("a..b:5672"), said("z")),
                (request(f"{'x' * 64}:1"), said("z")),
                (request(f"{HOST}:1"), said("z", speaks=(1, 2))),
                (request(f"{HOST}:1"), said("z", speaks=(NEWEST + 5, NEWEST + 6))),
                (request(f"{HOST}:1"), said("z", belongs_to="another")),
                (request(made.address("a")), said("z")),
                # Without certificates all nodes are on one host.
                (request("203.0.113.7:25"), said("z")),
                (request(f"{HOST}:1"), said("evil name")),
                (request(f"{HOST}:1"), said("z", belongs_to="B" * 300)),
                (request(f"{HOST}:1"), said("z", agreed={"x\n2026 ERROR forged": "y"})),
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


def test_who_asks_again_and_again_costs_few_commits_and_log_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(made: Site) -> None:
        one = await made.start(made.config("a"))
        async with open_channel(made.address("a"), None) as channel:
            call: Any = channel.unary_unary(JOIN_METHOD)
            assert await code_of(call(request(f"{HOST}:1"), metadata=said("z"))) is OK
            applied = one.raft.applied_index
            for number in range(50):
                other = pb.JoinRequest(peer_address=f"{HOST}:1", directory=f"disk {number}")
                refused = await code_of(call(other.SerializeToString(), metadata=said("z")))
                assert refused is grpc.StatusCode.FAILED_PRECONDITION
            moves = [
                code_of(call(request(f"{HOST}:{2 + number}"), metadata=said("z")))
                for number in range(50)
            ]
            moved = await asyncio.gather(*moves)
            assert moved.count(grpc.StatusCode.UNAVAILABLE) > 40
            assert one.raft.applied_index - applied < 20

    caplog.set_level("WARNING")
    play(tmp_path, scene)
    assert 1 <= len([line for line in caplog.messages if "refused to let" in line]) < 20


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: b"\xff\xff\xff",
        lambda _: b"",
        lambda own: joined(own, q="garbage"),
        lambda own: joined(own, q="a..b:1"),
        lambda own: joined(own, **{"evil name": f"{HOST}:1"}),
        lambda own: joined(own, **{f"n{each}": f"{HOST}:1" for each in range(3_000)}),
        lambda own: joined(own, **{f"n{each}": f"{HOST}:1" for each in range(NODES_MAX)}),
        lambda own: joined(f"{own}1", q=f"{HOST}:1"),
    ],
)
def test_an_answer_that_no_cluster_gives_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], bytes]
) -> None:
    monkeypatch.setattr(joining, "PATIENCE_S", 0.2)

    async def scene(made: Site) -> None:
        async def give(data: bytes, context: Any) -> bytes:
            await context.send_initial_metadata(said("q")[1:])
            return answer(pb.JoinRequest.FromString(data).peer_address)

        async with answering(made, give):
            with pytest.raises(NodeFailure, match=r"let node 'b' in \(.*its answer"):
                await made.start(made.config("b", "q"))
        # Nothing of it is on the disk: the node may join another cluster.
        await made.start(made.config("a"))
        await made.start(made.config("b", "a"))

    play(tmp_path, scene)


def test_a_node_that_is_stopped_while_it_asks_ends_at_once(tmp_path: Path) -> None:
    async def scene(made: Site) -> None:
        asked = asyncio.Event()

        async def wait(_: bytes, __: Any) -> bytes:
            asked.set()
            await asyncio.Event().wait()
            return b""

        async with answering(made, wait):
            runner = NodeRunner(made.config("b", "q"))
            starting = asyncio.create_task(runner.start())
            await asked.wait()
            runner.request_stop()
            # Much earlier than the call's own deadline.
            with pytest.raises(joining.StoppedJoining):
                await asyncio.wait_for(starting, joining._CALL_S / 2)

    play(tmp_path, scene)


@asynccontextmanager
async def answering(
    made: Site, answer: Callable[[bytes, Any], Coroutine[Any, Any, bytes]]
) -> AsyncIterator[None]:
    """Somebody at the address of q who takes calls of `Join`."""
    server = grpc.aio.server()
    handler: Any = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"Join": handler}),)
    )
    server.add_insecure_port(made.address("q"))
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


def joined(own: str, **roster: str) -> bytes:
    return pb.JoinAnswer(cluster="c", roster={"b": own, **roster}).SerializeToString()


def test_a_node_that_joined_goes_on_with_a_file_that_names_other_nodes(tmp_path: Path) -> None:
    async def scene(made: Site) -> None:
        await made.start(made.config("a"))
        two = await made.start(made.config("b", "a"))
        await made.stop(two)
        stale: dict[str, Value] = {name: made.address(name) for name in ("a", "b", "x")}
        two = await made.start(made.config("b", peers=stale, peer=None))
        # The link to it has been tried, and has failed, before the map leaves it out.
        await until(lambda: NodeId("x") not in two._neighbours, WITHIN_S)
        assert two.is_linked(NodeId("a"))
        assert two.failure is None

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
