"""The client of streams: every row once, from whoever leads; a sentence where that cannot be."""

import logging
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from fedq.core.ids import NodeId
from fedq.pipeline import patience
from fedq.pipeline.columns import Decoder
from fedq.pipeline.failure import DataLossError, PipelineError
from fedq.pipeline.places import TlsPaths
from fedq.pipeline.planning import Span
from fedq.pipeline.pushdown import ALL_ROUTES, Routes
from fedq.pipeline.stream_client import Stream, StreamClient
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.pb import streams_pb2 as pb
from fedq.shell.peers.channel import server_credentials
from tests.integration.ports import free_ports
from tests.pipeline.nodes import Node, Refusal, chunk, serving

CODE = grpc.StatusCode
SERVED = pb.Served(first=0, next=100, ranges=[pb.OffsetRange(first=0, last=99)])


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_PAUSE_S", 0.001)
    monkeypatch.setattr(patience, "_PAUSE_MAX_S", 0.01)


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    """Two nodes, of which the first leads the only fragment."""
    first, second = Node("a"), Node("b")
    leads(first, first, second)
    with serving(first, second):
        yield first, second


def leads(leader: Node, *all_of_them: Node) -> None:
    for node in all_of_them:
        node.fragments = {0: (leader.name, SERVED if node is leader else None)}


def client(
    *nodes: Node, retry_s: float = 5.0, fails_on_loss: bool = True, routes: Routes = ALL_ROUTES
) -> StreamClient:
    stream = Stream("/", "s", fails_on_loss, 0, retry_s, routes)
    reader = StreamClient([node.url for node in nodes], TlsPaths(), stream)
    # As a partition of Spark says it.
    reader.places = {node.name: node.url for node in nodes}
    return reader


def read(reader: StreamClient, begin: int, end: int, home: str = "a") -> list[int]:
    """The offsets of the rows of a span; each row's body says its offset, too."""
    rows: list[int] = []
    with reader:
        for each in reader.read(Span(0, begin, end, home)):
            found = Decoder().columns(each)
            assert [int(body) for body in found.bodies] == list(found.offsets)
            rows += found.offsets
    return rows


def test_fragments_are_described_by_whoever_serves_them(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    other = pb.Served(first=5, next=9, since=[7])
    first.fragments = {0: ("a", pb.Served(next=1, since=[0])), 1: ("b", None)}
    second.fragments = {0: ("a", None), 1: ("b", other)}
    with client(first, second) as reader:
        states = reader.describe([1_234])
    assert [(state.number, state.home, state.first, state.next) for state in states] == [
        (0, "a", 0, 1), (1, "b", 5, 9)
    ]  # fmt: skip
    assert states[1].since == {1_234: 7}
    assert reader.places == {"a": first.url, "b": second.url}
    assert first.metadata[0]["authorization"] == "Basic cm9ib3Q6c2VjcmV0"


def test_rows_come_in_order(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    first.script = [[chunk(10, 30), chunk(30, 60)]]
    assert read(client(first, second), 10, 60) == list(range(10, 60))
    assert first.asked == [(0, 10, 60)]


def test_a_chunk_may_come_in_pieces(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    whole = chunk(0, 50)
    head, rest = pb.Chunk(), [whole.data[at : at + 100] for at in range(200, len(whole.data), 100)]
    head.CopyFrom(whole)
    head.data = whole.data[:200]
    first.script = [[head, *(pb.Chunk(data=each) for each in rest), chunk(50, 60)]]
    assert read(client(first, second), 0, 60) == list(range(60))


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(CODE.UNAVAILABLE, "connection reset", is_told=False),
        Refusal(CODE.INTERNAL, "received RST_STREAM", is_told=False),
        Refusal(CODE.RESOURCE_EXHAUSTED, "too many calls at a time", is_told=False),
        Refusal(CODE.ABORTED, "nothing was taken for 30 s"),
        Refusal(CODE.UNAVAILABLE, "nobody serves it"),
        Refusal(CODE.FAILED_PRECONDITION, "is served by b: ask that node", home="b"),
    ],
)
def test_a_read_that_breaks_goes_on_where_it_was_at_the_next_leader(
    nodes: tuple[Node, Node], refusal: Refusal
) -> None:
    first, second = nodes
    leads(second, first, second)
    first.script = [[chunk(0, 20), refusal]]
    second.script = [[refusal], [chunk(20, 40)]]
    assert read(client(first, second), 0, 40) == list(range(40))
    assert second.asked == [(0, 20, 40)] * 2


def test_a_read_that_ends_early_is_begun_again(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    first.script = [[chunk(0, 5)], [], [chunk(5, 10)]]
    assert read(client(first, second), 0, 10) == list(range(10))


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (Refusal(CODE.PERMISSION_DENIED, "it has no read permission"), "no read permission"),
        (Refusal(CODE.UNAUTHENTICATED, "login refused"), "login refused"),
        (Refusal(CODE.RESOURCE_EXHAUSTED, "too many wrong passwords"), "too many wrong passwords"),
        (Refusal(CODE.NOT_FOUND, "no stream 's'"), "no stream 's'"),
        (Refusal(CODE.UNIMPLEMENTED, "unknown service", is_told=False), "is that the admin port"),
        (Refusal(CODE.UNAUTHENTICATED, "wants the token", is_told=False), "is that the admin port"),
    ],
)
def test_what_will_not_change_is_said_at_once(
    nodes: tuple[Node, Node], refusal: Refusal, sentence: str
) -> None:
    first, second = nodes
    first.script = [[chunk(0, 20), refusal]]
    with pytest.raises(PipelineError, match=sentence) as caught:
        read(client(first, second, retry_s=60), 0, 40)
    assert first.url.address in str(caught.value)
    first.describes = refusal
    with client(first, second, retry_s=60) as reader, pytest.raises(PipelineError, match=sentence):
        reader.describe()


