"""A machine that is too slow for its timing is told, with what to set; a single hiccup is not."""

import pytest

from fedq.core.ids import NodeId
from fedq.node.cluster.punctuality import Punctuality
from fedq.node.views.overview import overview
from tests.unit.node.harness import TICK_MS, Cluster


def hiccup(cluster: Cluster, gap_ms: int) -> None:
    """The process is held up between two ticks."""
    cluster.pass_ms(500)
    cluster.now_ms += gap_ms
    cluster.pass_ms(TICK_MS)


def told(cluster: Cluster) -> list[str]:
    story = cluster.hosts[NodeId("n1")].story
    return [line for line in story if "timing.lease_ms" in line]


def test_a_node_that_is_held_up_again_and_again_says_what_to_set() -> None:
    cluster = Cluster(1)
    for _ in range(40):
        hiccup(cluster, 600)
    (line,) = told(cluster)
    assert "too slow, or too busy, for timing.lease_ms = 700" in line
    assert "for 600 ms at most" in line
    assert "lease_ms: 1800 and suspect_ms: 4500" in line
    (trouble,) = overview(cluster.node("n1")).node().troubles
    assert "this machine is too slow" in trouble
    for _ in range(3):
        cluster.pass_ms(30_000)
    assert not overview(cluster.node("n1")).node().troubles, "it is over"


def test_a_hiccup_and_small_delays_are_not_told() -> None:
    cluster = Cluster(1)
    for _ in range(10):
        hiccup(cluster, 5_000)
        cluster.pass_ms(20_000)
    for _ in range(100):
        hiccup(cluster, 100)
    assert told(cluster) == []


@pytest.mark.parametrize(("age_ms", "is_told"), [(400, True), (200, False)])
def test_a_peer_that_is_far_away_is_told(age_ms: int, is_told: bool) -> None:
    cluster = Cluster(1)
    node = cluster.node("n1")
    look = Punctuality(node.state)
    now_ms = cluster.now_ms
    for number in range(1_000):
        node.begin_turn(now_ms + number * TICK_MS)
        look.on_echo(NodeId("n2"), node.state.now_ms - age_ms - number % 7)
        look.on_echo(NodeId("n3"), 0)
        look.tick()
    assert ("way to n2" in node.state.found) is is_told
    lines = [line for line in node.out.warnings if "timing.lease_ms" in line]
    assert len(lines) == int(is_told)
    assert not is_told or "the way to n2 and back takes 400 ms at least" in lines[0]
