"""How nodes introduce themselves: proven names, equal settings, and one process of a name."""

from pathlib import Path

import grpc
import grpc.aio
import pytest

from fedq.core.ids import NodeId
from fedq.core.versions import NEWEST, OLDEST
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.config.values import CertificateFiles
from fedq.shell.peers import channel as peer_channel
from fedq.shell.peers.codec import encode_frame
from fedq.shell.peers.desk import PeerDesk, agreed_settings
from fedq.shell.peers.hello import Hello, encode_hello
from tests.integration.ports import free_ports
from tests.integration.test_shell_links import (
    HOST,
    N1,
    N2,
    N3,
    SUSPECT_S,
    End,
    ends,
    frame,
    hello_of,
)
from tests.integration.test_shell_links import (
    certificates as certificates,
)
from tests.unit.shell.fakes import run, until

# --- who may speak --------------------------------------------------------------------------------


def introduced(hello: Hello) -> tuple[tuple[str, str | bytes], ...]:
    """The metadata of a call."""
    return (
        (peer_channel.NODE_METADATA, hello.node),
        (peer_channel.HELLO_METADATA, encode_hello(hello)),
    )


async def refusal(
    channel: grpc.aio.Channel, name: str | None, data: bytes = b""
) -> grpc.aio.AioRpcError:
    """How a Link call ends that says it is `name` and sends `data`."""
    metadata: tuple[tuple[str, str | bytes], ...] = ()
    if name is not None:
        metadata = introduced(hello_of(name))
    opened: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
    opened = channel.stream_stream(peer_channel.LINK_METHOD)
    call = opened(metadata=metadata)
    with pytest.raises(grpc.aio.AioRpcError) as caught:  # noqa: PT012 - it ends anywhere here
        if data:
            await call.read()
            await call.write(data)
        while isinstance(await call.read(), bytes):
            continue
        raise AssertionError("the call ended well")
    return caught.value


@pytest.mark.parametrize(
    ("holder", "name", "sentence"),
    [
        (N2, "n1", "certificate does not speak for 'n1'"),
        (N3, "n3", "'n3' is no peer of n1"),
        (N1, "n1", "'n1' is no peer of n1"),
        (N2, None, "say who you are"),
    ],
)
def test_a_caller_must_be_a_peer_and_prove_it(
    certificates: dict[NodeId, CertificateFiles],
    holder: NodeId,
    name: str | None,
    sentence: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        end = End(N1, certificates[N1])
        (port,) = free_ports(1)
        async with ends(end):
            await end.accept(port)
            channel = peer_channel.open_channel(f"{HOST}:{port}", certificates[holder])
            error = await refusal(channel, name)
            assert error.code() is grpc.StatusCode.PERMISSION_DENIED
            assert sentence in (error.details() or "")
            await channel.close()
            assert not end.node.inputs

    run(scenario())
    assert sentence in caplog.text, "the operator of the refusing node sees it, too"


def test_a_certificate_of_another_authority_gets_no_connection(
    certificates: dict[NodeId, CertificateFiles], tmp_path: Path
) -> None:
    make_authority(tmp_path)
    foreign = make_node_certificate(tmp_path, N2, [HOST])

    async def scenario() -> None:
        end = End(N1, certificates[N1])
        (port,) = free_ports(1)
        async with ends(end):
            await end.accept(port)
            trusting = CertificateFiles(
                certificates[N1].authority, foreign.certificate, foreign.key
            )
            for files in (foreign, trusting, None):
                channel = peer_channel.open_channel(f"{HOST}:{port}", files)
                error = await refusal(channel, "n2")
                assert error.code() is grpc.StatusCode.UNAVAILABLE
                await channel.close()
            assert not end.node.inputs

    run(scenario())


def test_a_node_at_a_wrong_address_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        one, three = End(N1, None), End(N3, None)
        (port,) = free_ports(1)
        async with ends(one, three):
            await three.accept(port, (N1, N3))
            one.dial({N2: f"{HOST}:{port}"})
            await until(lambda: one.node.of("on_link_down"))
            assert one.node.of("on_link_up") == []
            assert set(one.node.of("on_link_down")) == {(N2, False)}

    with caplog.at_level("INFO"):
        run(scenario())
    assert "n3 answers at its address; correct `peers`" in caplog.text


def test_a_member_that_answers_in_anothers_place_hears_nothing(
    certificates: dict[NodeId, CertificateFiles], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        # Its certificate is the cluster's, and good for that host: only the name is another's.
        one, impostor = End(N1, certificates[N1]), End(N2, certificates[N3])
        (port,) = free_ports(1)
        async with ends(one, impostor):
            await impostor.accept(port)
            one.dial({N2: f"{HOST}:{port}"})
            await until(lambda: (N2, False) in one.node.of("on_link_down"))
            assert one.node.of("on_link_up") == []
            assert not one.client.send_raft(N2, b"a vote")
            assert one.troubles, "the operator sees it in the status, too"

    run(scenario())
    assert "the address of n2 is answered by somebody else" in caplog.text
    assert "a certificate for fedq:node:n3" in caplog.text


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xff\xff\xff", "not a peer frame"),
        (encode_frame(frame(N3, 1, b"x")), "a frame of n3 in the stream of n2"),
    ],
)
def test_bytes_that_are_no_frame_end_the_stream(data: bytes, sentence: str) -> None:
    async def scenario() -> None:
        end = End(N1, None)
        (port,) = free_ports(1)
        async with ends(end):
            await end.accept(port)
            channel = peer_channel.open_channel(f"{HOST}:{port}", None)
            error = await refusal(channel, "n2", data)
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert sentence in (error.details() or "")
            await channel.close()
            assert not end.node.inputs

    run(scenario())


