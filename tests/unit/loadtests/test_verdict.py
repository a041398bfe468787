"""Reports of workers and samples of nodes become facts, a verdict, and a page that shows them."""

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from fedq.bench.blocks import PRODUCER_SHIFT
from fedq.bench.histogram import Histogram
from loadtests.locust import nodes, page
from loadtests.locust.collecting import Collector, NodeSample
from loadtests.locust.lives import Book, End, Life
from loadtests.locust.sends import Sends
from loadtests.locust.tally import LASTS_MAX, Tally, packed
from loadtests.locust.verdict import complaints, sentence

SECOND = 1_000_000_000
BASE = 1_000 * SECOND
MESSAGES = 10


class Reporter:
    """A worker with a publisher and subscribers, of which the test says what they got."""

    def __init__(self, *subscribers: list[int], end: End | None = None) -> None:
        self.book = Book()
        self.tally = Tally()
        self.sends = Sends()
        for number in range(MESSAGES):
            self.sends.due_ns.append(BASE + number * SECOND)
            self.sends.sent_ns.append(BASE + number * SECOND)
        for place, numbers in enumerate(subscribers):
            life = Life(BASE - SECOND, publishers=1)
            self.book.begin(life)
            for number in numbers:
                life.take([number])
                sent_ns = BASE + number * SECOND
                self.tally.delivered([number], [sent_ns], sent_ns + (place + 1) * 1_000_000)
            if end is not None:
                self.book.end(life, end, BASE + 60 * SECOND)

    def report(self, publishes: bool = True, **changed: Any) -> dict[str, Any]:
        """Its report at second 60."""
        found = {
            "at_ns": BASE + 60 * SECOND, "live": self.book.live, "opening": 0,
            "published": MESSAGES, "confirmed": MESSAGES, "refused": 0,
            "tables": self.book.tables().packed(),
            "sends": [[0, self.sends.since(0)]] if publishes else [],
        }  # fmt: skip
        return found | self.tally.report() | changed


ALL = list(range(MESSAGES))


def facts(*reports: dict[str, Any], samples: tuple[NodeSample, ...] = ()) -> dict[str, Any]:
    """What becomes of these reports, each of another worker."""
    collector = Collector()
    for name, report in enumerate(reports):
        collector.take(str(name), report)
    for sample in samples:
        collector.sample(sample)
    return collector.facts(5.0)


def test_a_run_in_which_all_heard_everything_is_good() -> None:
    found = facts(Reporter(ALL, ALL).report(), Reporter(ALL).report(publishes=False))
    assert complaints(found, node_may_die=False) == []
    assert (found["owed"], found["delivered"], found["subscribers_max"]) == (30, 30, 3)
    assert sentence(found, []).startswith("Good")


def test_latency_to_the_last_subscriber_is_that_of_the_slowest_worker() -> None:
    found = facts(Reporter(ALL).report(), Reporter(ALL, ALL, ALL).report(publishes=False))
    assert found["last_subscriber_us"]["p50"] == pytest.approx(3_000, rel=0.02)
    assert found["latency_us"]["p50"] == pytest.approx(1_000, rel=0.02)
    assert found["last_subscriber_us"]["count"] == MESSAGES


@pytest.mark.parametrize(
    ("reporter", "changed", "words"),
    [
        (Reporter(ALL[:-1]), {}, "1 of 10 deliveries that were owed did not come"),
        (Reporter([*ALL, 3]), {}, "1 deliveries came twice"),
        (Reporter([0, 2, 1, *range(3, 10)]), {}, "1 deliveries came after a later one"),
        (Reporter(ALL), {"refused": 4}, "the broker refused 4 publishes"),
        (Reporter(ALL), {"opening": 2}, "2 subscribers were never ready"),
        (Reporter(ALL, end=End.BROKEN), {}, "the broker ended 1 connections"),
        (Reporter(ALL), {"published": 0}, "nothing was published"),
        (Reporter(), {}, "nobody ever subscribed"),
    ],
)
def test_each_fault_is_a_complaint(reporter: Reporter, changed: Any, words: str) -> None:
    found = facts(reporter.report(**changed))
    problems = complaints(found, node_may_die=False)
    assert any(words in problem for problem in problems), problems
    assert sentence(found, problems).startswith("BAD")


