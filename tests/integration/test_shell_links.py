"""Links between nodes over real gRPC: identity, order, breaking, and proof of a process's end."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from fedq.core import message as message_encoding
from fedq.core.ids import Incarnation, MapVersion, NodeId
from fedq.core.peer_messages import Heartbeat, PeerFrame, Relay
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.config.values import CertificateFiles
from fedq.shell.peers import channel as peer_channel
from fedq.shell.peers import stream as peer_stream
from fedq.shell.peers.certificates import NodeCertificates
from fedq.shell.peers.client import PeerClient, refuses_connections
from fedq.shell.peers.desk import PeerDesk, agreed_settings
from fedq.shell.peers.hello import Hello, Process, encode_hello
from fedq.shell.peers.proof import PeerProof
from fedq.shell.peers.server import PeerServer, PeerSink
from tests.integration.harness import ROOT, environment
from tests.integration.ports import free_ports
from tests.integration.waiting import patient
from tests.unit.shell.fakes import FakeNode, run, until

N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
HOST = "127.0.0.1"
SUSPECT_S = 0.5
SETTINGS = agreed_settings({N1: "", N2: ""}, 700, 1_800)


def hello_of(
    name: str, number: int = 1, start: str = "s", agreed: dict[str, str] = SETTINGS
) -> Hello:
    return Hello(NodeId(name), Process(Incarnation(number), start, 0), agreed)


def feed(method: Callable[..., None], *args: object) -> None:
    """An input without turns."""
    method(*args)


class RaftEnd:
    """The Raft log's side of the links: notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[NodeId, bytes]] = []
        self.connected: list[NodeId] = []

    def on_peer_connected(self, peer: NodeId) -> None:
        self.connected.append(peer)

    def on_peer_disconnected(self, peer: NodeId) -> None:
        if peer in self.connected:
            self.connected.remove(peer)

    def receive(self, peer: NodeId, data: bytes) -> None:
        self.heard.append((peer, data))