def test_who_is_not_there_for_too_long_is_named(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    first.script = [[Refusal(CODE.UNAVAILABLE, "nobody serves it")] for _ in range(1_000)]
    with pytest.raises(PipelineError, match=r"nobody serves it \(tried for 0.05 s: retryTimeout"):
        read(client(first, second, retry_s=0.05), 0, 40)


def test_a_node_that_is_at_none_of_the_urls_is_named(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    for node in nodes:
        node.fragments = {0: ("c", None)}
    with client(first, second) as reader, pytest.raises(PipelineError, match="add its url") as told:
        reader.describe()
    assert "fragment 0 of 's' is served by 'c'" in str(told.value)


def test_a_fragment_without_a_leader_is_waited_for(nodes: tuple[Node, Node]) -> None:
    first, second = nodes
    for node in nodes:
        node.fragments = {0: ("", None)}
    with client(first, second, retry_s=0.05) as reader:
        with pytest.raises(PipelineError, match="nobody serves fragment 0 of 's' at present"):
            reader.describe()
        leads(second, first, second)
        assert reader.describe()[0].home == "b"


def test_nobody_at_the_urls_is_said() -> None:
    nobody = Node("a")
    [port] = free_ports(1)
    nobody.url = nobody.url.__class__("127.0.0.1", port, "u", "p", False)
    with client(nobody, retry_s=0.05) as reader, pytest.raises(PipelineError) as caught:
        reader.describe()
    assert f"127.0.0.1:{port}" in str(caught.value)


@pytest.mark.parametrize(
    ("chunks", "loss", "rows"),
    [
        ([chunk(30, 60, first=30)], "offsets 10 to 29 of fragment 0 are gone", range(30, 60)),
        (
            [chunk(10, 20), chunk(40, 60, first=35)], "offsets 20 to 34",
            [*range(10, 20), *range(40, 60)],
        ),
        ([chunk(10, 10, first=60, following=60)], "offsets 10 to 59", []),
        ([chunk(10, 40, first=25, following=60)], "", range(10, 40)),
        ([chunk(20, 60, first=10)], "", range(20, 60)),
    ],
)  # fmt: skip
def test_rows_that_are_gone_are_an_error_or_told(
    nodes: tuple[Node, Node], chunks: list[pb.Chunk], loss: str, rows: list[int],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Offsets that never were a row's are no loss: they are beyond the first that is there."""
    first, second = nodes
    first.script = [[*chunks], [*chunks]]
    if loss:
        with pytest.raises(DataLossError, match=loss):
            read(client(first, second), 10, 60)
    else:
        assert read(client(first, second), 10, 60) == list(rows)
    with caplog.at_level(logging.WARNING):
        found = read(client(first, second, fails_on_loss=False), 10, 60)
    assert found == list(rows)
    assert (loss in caplog.text) if loss else not caplog.records


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(5, 20)],
        [chunk(10, 61)],
        [chunk(10, 20, following=10)],
        [chunk(10, 20, following=5)],
        [pb.Chunk(next=20, data_bytes=10), pb.Chunk()],
        [pb.Chunk(next=20, data_bytes=10, data=b"x")],
    ],
)
def test_what_was_not_asked_for_is_refused(
    nodes: tuple[Node, Node], chunks: list[pb.Chunk]
) -> None:
    first, second = nodes
    first.script = [[*chunks]]
    with pytest.raises(PipelineError):
        read(client(first, second), 10, 60)