def test_a_node_may_die_where_that_was_said_and_what_is_owed_counts_still() -> None:
    found = facts(Reporter(ALL, end=End.BROKEN).report())
    assert complaints(found, node_may_die=True) == []
    found = facts(Reporter(ALL[:-1], end=End.BROKEN).report())
    assert len(complaints(found, node_may_die=True)) == 1


def test_what_a_node_itself_counts_as_lost_is_a_complaint() -> None:
    samples = tuple(
        NodeSample(BASE + at * SECOND, "node 1", 1 << 20, 0.5, {"fedq_messages_lost_total": lost})
        for at, lost in ((0, 1.0), (9, 4.0))
    )
    found = facts(Reporter(ALL).report(), samples=samples)
    assert complaints(found, False) == ["node 1 itself counts 3 lost messages"]
    assert found["nodes"]["node 1"]["bytes_max"] == 1 << 20


def test_nothing_reported_is_no_success() -> None:
    assert complaints(facts(), False) == ["no worker reported anything"]


def test_reports_add_what_is_new_and_replace_what_is_whole() -> None:
    reporter = Reporter(ALL)
    collector = Collector()
    collector.take("a", reporter.report(publishes=False) | {"sends": []})
    sent = reporter.sends.since(0)
    halves = [
        {"first": at, "due_ns": sent["due_ns"][at:to], "sent_ns": sent["sent_ns"][at:to],
         "unsettled": []}
        for at, to in ((0, 5), (5, 10))
    ]  # fmt: skip
    for half in halves:
        collector.take("a", reporter.report(publishes=False) | {"sends": [[0, half]]})
    found = collector.facts(5.0)
    assert (found["owed"], found["lost"], found["delivered"]) == (10, 0, 10)
    assert found["latency_us"]["count"] == 10


def test_of_very_many_messages_the_last_subscriber_is_told_of_some() -> None:
    tally = Tally()
    count = 3 * LASTS_MAX
    tally.delivered(list(range(count)), [0] * count, SECOND)
    lasts = tally.report()["lasts"]
    assert LASTS_MAX // 2 < len(lasts) <= LASTS_MAX
    tally.delivered([1 << PRODUCER_SHIFT | 1, 1 << PRODUCER_SHIFT | 4], [0, 0], SECOND)
    assert [number & 7 for number, _ in tally.report()["lasts"]] == [4]


def test_only_what_is_in_a_histogram_travels() -> None:
    histogram = Histogram()
    histogram.record(50, 3)
    assert packed(histogram) == {"counts": [[50, 3]], "max": 50}


def test_counters_with_labels_are_summed_by_name() -> None:
    text = '# HELP x y\nx_total{a="1"} 2\nx_total{a="2 3"} 3\ny 1.5\nbroken line of text\n'
    assert nodes.counters_of(text) == {"x_total": 5.0, "y": 1.5}


def test_the_page_and_its_pictures_show_the_run_whatever_it_was() -> None:
    about = {
        "date": "2026-11-26", "shape": "ramp", "subscribers": 3, "brokers": 1, "rate": 2.0,
        "body_bytes": 64, "cores": 2, "load_average": [1.0, 2.0, 3.0],
    }  # fmt: skip
    sample = NodeSample(BASE, "node 1", 7 << 20, 0.5, {})
    for found in (facts(Reporter(ALL, ALL).report(), samples=(sample,)), facts()):
        problems = complaints(found, False)
        report = {"about": about, "good": not problems, "problems": problems} | found
        text = page.page(report, "x.svg")
        ElementTree.fromstring(page.draw(report))
        assert ("Good." in text) == (not problems)
        assert "](x.svg)" in text
