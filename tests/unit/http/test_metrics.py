"""Pages of metrics: what a scrape finds, and the format."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.http.metrics import page, samples, table
from fedq.http.metrics.application import MetricsApplication
from fedq.http.metrics.samples import Samples, Sources, scrape
from fedq.http.questions import NodeLoop
from fedq.http.refusal import HttpRefusal
from fedq.http.serving.exchange import Request
from fedq.node.views.alarm_view import AlarmOverview, WaitOverview
from fedq.node.views.metric_view import QueueFigures
from fedq.node.views.overview_types import Readiness
from fedq.shell.durations import NodeDurations
from fedq.shell.raft.status import RaftStanding
from tests.unit.admin.served import HandFilled, a_channel, a_cluster, a_connection
from tests.unit.http.test_exchange import a_request

#: Name, sorted labels -> value.
Page = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Figures:
    """A `MetricOverview` that a test fills."""

    def __init__(self) -> None:
        self.served: list[QueueFigures] = []
        self.private: list[QueueFigures] = []
        self.remote: dict[QueueKey, int] = {}
        self.looks = 0

    def fragments(self) -> list[FragmentId]:
        self.looks += 1
        return [FragmentId(number) for number in range(len(self.served))]

    def fragment_figures(self, fragments: Sequence[FragmentId]) -> list[QueueFigures]:
        return [self.served[number] for number in fragments]

    def private_queues(self) -> list[QueueKey]:
        return [each.queue for each in self.private]

    def private_figures(self, keys: Sequence[QueueKey]) -> list[QueueFigures]:
        return [each for each in self.private if each.queue in keys]

    def consumed(self) -> list[QueueKey]:
        return list(self.remote)

    def consumers(self, keys: Sequence[QueueKey]) -> list[tuple[QueueKey, int]]:
        return [(key, self.remote[key]) for key in keys]

    def backups(self) -> int:
        return 7

    def members_up(self) -> tuple[int, int]:
        return 2, 3


def figures(name: str, ready: int, *, short: bool = False, vhost: str = "/") -> QueueFigures:
    """A fragment with some ready messages, and two that consumers hold."""
    return QueueFigures(QueueKey(vhost, name), ready, 2, 1_000, 1, 100, 2_000, 0, 5, short)


def some() -> tuple[HandFilled, Figures]:
    """A node that serves three fragments of two queues, with one client."""
    node, found = a_cluster()["n1"], Figures()
    found.served = [figures("jobs", 3), figures("jobs", 4, short=True), figures("mail", 10)]
    found.remote = {QueueKey("/", "jobs"): 6, QueueKey("/", "far"): 1}
    node.clients, node.channels = [a_connection(5)], [a_channel(5, 1), a_channel(5, 2)]
    return node, found


def standing() -> RaftStanding:
    """How far the Raft log has come."""
    return RaftStanding(3, 20, 19)


def scraped(node: HandFilled, found: Figures, *, by_object: bool) -> Samples:
    """One scrape."""
    durations = NodeDurations()
    for took_us in (500, 1_500, 2_000_000):
        durations.turns.note(took_us)
    durations.late.note(30_000)
    durations.syncs.note(4_000)

    async def look() -> Samples:
        loop = NodeLoop(asyncio.get_running_loop())
        return await scrape(loop, Sources(node, found, durations, standing), by_object=by_object)

    return asyncio.run(look())


def read(text: bytes) -> Page:
    """The page as Prometheus's own parser reads it."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_sums_are_over_all_fragments_and_a_queue_counts_once() -> None:
    found = read(page.aggregated(scraped(*some(), by_object=False)))
    wanted = {
        "rabbitmq_queue_messages_ready": 17, "rabbitmq_queue_messages_unacked": 6,
        "rabbitmq_queue_messages": 23, "rabbitmq_queue_consumers": 7, "rabbitmq_queues": 2,
        "fedq_fragments": 3, "fedq_fragments_short": 1, "fedq_replication_events_waiting": 15,
        "fedq_copies": 7, "fedq_members": 3, "fedq_members_up": 2,
        "rabbitmq_channel_messages_unacked": 14, "rabbitmq_channel_messages_unconfirmed": 8,
        "fedq_leader": 1, "fedq_lease_held": 1, "fedq_turn_longest_seconds": 2.0,
    }  # fmt: skip
    assert {name: found[name, ()] for name in wanted} == wanted


