"""Members ask each other: who asks proves its name, and so does who answers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from fedq.core.ids import Incarnation, NodeId
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.config.values import CertificateFiles
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from fedq.shell.peers.channel import HELLO_METADATA, open_channel, server_credentials
from fedq.shell.peers.desk import PeerDesk
from fedq.shell.peers.hello import Hello, Process, encode_hello
from fedq.shell.peers.proof import PeerProof
from fedq.shell.peers.questions import AskingPeer, ProofGuard
from tests.unit.shell.fakes import run

N1, N2, N3, STRANGER = NodeId("n1"), NodeId("n2"), NodeId("n3"), NodeId("stranger")
PEERS = (N1, N2, N3)
HOST = "127.0.0.1"
ASKED = ("/fedq.admin.v1.Admin/LocalNode",)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[NodeId, CertificateFiles]:
    """All of one authority, and for one host."""
    directory = tmp_path_factory.mktemp("certificates")
    make_authority(directory)
    return {name: make_node_certificate(directory, name, [HOST]) for name in (*PEERS, STRANGER)}


def hello(node: NodeId) -> Hello:
    return Hello(node, Process(Incarnation(1), "start", 0), {})


class Member(admin_pb2_grpc.AdminServicer):
    """One member: its desk, and an admin service that counts what it is asked."""

    def __init__(self, name: NodeId, files: CertificateFiles) -> None:
        self.name = name
        self.files = files
        self.troubles: list[str] = []
        self.asked: list[str] = []
        self.desk = PeerDesk(
            hello(name), 1.0, lambda: 0.0, lambda _, text: self.troubles.append(text),
            proof=PeerProof(files),
        )  # fmt: skip

    async def LocalNode(self, _: object, __: object) -> pb.LocalNodeReply:
        self.asked.append("LocalNode")
        return pb.LocalNodeReply(figures=pb.NodeFigures(node=N2))

    async def PutUser(self, _: object, __: object) -> pb.PutUserReply:
        self.asked.append("PutUser")
        return pb.PutUserReply()

    @asynccontextmanager
    async def serving(self, *, is_guarded: bool = True) -> AsyncIterator[str]:
        guards = [ProofGuard(self.desk, PEERS, ASKED)] if is_guarded else []
        server = grpc.aio.server(interceptors=guards)
        admin_pb2_grpc.add_AdminServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        port = server.add_secure_port(f"{HOST}:0", server_credentials(self.files))
        await server.start()
        try:
            yield f"{HOST}:{port}"
        finally:
            await server.stop(None)

    async def ask(self, peer: NodeId, address: str) -> pb.LocalNodeReply:
        """As the node asks another one."""
        async with open_channel(address, self.files, [AskingPeer(self.desk, peer)]) as channel:
            stub: Any = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
            reply: pb.LocalNodeReply = await stub.LocalNode(pb.LocalNodeRequest(), timeout=10)
            return reply


async def fails(answer: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer
    return caught.value.code(), str(caught.value.details())


def test_members_answer_each_other(files: dict[NodeId, CertificateFiles]) -> None:
    one, two = (Member(name, files[name]) for name in (N1, N2))

    async def scenario() -> None:
        async with two.serving() as address:
            for _ in range(2):
                reply = await one.ask(N2, address)
                assert reply.figures.node == N2

    run(scenario())
    assert two.asked == ["LocalNode"] * 2
    assert one.troubles == []


@pytest.mark.parametrize("said", [(), (N1,), (STRANGER,), (N1, N1), (b"nonsense",)])
def test_a_stranger_with_a_certificate_for_the_host_hears_nothing(
    files: dict[NodeId, CertificateFiles], said: tuple[NodeId | bytes, ...]
) -> None:
    two = Member(N2, files[N2])
    shown = [
        (HELLO_METADATA, each if isinstance(each, bytes) else encode_hello(hello(each)))
        for each in said
    ]

    async def scenario() -> None:
        async with two.serving() as address, open_channel(address, files[STRANGER]) as channel:
            stub: Any = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
            for call, request in (
                (stub.LocalNode, pb.LocalNodeRequest()),
                (stub.PutUser, pb.PutUserRequest(name="mallory")),
            ):
                asked = call(request, metadata=shown, timeout=10)
                code, details = await fails(asked)
                assert code is grpc.StatusCode.UNAUTHENTICATED
                assert details.endswith("ask the admin port")
                assert not tuple(await asked.initial_metadata() or ()), "nothing else is said"

    run(scenario())
    assert two.asked == []


def test_a_member_does_not_speak_for_another_one(files: dict[NodeId, CertificateFiles]) -> None:
    """Nor can it get a signature for what another one asked."""
    one, two = (Member(name, files[name]) for name in (N1, N2))
    relayed = one.desk.asking()

    async def scenario() -> None:
        async with two.serving() as address, open_channel(address, files[N3]) as channel:
            stub: Any = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
            shown = ((HELLO_METADATA, encode_hello(relayed)),)
            asked = stub.LocalNode(pb.LocalNodeRequest(), metadata=shown, timeout=10)
            assert (await fails(asked))[0] is grpc.StatusCode.UNAUTHENTICATED
            assert not tuple(await asked.initial_metadata() or ())

    run(scenario())
    assert two.asked == []


@pytest.mark.parametrize("is_guarded", [True, False])
def test_who_answers_in_the_place_of_another_one_is_not_believed(
    files: dict[NodeId, CertificateFiles], is_guarded: bool
) -> None:
    """n3 listens at the address of n2, on the same host; with its own name, or with none."""
    one, three = (Member(name, files[name]) for name in (N1, N3))

    async def scenario() -> None:
        async with three.serving(is_guarded=is_guarded) as address:
            code, details = await fails(one.ask(N2, address))
            assert code is grpc.StatusCode.UNAUTHENTICATED
            assert "answered by somebody else" in details

    run(scenario())
    [trouble] = one.troubles
    assert trouble.startswith("the address of n2 is answered by somebody else")


def test_a_member_that_is_away_is_just_away(
    files: dict[NodeId, CertificateFiles], tmp_path: Path
) -> None:
    """And so is one of another authority, with whom there is no TLS."""
    make_authority(tmp_path)
    one = Member(N1, files[N1])
    foreign = Member(N2, make_node_certificate(tmp_path, N2, [HOST]))

    async def scenario() -> None:
        async with foreign.serving() as address:
            assert (await fails(one.ask(N2, address)))[0] is grpc.StatusCode.UNAVAILABLE
        assert (await fails(one.ask(N2, address)))[0] is grpc.StatusCode.UNAVAILABLE

    run(scenario())
    assert one.troubles == []
