"""What readers of streams are answered, by a real node: chunks, or a status with a sentence."""

import asyncio
import struct
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import grpc
import pytest

from fedq.admin import stream_answers, stream_chunks
from fedq.admin.bounds import CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, STREAM_NUMBER_MAX, STREAM_TIMES_MAX
from fedq.admin.refusal import AdminError
from fedq.admin.stream_answers import StreamAnswers
from fedq.amqp.methods import QueueDeclare, QueueDeclareOk
from fedq.core.ids import NodeId, QueueKey
from fedq.core.message import split
from fedq.node.records.streams.scans import Scan
from fedq.node.views.stream_view import StreamView
from fedq.shell.pb import streams_pb2 as pb
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_access import (
    AddVhost,
    ClearPermissions,
    PutUser,
    SetPermissions,
)
from tests.unit.node.harness import Cluster
from tests.unit.node.streams.test_larger_than_memory import bodies, filled, publish

#: The node harness's user.
USER = "guest"


class Served:
    """A node's answers about streams, in turns of a cluster."""

    def __init__(self, cluster: Cluster, name: str = "n1") -> None:
        self.cluster = cluster
        self.host = cluster.hosts[NodeId(name)]
        self.view = StreamView(cluster.node(name))
        self.answers = StreamAnswers(self.view, self._ask, self._done)
        #: How many scans are under way, and were at most.
        self.under_way = self.most = 0
        #: What happens before a scan is asked for.
        self.before: Callable[[], None] = lambda: None

    def _ask(self, key: QueueKey, scan: Scan) -> None:
        self.before()
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.host.inbox.append(lambda node: node.streams.scanning.on_asked(key, scan))
        self.cluster.settle()

    def _done(self, key: QueueKey, scan: Scan) -> None:
        self.under_way -= 1
        self.host.inbox.append(lambda node: node.streams.scanning.on_done(key, scan))
        self.cluster.settle()

    def change(self, operation: Operation) -> None:
        """Has the cluster map changed."""
        heard: list[object] = []
        self.host.inbox.append(lambda node: node.on_change_asked(operation, heard.append))
        self.cluster.wait_for(lambda: bool(heard))

    def describe(self, stream: str = "s", vhost: str = "/", user: str = USER) -> pb.DescribeReply:
        return self.answers.describe(user, pb.DescribeRequest(vhost=vhost, stream=stream))

    def read(self, user: str = USER, **fields: Any) -> list[pb.Chunk]:
        """All pieces of a read."""
        values: dict[str, Any] = {"vhost": "/", "stream": "s", "end": 20}
        request = pb.ReadRequest(**(values | fields))

        async def collect() -> list[pb.Chunk]:
            async with aclosing(self.answers.read(user, request)) as chunks:
                return [chunk async for chunk in chunks]

        return asyncio.run(collect())

    def refusal(self, **fields: Any) -> AdminError:
        with pytest.raises(AdminError) as caught:
            self.read(**fields)
        assert self.under_way == 0
        assert self.cluster.node(self.host.name).state.scanned_bytes == 0
        return caught.value


def texts_of(chunks: list[pb.Chunk]) -> list[str]:
    """The bodies in pieces of chunks."""
    texts: list[str] = []
    left = list(chunks)
    while left:
        chunk = left.pop(0)
        data = chunk.data
        while len(data) < chunk.data_bytes:
            data += left.pop(0).data
        at = 0
        for (length,) in struct.iter_unpack(">I", chunk.lengths):
            texts.append(split(data[at : at + length])[2].decode())
            at += length
        assert at == len(data) == chunk.data_bytes
        assert sum(each.last - each.first + 1 for each in chunk.ranges) == len(chunk.lengths) // 4
    return texts


@pytest.fixture
def served() -> Served:
    cluster = Cluster(1)
    filled(cluster, 60)
    return Served(cluster)


def test_a_stream_is_described(served: Served) -> None:
    told = served.describe()
    assert told.node == "n1"
    [fragment] = told.fragments
    assert (fragment.number, fragment.home) == (0, "n1")
    assert (fragment.served.first, fragment.served.next) == (0, 60)
    assert [(each.first, each.last) for each in fragment.served.ranges] == [(0, 59)]


def test_a_read_is_all_that_is_between_two_offsets_in_chunks(served: Served) -> None:
    chunks = served.read(begin=7, end=55, chunk_bytes=CHUNK_BYTES_MIN)
    assert texts_of(chunks) == bodies(7, 55)
    assert chunks[-1].next == 55
    assert served.under_way == 0
    assert served.read(begin=7, end=7) == []