def test_raft_s_standing_and_what_late_ticks_and_syncs_took_are_there() -> None:
    found = read(page.aggregated(scraped(*some(), by_object=False)))
    raft = [found[f"fedq_raft_{name}", ()] for name in ("term", "committed_index", "applied_index")]
    assert raft == [3, 20, 19]
    assert found["fedq_loop_lag_seconds_bucket", (("le", "0.05"),)] == 1
    assert found["fedq_loop_lag_seconds_bucket", (("le", "0.02"),)] == 0
    assert found["fedq_journal_sync_seconds_sum", ()] == 0.004


def test_turns_are_a_histogram() -> None:
    found = read(page.aggregated(scraped(*some(), by_object=False)))
    counts = [found["fedq_turn_seconds_bucket", (("le", le),)] for le in ("0.001", "0.002", "1")]
    assert counts == [1, 2, 2]
    assert found["fedq_turn_seconds_bucket", (("le", "+Inf"),)] == 3
    assert found["fedq_turn_seconds_count", ()] == 3


def test_by_object_each_has_a_series() -> None:
    found = read(b"".join(page.by_object(scraped(*some(), by_object=True))))
    jobs = (("queue", "jobs"), ("vhost", "/"))
    assert found["rabbitmq_queue_messages_ready", jobs] == 7
    assert found["rabbitmq_queue_consumers", jobs] == 6
    assert found["rabbitmq_queue_consumers", (("queue", "far"), ("vhost", "/"))] == 1
    channel = (("channel", "2"), ("connection", "n1.1.5"))
    assert found["rabbitmq_channel_messages_unacked", channel] == 7
    assert ("rabbitmq_queue_messages_ready", ()) not in found


def test_long_pages_say_once_what_a_metric_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "HTTP_ROWS_AT_ONCE", 2)
    node, found = some()
    found.served = [figures(f"q{number}", number) for number in range(5)]
    text = b"".join(page.by_object(scraped(node, found, by_object=True)))
    assert text.count(b"# TYPE rabbitmq_queue_messages_ready gauge") == 1
    values = [value for (name, _), value in read(text).items() if name.endswith("messages_ready")]
    assert sorted(values) == [0, 0, 0, 1, 2, 3, 4]


def test_objects_without_room_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "METRIC_OBJECTS_MAX", 1)
    found = read(b"".join(page.by_object(scraped(*some(), by_object=True))))
    queues = [labels for name, labels in found if name == "rabbitmq_queue_messages"]
    assert len(queues) == 1
    assert found["fedq_metrics_left_out", ()] == 3
    monkeypatch.setattr(samples, "METRIC_OBJECTS_MAX", 0)
    found = read(b"".join(page.by_object(scraped(*some(), by_object=True))))
    assert found["fedq_metrics_left_out", ()] == 3 + 3, "a client's two, and one queue in two parts"


def test_what_is_unknown_is_not_shown() -> None:
    node, found = some()
    name = ("rabbitmq_disk_space_available_bytes", ())
    assert name not in read(page.aggregated(scraped(node, found, by_object=False)))
    alarms = AlarmOverview(disk_free_bytes=9, waits=(WaitOverview(NodeId("n2"), None, 4),))
    node.node_overview = replace(node.node_overview, alarms=alarms)
    shown = read(page.aggregated(scraped(node, found, by_object=False)))
    assert shown[name] == 9
    assert shown["fedq_publishers_waiting_for", (("member", "n2"),)] == 4