class End:
    """One node's ends of the links: it accepts, dials, and notes what happens."""

    def __init__(
        self, name: NodeId, files: CertificateFiles | None, hello: Hello | None = None,
        near: Mapping[str, Path] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.troubles: list[str] = []
        self.desk = PeerDesk(
            hello or hello_of(name),
            SUSPECT_S,
            time.monotonic,
            lambda _, sentence: self.troubles.append(sentence),
            proof=None if files is None else PeerProof(files),
        )
        self.files = files
        self.node = FakeNode()
        self.raft = RaftEnd()
        self.failures: list[str] = []
        held = None if files is None else NodeCertificates(files)
        self.client = PeerClient(
            self.desk, self.node, feed, self.raft, held, lambda why: self.failures.append(why),
            near or {},
        )  # fmt: skip
        self.server: grpc.aio.Server | None = None

    def messages(self) -> list[object]:
        """Everything that came in frames, in order."""
        frames = [heard for (heard,) in self.node.of("on_peer") if isinstance(heard, PeerFrame)]
        return [message for each in frames for message in each.messages]

    def dial(self, addresses: Mapping[NodeId, str]) -> None:
        """Dials all of them, from now on."""
        for peer, address in addresses.items():
            self.client.reach(peer, (address,))

    async def accept(self, place: int | str, peers: tuple[NodeId, ...] = (N1, N2)) -> None:
        """Listens at a port, or where gRPC is told."""
        sink = PeerSink(self.node, feed, self.raft.receive)
        server = grpc.aio.server(options=peer_channel.PEER_SERVER_OPTIONS)
        PeerServer(self.desk, peers, sink, is_secure=self.files is not None).add_to(server)
        place = f"{HOST}:{place}" if isinstance(place, int) else place
        if self.files is None:
            server.add_insecure_port(place)
        else:
            server.add_secure_port(place, peer_channel.server_credentials(self.files))
        await server.start()
        self.server = server

    async def stop(self) -> None:
        await self.client.stop()
        if self.server is not None:
            await self.server.stop(grace=None)
            self.server = None
        assert not self.failures


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[NodeId, CertificateFiles]:
    directory = tmp_path_factory.mktemp("certificates")
    make_authority(directory)
    return {node: make_node_certificate(directory, node, [HOST]) for node in (N1, N2, N3)}


@pytest.fixture(params=["mutual TLS", "plain"])
def files(
    request: pytest.FixtureRequest, certificates: dict[NodeId, CertificateFiles]
) -> dict[NodeId, CertificateFiles | None]:
    if request.param == "plain":
        return dict.fromkeys(certificates)
    return dict(certificates)


@asynccontextmanager
async def ends(*all_ends: End) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for end in all_ends:
            await end.stop()


def frame(sender: NodeId, number: int, *bodies: bytes) -> PeerFrame:
    """A frame with one relayed message for each body."""
    messages = [message_encoding.encode(0, b"\x00\x00", b"\x00\x00", body) for body in bodies]
    beat = Heartbeat(number, 0, leads=False)
    return PeerFrame(
        sender, Incarnation(1), (1, 1), number, 0, MapVersion(1), [Relay(1, "/", messages)], beat
    )


def test_two_nodes_link_and_frames_keep_their_order(
    files: dict[NodeId, CertificateFiles | None],
) -> None:
    async def scenario() -> None:
        one, two = End(N1, files[N1]), End(N2, files[N2])
        ports = free_ports(2)
        addresses = {N1: f"{HOST}:{ports[0]}", N2: f"{HOST}:{ports[1]}"}
        async with ends(one, two):
            await one.accept(ports[0])
            await two.accept(ports[1])
            one.dial(addresses)
            two.dial(addresses)
            await until(lambda: one.node.of("on_link_up") and two.node.of("on_link_up"))
            assert one.node.of("on_link_up") == [(N2, 1)]
            sent = [frame(N1, number, b"x" * number) for number in range(1, 200)]
            one.client.send(N2, sent[:50])
            for single in sent[50:]:
                one.client.send(N2, [single])
            two.client.send(N1, [frame(N2, 7, b"back")])
            # Those that waited while others were written came as one.
            await until(lambda: two.messages() and two.messages()[-1] == sent[-1].messages[-1])
            assert two.messages() == [message for each in sent for message in each.messages]
            await until(lambda: one.node.of("on_peer"))
            assert one.client.is_up(N2)

    run(scenario())


def test_raft_frames_travel_on_a_stream_of_their_own(
    files: dict[NodeId, CertificateFiles | None],
) -> None:
    async def scenario() -> None:
        one, two = End(N1, files[N1]), End(N2, files[N2])
        (port,) = free_ports(1)
        async with ends(one, two):
            assert one.client.send_raft(N2, b"too early") is False
            await two.accept(port)
            one.dial({N2: f"{HOST}:{port}"})
            await until(lambda: one.raft.connected == [N2])
            for number in range(100):
                assert one.client.send_raft(N2, b"%d" % number)
            await until(lambda: len(two.raft.heard) == 100)
            assert two.raft.heard == [(N1, b"%d" % number) for number in range(100)]
            assert two.server is not None
            await two.server.stop(grace=None)
            two.server = None
            await until(lambda: one.raft.connected == [])
            assert one.client.send_raft(N2, b"too late") is False

    run(scenario())


def test_a_worker_of_the_same_host_is_dialled_at_its_socket_while_it_has_one(
    files: dict[NodeId, CertificateFiles | None], tmp_path: Path
) -> None:
    async def scenario() -> None:
        (port,) = free_ports(1)
        address, near = f"{HOST}:{port}", tmp_path / "2"
        one = End(N1, files[N1], near={address: near})
        async with ends(one):
            first = End(N2, files[N2])
            async with ends(first):
                # Nobody listens at the port.
                await first.accept(f"unix:{near}")
                one.dial({N2: address})
                await until(lambda: one.client.is_up(N2))
                one.client.send(N2, [frame(N1, 1, b"near")])
                await until(lambda: first.node.of("on_peer"))
            await until(lambda: not one.client.is_up(N2))
            # Only the port says that the process is gone.
            await until(lambda: (N2, True) in one.node.of("on_link_down"))
            near.unlink(missing_ok=True)
            second = End(N2, files[N2])
            async with ends(second):
                await second.accept(port)
                await until(lambda: one.client.is_up(N2))

    run(scenario())


def test_a_large_message_passes() -> None:
    async def scenario() -> None:
        one, two = End(N1, None), End(N2, None)
        (port,) = free_ports(1)
        async with ends(one, two):
            await two.accept(port)
            one.dial({N2: f"{HOST}:{port}"})
            await until(lambda: one.client.is_up(N2))
            body = os.urandom(1024) * 20_000
            one.client.send(N2, [frame(N1, 1, body)])
            await until(lambda: two.node.of("on_peer"))
            assert two.node.of("on_peer") == [(frame(N1, 1, body),)]

    run(scenario())


def test_a_link_comes_back_when_the_peer_does() -> None:
    async def scenario() -> None:
        one, two = End(N1, None), End(N2, None)
        (port,) = free_ports(1)
        async with ends(one, two):
            one.dial({N2: f"{HOST}:{port}"})
            await until(lambda: (N2, True) in one.node.of("on_link_down"))
            one.client.send(N2, [frame(N1, 1, b"lost: nobody is there")])
            await two.accept(port)
            await until(lambda: one.client.is_up(N2), seconds=2)
            one.client.send(N2, [frame(N1, 2, b"kept")])
            await until(lambda: two.node.of("on_peer"))
            assert two.node.of("on_peer") == [(frame(N1, 2, b"kept"),)]

    run(scenario())


def test_a_peer_that_does_not_read_gets_a_new_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_stream, "QUEUE_BYTES_MAX", 1_000_000)

    async def deaf(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        await context.write(encode_hello(hello_of(N2)))
        await asyncio.Event().wait()

    async def scenario() -> None:
        one = End(N1, None)
        (port,) = free_ports(1)
        server = grpc.aio.server(options=peer_channel.PEER_SERVER_OPTIONS)
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Link": grpc.stream_stream_rpc_method_handler(deaf)
        }
        handler = grpc.method_handlers_generic_handler(peer_channel.SERVICE, handlers)
        server.add_generic_rpc_handlers((handler,))
        server.add_insecure_port(f"{HOST}:{port}")
        await server.start()
        async with ends(one):
            one.dial({N2: f"{HOST}:{port}"})
            await until(lambda: one.client.is_up(N2))
            large = frame(N1, 1, bytes(300_000))

            def is_cut() -> bool:
                one.client.send(N2, [large])
                return bool(one.node.of("on_link_down"))

            await until(is_cut)
            await until(lambda: len(one.node.of("on_link_up")) == 2)
            await server.stop(grace=None)

    run(scenario())


