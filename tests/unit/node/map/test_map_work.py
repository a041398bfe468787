"""What the map or a peer makes a node do at once ends with the budget of a turn (ADR 0048)."""

from itertools import pairwise

from fedq.amqp.methods import QueueDeclare, QueueDeclareOk
from fedq.core.ids import Epoch, NodeId
from fedq.core.peer_messages import CopyQuery, CopyWorth, PeerMessage, ReplicaOffer, ReplicaWanted
from fedq.fragments.copy.positions import PER_UNIT
from fedq.wiring.cluster_map.state import FragmentInfo
from tests.unit.node.harness import Client, Cluster

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
        # One by one: those that come together are one command.
        client.send(QueueDeclare(f"q{number}"))
        cluster.wait_for(lambda: any(isinstance(said, QueueDeclareOk) for said in client.said))
        client.said.clear()
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


#: Messages in a queue, and units of work for a turn of who has a copy of it.
MESSAGES = 4_000
SMALL = 60


class Copied:
    """A queue with very many messages, and a node with a copy and little room in its turns."""

    def __init__(self) -> None:
        self.cluster = Cluster(3)
        self.client = self.cluster.client("n1")
        self.client.send(QueueDeclare("orders", durable=True))
        self.publish(self.client)
        self.cluster.pass_ms(500)
        self.info: FragmentInfo = next(iter(self.cluster.node("n1").state.map.fragments.values()))
        (backup,) = self.info.backups
        self.state = self.cluster.node(backup).state
        self.reviving = self.cluster.node(backup).cluster.reviving
        self.state.work.resize(SMALL)
        # As after settlements out of their order: each one is kept singly.
        assert len(self.state.backups[self.info.id].replica.messages) == MESSAGES

    @staticmethod
    def publish(client: Client) -> None:
        for _ in range(MESSAGES // 500):
            client.publish("orders", *["x"] * 500)

    def say(self, message: PeerMessage) -> None:
        """The primary says this to the copy's node."""
        primary = self.cluster.node("n1")
        assert primary.state.me == self.info.primary
        host = self.cluster.hosts[primary.state.me]
        host.inbox.append(lambda node: node.state.send(self.state.me, message))

    def turns_until(self, kind: type[PeerMessage]) -> tuple[PeerMessage, int]:
        """What the node says next of this kind; and after how many turns that had work to do."""
        self.cluster.overheard.clear()
        for turns in range(1_000):
            self.cluster.turn()
            for source, _, message in self.cluster.overheard:
                if source == self.state.me and isinstance(message, kind):
                    return message, turns
        raise AssertionError(f"no {kind.__name__}")


#: A turn's room, if all of it goes into looking for positions.
TURNS_MIN = MESSAGES // (PER_UNIT * SMALL)


def test_a_copy_says_what_it_holds_after_as_many_turns_as_that_takes() -> None:
    scene = Copied()
    scene.say(ReplicaWanted(scene.info.id, scene.info.reign))
    offer, turns = scene.turns_until(ReplicaOffer)
    assert isinstance(offer, ReplicaOffer)
    assert sum(last - first + 1 for first, last in offer.held) == MESSAGES
    assert turns >= TURNS_MIN
    scene.cluster.pass_ms(1_000)
    backup = scene.state.backups[scene.info.id]
    primary = scene.cluster.node("n1").state.primaries[scene.info.id]
    assert backup.replica.in_order() == dict(primary.fragment.messages)
    assert NodeId(scene.state.me) in scene.state.map.fragments[scene.info.id].in_sync


def test_a_copy_is_summed_up_in_as_many_turns_as_that_takes() -> None:
    scene = Copied()
    scene.say(CopyQuery(scene.info.id, Epoch(scene.info.epoch)))
    worth, turns = scene.turns_until(CopyWorth)
    assert isinstance(worth, CopyWorth)
    assert worth.live == MESSAGES
    # All positions are looked at twice.
    assert turns >= TURNS_MIN


def test_a_copy_that_changes_while_it_is_summed_up_is_led_by_somebody() -> None:
    scene = Copied()
    scene.cluster.overheard.clear()
    scene.say(CopyQuery(scene.info.id, Epoch(scene.info.epoch)))
    for _ in range(3):
        scene.cluster.turn()
    chores = scene.state.chores
    assert chores.has_more
    scene.client.publish("orders", "one more")
    scene.cluster.pass_ms(500)
    assert not scene.state.chores.are_under_way(scene.reviving)
    assert not [said for _, _, said in scene.cluster.overheard if isinstance(said, CopyWorth)]
