"""The model of a fan-out over many nodes, held against what was measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import Incarnation, MapVersion, NodeId
from fedq.core.limits import RESERVED_DESCRIPTORS
from fedq.core.message import encode
from fedq.core.peer_messages import Heartbeat, PeerFrame, Relay
from fedq.proxy.links import NO_SESSION
from fedq.shell.peers.codec import encode_frame
from loadtests.scale import costs
from loadtests.scale.__main__ import PAGE, main, with_tables
from loadtests.scale.model import Cluster, Traffic, best_relays, predict, spread, tree_depth
from loadtests.scale.records import Held, all_held

#: What the model may be off.
OFF_MAX = 0.2


@pytest.mark.parametrize("held", all_held(), ids=lambda held: f"{held.record}: {held.figure}")
def test_what_was_measured_is_predicted(held: Held) -> None:
    assert held.off <= OFF_MAX, held


def test_the_page_has_what_the_model_says() -> None:
    page = PAGE.read_text("utf-8")
    assert with_tables(page) == page, "run: python -m loadtests.scale --write"


CLUSTERS = st.builds(Cluster, st.integers(2, 300), st.integers(1_000, 20_000_000))


@given(CLUSTERS)
def test_more_subscribers_take_more(cluster: Cluster) -> None:
    less = predict(cluster, Traffic())
    more = predict(Cluster(cluster.nodes, 2 * cluster.subscribers), Traffic())
    assert less.last_s < more.last_s
    assert less.node_bytes < more.node_bytes
    assert less.rate_max >= more.rate_max
    assert less.descriptors < more.descriptors


@given(CLUSTERS)
def test_more_nodes_share_the_subscribers_and_speak_more(cluster: Cluster) -> None:
    few = predict(cluster, Traffic())
    many = predict(Cluster(2 * cluster.nodes, cluster.subscribers), Traffic())
    assert many.node_bytes < few.node_bytes
    assert many.beats_busy > few.beats_busy
    assert many.wire_bytes_s > few.wire_bytes_s
    assert many.spread_s > few.spread_s


@given(st.integers(2, 300))
def test_the_best_tree_is_no_worse_than_one_sender(nodes: int) -> None:
    relays = best_relays(nodes)
    assert spread(nodes, relays) <= spread(nodes, 0)
    if relays:
        depth = tree_depth(nodes, relays)
        assert sum(relays**level for level in range(depth + 1)) >= nodes


def test_a_small_cluster_has_no_use_for_a_tree() -> None:
    assert best_relays(5) == 0
    assert best_relays(200) > 0


def _size(beat: Heartbeat | None, *messages: Relay) -> int:
    """The bytes of a frame, as protobuf."""
    return len(
        encode_frame(
            PeerFrame(
                NodeId("node-17"), Incarnation(1_795_740_036), NO_SESSION, 12_345, 12_344,
                MapVersion(900), list(messages), beat,
            )
        )
    )  # fmt: skip


def test_bytes_of_frames_are_about_what_they_are_taken_for() -> None:
    beat = Heartbeat(123_456_789, 123_456_000, False)
    assert _size(beat) == pytest.approx(costs.BEAT_BYTES, rel=0.5)
    body = b"x" * 200
    exchange, key = b"news", b"market.eu.eur"
    route = bytes([len(exchange)]) + exchange + bytes([len(key)]) + key
    message = encode(0, route, b"\0\0", body)
    relayed = _size(None, Relay(77_000, "/", [message])) - len(body)
    assert relayed == pytest.approx(costs.RELAY_BYTES, rel=0.35)
    assert costs.RESERVED == RESERVED_DESCRIPTORS


def test_one_cluster_may_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--subscribers", "3000000", "--nodes", "60", "--timing", "5"]) == 0
    told = capsys.readouterr().out
    assert "last s: 0.4" in told
    assert "descriptors: 5.035e+04" in told


@pytest.mark.parametrize("wrong", [["--nodes", "0"], ["--subscribers", "-1"], ["--relays", "-2"]])
def test_sizes_that_make_no_sense_are_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(wrong)
    assert ended.value.code == 2
