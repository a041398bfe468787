"""A member that is lost, or comes back, costs each turn its budget, whatever it led or held."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from fedq.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
)
from fedq.core.ids import NodeId
from fedq.core.peer_messages import Attach, MapApplied
from fedq.proxy.links import NO_SESSION
from tests.unit.amqp.wire import publish as publish_frames
from tests.unit.node.harness import PERSISTENT, Client, Cluster, Host

COUNT = 60
SMALL = 120
#: Of the fragments that a turn may go through, if its room is for nothing else: at a dozen units.
MOST = SMALL // 10
N1, N3 = NodeId("n1"), NodeId("n3")


def queues(cluster: Cluster, count: int = COUNT) -> Client:
    """So many queues, all led by the first node."""
    client = cluster.client("n1")
    client.send(*[QueueDeclare(f"q{number}", durable=True) for number in range(count)])
    cluster.pass_ms(1_000)
    assert len(cluster.node("n1").state.primaries) == count
    return client


def consuming(cluster: Cluster, name: str, count: int = COUNT) -> Client:
    """A client of another node that consumes from all of them."""
    client = cluster.client(name)
    client.send(*[BasicConsume(f"q{number}", f"c{number}") for number in range(count)])
    cluster.wait_for(lambda: sum(isinstance(s, BasicConsumeOk) for s in client.said) == count)
    client.said.clear()
    return client


def watch(cluster: Cluster, name: str, count: Callable[[], int]) -> list[int]:
    """How many there are now, and will have been after each turn of this node."""
    counts = [count()]
    give_turn = cluster._turn

    def turn(host: Host) -> bool:
        busy = give_turn(host)
        if host.name == name and host.node is not None:
            counts.append(count())
        return busy

    cluster._turn = turn  # type: ignore[method-assign]
    return counts


def longest_of(counts: list[int]) -> int:
    """By how much a turn has changed the number at most."""
    return max(abs(after - before) for before, after in pairwise(counts))


def test_what_a_lost_member_had_returns_as_turns_have_room() -> None:
    cluster = Cluster(3)
    queues(cluster)
    consuming(cluster, "n3")
    state = cluster.node("n1").state
    primaries = state.primaries.values()
    left = watch(cluster, "n1", lambda: sum(N3 in p.takers.consumers for p in primaries))
    assert left == [COUNT]
    state.work.resize(SMALL)
    cluster.kill("n3")
    cluster.pass_ms(2_000)
    assert left[-1] == 0
    assert longest_of(left) <= MOST


def test_who_comes_back_says_what_it_holds_as_turns_have_room() -> None:
    cluster = Cluster(3)
    queues(cluster)
    cluster.kill("n3")
    cluster.pass_ms(2_000)
    cluster.start("n3")
    cluster.node("n3").state.work.resize(SMALL)
    cluster.overheard.clear()
    heard = cluster.overheard
    said = watch(cluster, "n3", lambda: sum(s == N3 and isinstance(m, Attach) for s, _, m in heard))
    cluster.pass_ms(2_000)
    assert said[-1] == COUNT
    assert longest_of(said) <= MOST
    told = [message for source, target, message in heard if (source, target) == (N3, N1)]
    first = next(i for i, message in enumerate(told) if isinstance(message, MapApplied))
    # Whoever hears this counts on having heard all of those before.
    assert first > max(i for i, message in enumerate(told) if isinstance(message, Attach))


def test_no_session_begins_before_the_last_one_is_forgotten() -> None:
    cluster = Cluster(3)
    queues(cluster)
    consuming(cluster, "n3")
    state = cluster.node("n1").state
    primaries, link = state.primaries.values(), state.peers[N3].link
    before = link.session
    left: list[int] = []

    def sessions() -> int:
        if link.session not in (before, NO_SESSION):
            left.append(sum(N3 in primary.takers.consumers for primary in primaries))
        return len(left)

    state.work.resize(SMALL)
    watch(cluster, "n1", sessions)
    # It is another process before anybody has missed it.
    cluster.kill("n3", unseen=True)
    cluster.start("n3")
    cluster.pass_ms(5_000)
    assert left
    assert not any(left), left
    assert all(len(info.in_sync) == 2 for info in state.map.fragments.values())


@pytest.mark.parametrize("small", [1, 40, SMALL])
def test_what_is_published_while_a_member_comes_back_is_there_once(small: int) -> None:
    cluster = Cluster(3)
    queues(cluster, 12)
    publisher = cluster.client("n3")
    publisher.ask(ConfirmSelect(), ConfirmSelectOk)
    for name in ("n1", "n2", "n3"):
        cluster.node(name).state.work.resize(small)
    # Away for so long that the others have it down, and back as the same process.
    cluster.cut("n3")
    cluster.pass_ms(3_000)
    assert not cluster.node("n1").state.map.members[N3].up
    peer = cluster.node("n3").state.peers[N1]
    published: list[int] = []

    def publish() -> int:
        if peer.unsaid and len(published) < 12:
            published.append(len(peer.unsaid))
            for number in range(12):
                body = f"{len(published)}"
                publisher.write(publish_frames(1, "", f"q{number}", body.encode(), PERSISTENT, 0))
        return 0

    watch(cluster, "n3", publish)
    cluster.mend("n3")
    cluster.pass_ms(10_000)
    assert published, "no introduction was seen on its way"
    wanted = [str(number) for number in range(1, len(published) + 1)]
    for number in range(12):
        reader = cluster.client("n1")
        reader.send(BasicConsume(f"q{number}", "all"))
        cluster.pass_ms(100)
        bodies = [body.removeprefix("again: ") for body in reader.deliveries()]
        assert bodies == wanted