def test_names_that_clients_chose_are_escaped() -> None:
    node, found = some()
    found.served = [figures('a"\n\\b\udcff', 1)]
    text = b"".join(page.by_object(scraped(node, found, by_object=True)))
    assert ("rabbitmq_queue_messages", (("queue", 'a"\n\\b\\udcff'), ("vhost", "/"))) in read(text)


def test_every_metric_is_on_one_of_the_pages() -> None:
    node, found = some()
    node.node_overview = replace(
        node.node_overview,
        alarms=AlarmOverview(disk_free_bytes=1, waits=(WaitOverview(NodeId("n2"), None, 1),)),
    )
    shown = {name for name, _ in read(page.aggregated(scraped(node, found, by_object=False)))}
    names = {each.name for each in table.METRICS} | {each.name for each in table.LABELLED}
    assert not names - shown


def test_many_who_ask_cost_one_scrape() -> None:
    node, found = some()

    async def ask() -> None:
        application = MetricsApplication(
            NodeLoop(asyncio.get_running_loop()), Sources(node, found, NodeDurations(), standing)
        )
        pages = [application(a_get(b"/metrics")) for _ in range(20)]
        answers = await asyncio.gather(*pages)
        assert len({answer.body for answer in answers}) == 1

    asyncio.run(ask())
    assert found.looks == 1


def test_a_page_by_object_is_written_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    by_object = page.by_object

    def counted(samples: Samples) -> Iterator[bytes]:
        nonlocal written
        written += 1
        return by_object(samples)

    monkeypatch.setattr(page, "by_object", counted)

    async def ask() -> None:
        application = MetricsApplication(
            NodeLoop(asyncio.get_running_loop()), Sources(*some(), NodeDurations(), standing)
        )
        answers = await asyncio.gather(
            *[application(a_get(b"/metrics/per-object")) for _ in range(20)]
        )
        texts = [
            b"".join([part async for part in each.parts])
            for each in answers
            if each.parts is not None
        ]
        assert len(set(texts)) == 1
        assert read(texts[0])

    asyncio.run(ask())
    assert written == 1


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        (b"/", "GET", 404),
        (b"/metrics/x", "GET", 404),
        (b"/metrics", "POST", 405),
        (b"/ready/x", "GET", 404),
        (b"/live", "POST", 405),
    ],
)
def test_there_is_nothing_else(path: bytes, method: str, status: int) -> None:
    async def ask() -> None:
        sources = Sources(*some(), NodeDurations(), standing)
        application = MetricsApplication(NodeLoop(asyncio.get_running_loop()), sources)
        with pytest.raises(HttpRefusal) as refused:
            await application(a_get(path, method))
        assert refused.value.status == status

    asyncio.run(ask())


def probed(node: HandFilled, path: bytes) -> tuple[int, str]:
    """The status and the text of a probe."""

    async def ask() -> tuple[int, str]:
        application = MetricsApplication(
            NodeLoop(asyncio.get_running_loop()),
            Sources(node, Figures(), NodeDurations(), standing),
        )
        try:
            answer = await application(a_get(path))
        except HttpRefusal as refusal:
            return refusal.status, refusal.reason
        return answer.status, answer.body.decode()

    return asyncio.run(ask())


def test_a_probe_is_ready_as_long_as_new_clients_should_come() -> None:
    node, _ = some()
    assert probed(node, b"/ready") == (200, '{"node":"n1","status":"serves its clients"}')
    for state in Readiness:
        if state is Readiness.READY:
            continue
        node.ready = state
        assert probed(node, b"/ready") == (503, f"n1 {state.value}")


def test_a_node_that_waits_for_a_majority_is_alive() -> None:
    node, _ = some()
    node.ready = Readiness.FENCED
    status, text = probed(node, b"/live")
    assert status == 200
    assert "waits for contact with a majority" in text


def a_get(path: bytes, method: str = "GET") -> Request:
    """A request without a body."""
    request = a_request(path)
    request.method = method
    return request
