"""A cluster of more nodes than other runs have, and what would be told if a promise was broken."""

import pytest

from fedq.core.ids import NodeId
from fedq.core.limits import NODES_MAX
from fedq.wiring.cluster_map import invariants, roster
from tests.sim.__main__ import main
from tests.sim.large import LargeRun, Size, lift_the_bound, run_large

SMALL = Size(nodes=9, subscribers_per_node=2, topics=6, publishes=24, kills=2, queues=4)


def test_observers_die_with_a_voter_and_every_subscriber_hears_everything_once() -> None:
    report = run_large(SMALL)
    assert report.problems == []
    assert report.crossings_per_publish == report.interested_per_publish > 0
    assert [phase.name for phase in report.phases][-1] == "they come back"
    assert report.resubscribed_ms < 10_000


def test_what_is_missed_or_crosses_in_vain_is_a_problem() -> None:
    run = LargeRun(SMALL)
    run.go()
    assert run.report.problems == []
    subscriber = run.subscribers[0]
    number = next(
        number
        for number, topic in enumerate(run.book.topics)
        if topic == subscriber.topic and number >= subscriber.since
    )
    subscriber.got[number] -= 1
    assert [*subscriber.problems()] == [f"{subscriber.where} missed {number}"]
    subscriber.got[number] = 2
    assert [*subscriber.problems()] == [f"{subscriber.where} got {number} 2 times"]
    run.book.crossed[number, NodeId("n9")] += 2
    assert run.crossed_again() == [f"publish {number} crossed to n9 more than once"]


def test_sizes_that_make_no_sense_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--large", "--nodes", "5"]) == 2
    assert "6 nodes or more" in capsys.readouterr().out


def test_the_bound_of_nodes_is_lifted_where_more_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (roster, invariants):
        monkeypatch.setattr(module, "NODES_MAX", NODES_MAX)
    lift_the_bound(NODES_MAX)
    assert vars(roster)["NODES_MAX"] == NODES_MAX
    lift_the_bound(200)
    assert vars(roster)["NODES_MAX"] == vars(invariants)["NODES_MAX"] == 200
