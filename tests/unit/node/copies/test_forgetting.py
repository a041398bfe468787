"""Names of publishers are forgotten: when nothing comes of them, and where they take too much."""

from fedq.amqp.methods import QueuePurge, QueuePurgeOk
from fedq.core.ids import FragmentId, NodeId
from fedq.core.limits import KIB, MIB, PUBLISHER_SERIES_MAX
from fedq.fragments.publishers.known_publishers import KnownPublishers
from fedq.journal.recovery import recover
from fedq.node.clients.memory import held_bytes
from tests.unit.node.harness import Cluster
from tests.unit.node.publishing.named import again, all_of, bodies, known_to, queue_on, send

ONE = FragmentId(1)
#: How long names are remembered, in tests.
IDLE_MS = 60_000


def _on_disk(cluster: Cluster, name: str) -> list[str]:
    journal = {n: bytes(each) for n, each in cluster.hosts[NodeId(name)].segments.items()}
    return list(recover(journal).fragments[ONE].publishers)


def test_a_name_is_forgotten_of_which_nothing_came_for_long() -> None:
    """Here, on the copies and on all disks; its next message is taken, whatever its sequence is."""
    cluster = Cluster(3, publisher_idle_ms_max=IDLE_MS)
    client = queue_on(cluster, "n1", x_fedq_replicas=3)
    send(client, "q", [5], publisher="old")
    cluster.pass_ms(IDLE_MS // 2)
    send(client, "q", [5], publisher="new")
    cluster.pass_ms(IDLE_MS // 2 - 2_000)
    send(client, "q", [5], publisher="old")
    assert set(known_to(cluster.node("n1"))) == {"old", "new"}, "a repeat is none that is taken"
    cluster.pass_ms(4_000)
    for name in ("n1", "n2", "n3"):
        assert known_to(cluster.node(name)) == {"new": 5}, name
        assert _on_disk(cluster, name) == ["new"], name
    send(client, "q", [1, 2], publisher="old")
    cluster.pass_ms(500)
    assert known_to(cluster.node("n2")) == {"new": 5, "old": 2}
    assert sorted(all_of(cluster)) == sorted(
        [*bodies([5, 1, 2], "old"), *bodies([5], "new")]
    )  # fmt: skip


def test_after_a_failover_the_time_begins_anew_and_what_is_forgotten_stays_so() -> None:
    cluster = Cluster(3, publisher_idle_ms_max=IDLE_MS)
    client = queue_on(cluster, "n1", x_fedq_replicas=3)
    send(client, "q", [5], publisher="old")
    cluster.pass_ms(IDLE_MS // 2)
    send(client, "q", [5], publisher="new")
    cluster.pass_ms(IDLE_MS // 2 + 2_000)
    cluster.kill("n1")
    [second] = cluster.node("n2").state.map.fragments[ONE].backups[:1]
    cluster.wait_for(lambda: ONE in cluster.node(second).state.primaries)
    cluster.pass_ms(IDLE_MS - 5_000)
    assert known_to(cluster.node(second)) == {"new": 5}
    cluster.pass_ms(8_000)
    assert known_to(cluster.node(second)) == {}
    client = again(cluster, second)
    send(client, "q", [5], publisher="new")
    assert len(all_of(cluster, second)) == 3


def test_after_a_restart_the_time_begins_anew() -> None:
    cluster = Cluster(1, publisher_idle_ms_max=IDLE_MS)
    client = queue_on(cluster)
    send(client, "q", [5])
    cluster.pass_ms(IDLE_MS - 2_000)
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(IDLE_MS - 5_000)
    assert known_to(cluster.node("n1")) == {"p": 5}
    cluster.pass_ms(8_000)
    assert known_to(cluster.node("n1")) == {}
    assert _on_disk(cluster, "n1") == []
    assert not cluster.node("n1").state.named, "nobody looks for names where there are none"
    client = again(cluster, "n1")
    send(client, "q", [1], publisher="new")
    assert list(cluster.node("n1").state.named) == [ONE]
    cluster.pass_ms(IDLE_MS + 5_000)
    assert known_to(cluster.node("n1")) == {}


def test_all_names_that_a_node_leads_have_a_bound() -> None:
    """Before, they filled memory until publishers waited for ever: nothing made it less again."""
    bound = 64 * KIB
    cluster = Cluster(3, memory_bytes_max=MIB)
    node = cluster.node("n1")
    client = queue_on(cluster, "n1", x_fedq_replicas=2)
    [backup] = node.state.map.fragments[ONE].backups
    for number in range(20):
        names = range(60 * number, 60 * number + 60)
        for each in names:
            send(client, "q", [1], publisher=f"{each}/" + "n" * 200)
        client.ask(QueuePurge("q"), QueuePurgeOk)
        cluster.pass_ms(1_500)
        known = node.state.primaries[ONE].fragment.publishers
        assert known is not None
        assert known.bytes_held <= bound
        assert [*known.marks][-1].startswith(f"{names[-1]}/"), "the newest are kept"
        assert known_to(cluster.node(backup)) == known_to(node)
        assert held_bytes(node.state) < MIB // 2
    assert not node.state.memory_full


def test_refused_ranges_are_packed() -> None:
    """A thousand long names with all ranges that may be refused took 9 MB."""
    known = KnownPublishers()
    for number in range(1_024):
        name = f"{number}".ljust(250, "x")
        for each in range(64):
            known.refuse(name, 3 * each + 1, 3 * each + 1)
        known.take(name, 200, 200)
    assert known.bytes_held < 2 * MIB


def test_of_a_series_few_names_are_remembered() -> None:
    """So that a query whose batches have names of their own leaves room for other publishers."""
    cluster = Cluster(3)
    client = queue_on(cluster, "n1", x_fedq_replicas=3)
    send(client, "q", [1], publisher="other")
    names = [f"query/0\x1f{batch}" for batch in range(9)]
    for name in names:
        send(client, "q", [1, 2], publisher=name)
    send(client, "q", [1, 2], publisher=names[-2])
    cluster.pass_ms(500)
    wanted = ["other", *names[-PUBLISHER_SERIES_MAX:]]
    for name in ("n1", "n2", "n3"):
        assert list(known_to(cluster.node(name))) == wanted, name
        assert _on_disk(cluster, name) == wanted, name
    assert len(all_of(cluster)) == 1 + 2 * len(names)


def test_a_name_that_the_primary_forgets_is_not_sure_on_a_copy_that_is_being_made() -> None:
    """Else, were it to lead, it would take what was taken anew for repeats of before."""
    cluster = Cluster(1)
    client = queue_on(cluster)
    send(client, "q", [500])
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(3_000)
    fragment = cluster.node("n1").state.primaries[ONE].fragment
    assert fragment.publishers is not None
    assert set(fragment.publishers.begun_with) == {"p"}
    fragment.forget_publishers(["p"])
    assert fragment.publishers.begun_with == {}
