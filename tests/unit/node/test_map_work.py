"""What the map or a peer makes a node do at once ends with the budget of a turn (ADR 0048)."""

from itertools import pairwise

from fedq.amqp.methods import QueueDeclare, QueueDeclareOk
from tests.unit.node.harness import Cluster

WORK = 400
COUNT = 60


def behind(cluster: Cluster) -> int:
    """How many commands n3 has yet to hear."""
    return len(cluster.log) - cluster.hosts[cluster.node("n3").state.me].applied


def test_a_node_that_was_away_follows_the_map_as_its_turns_have_room() -> None:
    cluster = Cluster(3, work_per_turn=WORK)
    client = cluster.client("n1")
    cluster.cut("n3")
    before = cluster.node("n3").state.map.version
    for number in range(COUNT):
        client.send(QueueDeclare(f"q{number}"))
    cluster.wait_for(lambda: sum(isinstance(s, QueueDeclareOk) for s in client.said) == COUNT)
    cluster.mend("n3")
    assert behind(cluster) >= COUNT
    node = cluster.node("n3")
    longest = turns = 0
    while behind(cluster):
        version = node.state.map.version
        assert cluster.turn()
        longest = max(longest, node.state.map.version - version)
        turns += 1
    assert node.state.map.version >= before + COUNT
    # A command that declares a queue costs some 30 units.
    assert 0 < longest <= WORK // 20, f"{longest} commands in one of {turns} turns"
    cluster.settle()
    digests = [cluster.node(name).state.map.digest for name in ("n1", "n2", "n3")]
    assert digests == digests[:1] * 3


def test_a_command_of_the_map_is_taken_in_each_turn_however_busy_it_is() -> None:
    cluster = Cluster(1, work_per_turn=1)
    client = cluster.client()
    for number in range(10):
        client.send(QueueDeclare(f"q{number}"))
    assert [said.queue for said in client.said if isinstance(said, QueueDeclareOk)] == [
        f"q{number}" for number in range(10)
    ]


def test_fragments_are_looked_after_as_turns_have_room() -> None:
    cluster = Cluster(1, work_per_turn=WORK)
    client = cluster.client()
    for number in range(COUNT):
        # Such queues are looked at in each tick, used or not.
        client.send(QueueDeclare(f"q{number}", arguments={"x-expires": 3_600_000}))
    state = cluster.node("n1").state
    cluster.pass_ms(1_000)
    assert len(state.looked_after) == COUNT
    state.work.resize(60)
    cluster.hosts[state.me].inbox.append(lambda node: node.on_tick())
    cluster.now_ms += 50
    looked = [0]
    while looked[-1] < COUNT:
        assert cluster.turn()
        looked.append(len(state.looked_after))
    longest = max(after - before for before, after in pairwise(looked))
    assert 0 < longest <= 60 // 3 + 3, looked