def test_peers_may_have_names(tmp_path: Path) -> None:
    make_authority(tmp_path)
    named = make_node_certificate(tmp_path, N2, ["localhost"])

    async def scenario() -> None:
        one, two = End(N1, make_node_certificate(tmp_path, N1, [HOST])), End(N2, named)
        (port,) = free_ports(1)
        async with ends(one, two):
            await two.accept(port)
            one.dial({N2: f"localhost:{port}"})
            await until(lambda: one.client.is_up(N2))

    run(scenario())


# --- the end of a process -------------------------------------------------------------------------

CHILD = """
import asyncio, sys
import uvloop
from tests.integration.test_shell_links import End, N2
async def main():
    end = End(N2, None)
    await end.accept(int(sys.argv[1]))
    print("ready", flush=True)
    await asyncio.Event().wait()
uvloop.run(main())
"""


class Child:
    """A process that accepts links as n2."""

    def __init__(self, port: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(port)],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
        )

    def wait_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@asynccontextmanager
async def linked_to_child() -> AsyncIterator[tuple[End, Child]]:
    """An end of this process whose link to a process of its own is up."""
    one = End(N1, None)
    (port,) = free_ports(1)
    child = Child(port)
    try:
        await asyncio.to_thread(child.wait_ready)
        async with ends(one):
            one.dial({N2: f"{HOST}:{port}"})
            await until(lambda: one.client.is_up(N2))
            yield one, child
    finally:
        child.end()


@pytest.mark.slow
def test_a_killed_process_is_known_to_be_gone_at_once() -> None:
    async def scenario() -> None:
        async with linked_to_child() as (one, child):
            one.node.inputs.clear()
            killed_at = time.monotonic()
            child.process.send_signal(signal.SIGKILL)
            await until(lambda: (N2, True) in one.node.of("on_link_down"))
            took_ms = (time.monotonic() - killed_at) * 1_000
            # 50 ms when nothing else runs here.
            assert took_ms < patient(300)
            count = len(one.node.of("on_link_down"))
            await until(lambda: len(one.node.of("on_link_down")) > count + 4)
            assert one.node.of("on_link_up") == []

    run(scenario())


@pytest.mark.slow
def test_a_frozen_process_loses_its_link_but_is_not_taken_for_gone() -> None:
    async def scenario() -> None:
        async with linked_to_child() as (one, child):
            child.process.send_signal(signal.SIGSTOP)
            await until(lambda: not one.client.is_up(N2), seconds=6)
            await until(lambda: one.node.of("on_link_down"))
            assert set(one.node.of("on_link_down")) == {(N2, False)}
            child.process.send_signal(signal.SIGCONT)
            await until(lambda: one.client.is_up(N2), seconds=6)

    run(scenario())


def test_only_a_refused_connection_is_proof() -> None:
    async def scenario() -> None:
        listening, free = free_ports(2)
        server = await asyncio.start_server(lambda _, writer: writer.close(), HOST, listening)
        assert await refuses_connections(f"{HOST}:{free}")
        assert await refuses_connections(f"localhost:{free}")
        assert not await refuses_connections(f"{HOST}:{listening}")
        assert not await refuses_connections(f"no-such-host.invalid:{free}")
        server.close()

    run(scenario())


def test_a_peer_is_found_at_the_address_that_answers_and_left_for_good(
    files: dict[NodeId, CertificateFiles | None],
) -> None:
    async def scenario() -> None:
        one, two = End(N1, files[N1]), End(N2, files[N2])
        nobody, port, elsewhere = free_ports(3)
        async with ends(one, two):
            await two.accept(port)
            one.client.reach(N2, (f"{HOST}:{nobody}", f"{HOST}:{port}"))
            await until(lambda: one.node.of("on_link_up"))
            # One address that refuses proves nothing.
            assert (N2, True) not in one.node.of("on_link_down")
            # What answers is among the new ones: the link stays.
            one.client.reach(N2, (f"{HOST}:{elsewhere}", f"{HOST}:{port}"))
            assert one.client.is_up(N2)
            one.client.leave(N2)
            assert one.node.of("on_link_down")[-1] == (N2, False)
            assert not one.client.is_up(N2)
            await until(lambda: not one.client._endings)
            ups = len(one.node.of("on_link_up"))
            one.client.reach(N2, (f"{HOST}:{port}",))
            await until(lambda: len(one.node.of("on_link_up")) > ups)
            one.client.reach(N2, (f"{HOST}:{nobody}",))
            await until(lambda: (N2, True) in one.node.of("on_link_down"))

    run(scenario())