def test_bodies_travel_in_pieces(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_chunks, "CHUNK_PIECE_BYTES_MAX", 50)
    chunks = served.read(begin=3, end=30)
    assert len(chunks) > 60
    assert max(len(chunk.data) for chunk in chunks) == 50
    assert texts_of(chunks) == bodies(3, 30)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"begin": 5, "end": 4}, "begin is 5, behind the end, 4"),
        ({"end": STREAM_NUMBER_MAX + 1}, "at most"),
        ({"begin": (1 << 64) - 1, "end": (1 << 64) - 1}, "at most"),
        ({"chunk_bytes": CHUNK_BYTES_MIN - 1}, "ask for"),
        ({"chunk_bytes": CHUNK_BYTES_MAX + 1}, "ask for"),
        ({"chunk_bytes": (1 << 32) - 1}, "ask for"),
        ({"vhost": ""}, "vhost: a name of 1 to 255 bytes"),
        ({"stream": ""}, "stream: a name of 1 to 255 bytes"),
        ({"stream": "ä" * 128}, "stream: a name of 1 to 255 bytes"),
    ],
)
def test_what_can_never_be_right_is_refused(
    served: Served, fields: dict[str, object], sentence: str
) -> None:
    refusal = served.refusal(**fields)
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert sentence in refusal.text


def test_what_is_not_there_is_not_found(served: Served) -> None:
    missing = served.refusal(stream="other")
    assert missing.code is grpc.StatusCode.NOT_FOUND
    assert "no stream 'other' in vhost '/'" in missing.text
    fragment = served.refusal(fragment=1)
    assert fragment.code is grpc.StatusCode.NOT_FOUND
    assert "no fragment 1: it has 1" in fragment.text
    assert served.refusal(fragment=(1 << 32) - 1).code is grpc.StatusCode.NOT_FOUND


def test_a_queue_that_is_no_stream_is_not_read(served: Served) -> None:
    client = served.cluster.client()
    client.ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    refusal = served.refusal(stream="q")
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    assert "is no stream" in refusal.text
    with pytest.raises(AdminError, match="is no stream"):
        served.describe("q")


def test_it_takes_read_permission_and_a_virtual_host(served: Served) -> None:
    served.change(AddVhost("v"))
    served.change(PutUser("robot", "", (), False))
    for user, vhost in (("robot", "/"), (USER, "v"), (USER, "none"), ("mallory", "/")):
        refusal = served.refusal(user=user, vhost=vhost)
        assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
        assert f"access to vhost '{vhost}' refused for user '{user}'" in refusal.text
    served.change(SetPermissions("robot", "/", ".*", ".*", "s.+"))
    refusal = served.refusal(user="robot")
    assert refusal.code is grpc.StatusCode.PERMISSION_DENIED
    assert "no read permission" in refusal.text
    with pytest.raises(AdminError, match="no read permission"):
        served.describe(user="robot")
    served.change(SetPermissions("robot", "/", "", "", "s"))
    assert texts_of(served.read(user="robot")) == bodies(20)
    # Nobody hears whether something is there that may not be read.
    assert served.refusal(user="robot", stream="x").code is grpc.StatusCode.PERMISSION_DENIED


def test_a_permission_that_is_taken_away_ends_a_read(served: Served) -> None:
    served.change(PutUser("robot", "", (), False))
    served.change(SetPermissions("robot", "/", "", "", "s"))
    publish(served.cluster, served.cluster.client(), range(60, 1_000))
    got: list[pb.Chunk] = []

    async def read() -> None:
        request = pb.ReadRequest(vhost="/", stream="s", end=1_000, chunk_bytes=CHUNK_BYTES_MIN)
        async with aclosing(served.answers.read("robot", request)) as chunks:
            async for chunk in chunks:
                got.append(chunk)
                served.change(ClearPermissions("robot", "/"))

    with pytest.raises(AdminError, match="access to vhost '/' refused for user 'robot'"):
        asyncio.run(read())
    assert len(got) == 1
    assert 0 < len(texts_of(got)) < 1_000


def test_a_node_that_does_not_lead_names_the_one_that_does() -> None:
    cluster = Cluster(3)
    filled(cluster, 20)
    elsewhere = Served(cluster, "n2")
    refusal = elsewhere.refusal()
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    assert "is served by n1: ask that node" in refusal.text
    assert refusal.metadata == (("fedq-home", "n1"),)
    [fragment] = elsewhere.describe().fragments
    assert (fragment.home, fragment.HasField("served")) == ("n1", False)