def test_with_tls_both_ends_show_certificates(tmp_path: Path) -> None:
    make_authority(tmp_path)
    own = make_node_certificate(tmp_path, NodeId("a"), ["127.0.0.1"])
    mine = make_node_certificate(tmp_path, NodeId("reader"), ["127.0.0.1"])
    node = Node("a")
    leads(node, node)
    node.script = [[chunk(0, 20)]]
    with serving(node, tls=server_credentials(own)):
        files = TlsPaths(str(mine.authority), str(mine.certificate), str(mine.key))
        with StreamClient([node.url], files, Stream("/", "s")) as reader:
            reader.describe()
            assert len(list(reader.read(Span(0, 0, 20, "a")))) == 1
        make_authority(tmp_path / "others")
        other = make_node_certificate(tmp_path / "others", NodeId("reader"), ["127.0.0.1"])
        strange = TlsPaths(str(mine.authority), str(other.certificate), str(other.key))
        stream = Stream("/", "s", retry_s=0.05)
        with StreamClient([node.url], strange, stream) as reader, pytest.raises(PipelineError):
            reader.describe()


def test_what_was_looked_at_is_no_loss(nodes: tuple[Node, Node]) -> None:
    """Rows of other routes do not come; that they were removed since then is no matter."""
    first, _ = nodes
    sifted = [chunk(3, 5, first=40, following=30), chunk(40, 41, first=40, following=50)]
    for each, (low, high) in zip(sifted, ((0, 29), (30, 49)), strict=True):
        each.looked.append(pb.OffsetRange(first=low, last=high))
    nothing = pb.Chunk(first=40, next=60, looked=[pb.OffsetRange(first=50, last=59)])
    first.script = [[*sifted, nothing]]
    assert read(client(first, routes=Routes(keys=("k",))), 0, 60) == [3, 4, 40]
    assert [list(each.routing_keys) for each in first.routes] == [[b"k"]]


def test_what_was_not_looked_at_is_one(nodes: tuple[Node, Node]) -> None:
    first, _ = nodes
    sifted = chunk(20, 21, first=10, following=30)
    sifted.looked.append(pb.OffsetRange(first=10, last=29))
    first.script = [[sifted]]
    with pytest.raises(DataLossError, match="offsets 0 to 9 of fragment 0 are gone"):
        read(client(first, routes=Routes(prefix="k")), 0, 30)
    assert [list(each.routing_key_prefixes) for each in first.routes] == [[b"k"]]


def test_a_node_that_brings_all_is_an_older_one(nodes: tuple[Node, Node]) -> None:
    first, _ = nodes
    first.script = [[chunk(0, 10)]]
    assert read(client(first, routes=Routes(exchanges=("e",))), 0, 10) == list(range(10))
    assert [list(each.exchanges) for each in first.routes] == [[b"e"]]