def test_a_newer_stream_replaces_the_older_one() -> None:
    async def scenario() -> None:
        end = End(N1, None)
        (port,) = free_ports(1)
        async with ends(end):
            await end.accept(port)
            older = peer_channel.open_channel(f"{HOST}:{port}", None)
            newer = peer_channel.open_channel(f"{HOST}:{port}", None)
            calls: list[grpc.aio.StreamStreamCall[bytes, bytes]] = []
            for channel in (older, newer):
                opened: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
                opened = channel.stream_stream(peer_channel.LINK_METHOD)
                calls.append(opened(metadata=introduced(hello_of("n2"))))
                assert isinstance(await calls[-1].read(), bytes)
            await until(calls[0].done)
            await calls[1].write(encode_frame(frame(N2, 1, b"new")))
            await until(lambda: end.node.of("on_peer"))
            await older.close()
            await newer.close()

    run(scenario())


# --- the same settings, and one process of a name ---


@pytest.mark.parametrize(
    ("agreed", "sentence"),
    [
        (agreed_settings({N1: "", N2: "", N3: ""}, 700, 1_800), "peers is 'n1, n2' at n1 and"),
        (agreed_settings({N1: "", N2: ""}, 900, 1_800), "timing.lease_ms is '700' at n1 and '900'"),
        ({}, "timing.suspect_ms is '1800' at n1 and 'unknown' at n2"),
    ],
)
def test_settings_that_must_be_equal_and_are_not_keep_nodes_apart(
    agreed: dict[str, str], sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one, two = End(N1, None), End(N2, None, hello_of(N2, agreed=agreed))
        ports = free_ports(2)
        async with ends(one, two):
            for end, port in zip((one, two), ports, strict=True):
                await end.accept(port)
            one.dial({N2: f"{HOST}:{ports[1]}"})
            two.dial({N1: f"{HOST}:{ports[0]}"})
            await until(lambda: any(sentence in each for each in one.troubles))
            await until(lambda: bool(two.troubles))
            assert not one.node.of("on_link_up")
            assert not two.node.of("on_link_up")
            assert not one.raft.connected
            assert not two.raft.connected

    run(scenario())
    assert "Correct the wrong file and start its node again" in caplog.text


def test_the_second_process_of_a_name_is_refused_and_ends_and_the_first_goes_on() -> None:
    async def scenario() -> None:
        one, two = End(N1, None), End(N2, None)
        twin = End(N2, None, hello_of(N2, 2, "t"))
        ports = free_ports(3)
        async with ends(one, two):
            for end, port in zip((one, two, twin), ports, strict=True):
                await end.accept(port)
            one.dial({N2: f"{HOST}:{ports[1]}"})
            two.dial({N1: f"{HOST}:{ports[0]}"})
            await until(lambda: one.client.is_up(N2) and two.client.is_up(N1))
            twin.dial({N1: f"{HOST}:{ports[0]}"})
            number = 0

            def the_twin_was_told() -> bool:
                nonlocal number
                number += 1
                two.client.send(N1, [frame(N2, number, b"here")])
                return bool(twin.failures)

            await until(the_twin_was_told)
            assert "two processes call themselves 'n2'" in twin.failures[0]
            assert one.troubles[0] == twin.failures[0]
            assert not two.failures
            assert not two.node.of("on_link_down"), "the first one was not disturbed"
            assert not twin.node.of("on_link_up")
            twin.failures.clear()
            await twin.stop()

    run(scenario())


def test_a_new_process_at_the_same_address_is_let_in_at_once() -> None:
    async def scenario() -> None:
        one, two = End(N1, None), End(N2, None)
        again = End(N2, None, hello_of(N2, 2, "t"))
        ports = free_ports(2)
        async with ends(one, again):
            await one.accept(ports[0])
            await two.accept(ports[1])
            two.dial({N1: f"{HOST}:{ports[0]}"})
            await until(lambda: two.client.is_up(N1))
            await two.stop()
            await again.accept(ports[1])
            again.desk.answered(hello_of(N1))
            one.desk.answered(again.desk.hello)
            again.dial({N1: f"{HOST}:{ports[0]}"})
            await until(lambda: again.client.is_up(N1), seconds=SUSPECT_S)

    run(scenario())


@pytest.mark.parametrize(
    ("known", "is_behind"), [((3, "later"), True), ((1, "s"), False), ((0, ""), False)]
)
def test_a_node_whose_later_self_is_known_hears_so_before_its_stream_is_up(
    known: tuple[int, str], is_behind: bool
) -> None:
    async def scenario() -> None:
        one, two = End(N1, None), End(N2, None)
        (port,) = free_ports(1)
        was_up: list[bool] = []
        async with ends(one, two):
            await two.accept(port)
            two.desk.known_of = {N1: known}.__getitem__
            one.desk.on_behind = lambda: was_up.append(bool(one.node.of("on_link_up")))
            one.dial({N2: f"{HOST}:{port}"})
            await until(lambda: one.client.is_up(N2))
            assert (was_up[:1] == [False]) is is_behind

    run(scenario())


# --- releases -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speaks", "cluster", "sentence"),
    [
        ((3, OLDEST - 1), 0, "update n2"),
        ((NEWEST + 1, NEWEST + 2), 0, "update this node"),
        ((NEWEST, NEWEST + 2), NEWEST + 1, "update this node"),
        ((NEWEST, NEWEST + 2), NEWEST, None),
        ((NEWEST, NEWEST + 2), 0, None),
        ((OLDEST - 1, OLDEST), OLDEST, None),
    ],
)
def test_releases_work_together_if_they_have_a_version_in_common(
    speaks: tuple[int, int], cluster: int, sentence: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one = End(N1, None)
        two = End(N2, None, hello_of("n2")._replace(speaks=speaks))
        two.desk.cluster_version = lambda: cluster
        one_port, two_port = free_ports(2)
        async with ends(one, two):
            await one.accept(one_port)
            await two.accept(two_port)
            one.dial({N2: f"{HOST}:{two_port}"})
            two.dial({N1: f"{HOST}:{one_port}"})
            if sentence is None:
                await until(lambda: one.node.of("on_link_up") and two.node.of("on_link_up"))
                return
            await until(lambda: one.node.of("on_link_down") and two.node.of("on_link_down"))
            assert not [*one.node.of("on_link_up"), *two.node.of("on_link_up")]
            assert sentence in one.troubles[0]

    run(scenario())
    assert sentence is None or "of what nodes say to each other" in caplog.text


def test_who_cannot_speak_what_the_cluster_speaks_is_refused() -> None:
    mine = hello_of("n1")._replace(speaks=(NEWEST, NEWEST + 2))
    one = PeerDesk(mine, SUSPECT_S, lambda: 0.0, lambda *_: None)
    one.cluster_version = lambda: NEWEST + 1
    refusal = one.judge(hello_of("n2")._replace(speaks=(NEWEST, NEWEST)))
    assert refusal is not None
    assert refusal.is_lasting
    assert f"the cluster version {NEWEST + 1}" in refusal.sentence
    assert one.judge(hello_of("n2")._replace(speaks=(NEWEST, NEWEST + 1))) is None