def test_what_is_not_there_yet_is_not_waited_for_for_ever(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_answers, "CHUNK_WAIT_MS", 20)
    refusal = served.refusal(begin=50, end=70)
    assert refusal.code is grpc.StatusCode.UNAVAILABLE
    assert "not there yet" in refusal.text


def test_times_are_few_and_not_too_late(served: Served) -> None:
    times = [1] * (STREAM_TIMES_MAX + 1)
    for wrong in (times, [STREAM_NUMBER_MAX + 1]):
        request = pb.DescribeRequest(vhost="/", stream="s", times=wrong)
        with pytest.raises(AdminError, match="at most"):
            served.answers.describe(USER, request)
    request = pb.DescribeRequest(vhost="/", stream="s", times=[0, STREAM_NUMBER_MAX])
    [fragment] = served.answers.describe(USER, request).fragments
    assert list(fragment.served.since) == [0, 60]


@pytest.mark.parametrize(("most", "of_one"), [(3, 5), (5, 3)])
def test_so_many_reads_have_a_chunk_in_hand_and_others_wait(
    monkeypatch: pytest.MonkeyPatch, most: int, of_one: int
) -> None:
    monkeypatch.setattr(stream_answers, "STREAM_READS_MAX", most)
    monkeypatch.setattr(stream_answers, "STREAM_READS_PER_USER_MAX", of_one)
    cluster = Cluster(1)
    filled(cluster, 60)
    served = Served(cluster)
    served.change(PutUser("robot", "", (), False))
    served.change(SetPermissions("robot", "/", "", "", "s"))

    async def one(user: str, stalls: asyncio.Event) -> list[pb.Chunk]:
        request = pb.ReadRequest(vhost="/", stream="s", end=60)
        found: list[pb.Chunk] = []
        async with aclosing(served.answers.read(user, request)) as chunks:
            async for chunk in chunks:
                found.append(chunk)
                await stalls.wait()
        return found

    async def all_of_them() -> list[list[pb.Chunk]]:
        goes_on, never, full = asyncio.Event(), asyncio.Event(), asyncio.Event()
        goes_on.set()

        def note() -> None:
            if served.under_way + 1 == min(most, of_one):
                full.set()

        served.before = note
        # Those of one user take nothing; another one's are served as long as there is room.
        stalled = [asyncio.ensure_future(one(USER, never)) for _ in range(10)]
        others = [asyncio.ensure_future(one("robot", goes_on)) for _ in range(10)]
        if of_one < most:
            await asyncio.gather(*others)
        await full.wait()
        never.set()
        return await asyncio.gather(*stalled, *others)

    found = asyncio.run(all_of_them())
    assert [texts_of(chunks) for chunks in found] == [bodies(60)] * 20
    assert min(most, of_one) <= served.most <= min(most, 2 * of_one)
    assert served.under_way == 0
    assert not served.answers._room._shares


def test_a_caller_that_hangs_up_leaves_nothing_behind(served: Served) -> None:
    async def read_some() -> None:
        began = asyncio.Event()
        served.before = began.set
        request = pb.ReadRequest(vhost="/", stream="s", end=10_000)
        reading = asyncio.ensure_future(anext(served.answers.read(USER, request)))
        await began.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    asyncio.run(read_some())
    served.cluster.pass_ms(200)
    state = served.cluster.node("n1").state
    assert (served.under_way, state.scanned_bytes, state.streams) == (0, 0, {})


def test_some_routes_may_be_asked_for(served: Served) -> None:
    [chunk] = served.read(end=60, routes=pb.Routes(routing_keys=[b"s"], exchanges=[b""]))
    assert texts_of([chunk]) == bodies(0, 60)
    assert [(each.first, each.last) for each in chunk.looked] == [(0, 59)]
    [nothing] = served.read(end=60, routes=pb.Routes(routing_key_prefixes=[b"t"]))
    assert (texts_of([nothing]), nothing.next) == ([], 60)
    [all_of_them] = served.read(end=60)
    assert not all_of_them.looked


@pytest.mark.parametrize("name", ["exchanges", "routing_keys", "routing_key_prefixes"])
@pytest.mark.parametrize(
    ("names", "sentence"),
    [([b"x"] * 65, "routes: 65 names: at most 64"), ([b"x" * 256], "routes: a name of 256 bytes")],
)
def test_more_names_than_are_looked_for_are_refused(
    served: Served, name: str, names: list[bytes], sentence: str
) -> None:
    refusal = served.refusal(routes=pb.Routes(**{name: names}))
    assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
    assert sentence in str(refusal)
