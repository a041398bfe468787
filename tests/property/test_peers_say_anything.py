"""A member says anything that its decoder lets pass: the other one goes on, and serves its clients.

The messages speak of what is there: fragments that the receiver serves, copies and draws from, in
their reigns, with positions around those in use.
"""

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core import peer_messages as peer
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin, QueueKey
from fedq.core.suspects import LastWords
from fedq.node.node import Node
from fedq.shell.peers.codec import decode_frame, encode_frame
from tests.examples import examples
from tests.property.journal_model import records
from tests.property.peer_strategies import (
    BY_FIELD,
    EVENTS,
    KINDS,
    LISTS,
    NUMBER_MAX,
    messages_of,
    suspects_of,
)
from tests.unit.journal.samples import encode_all
from tests.unit.node.harness import Client, Cluster

ME, OTHER = NodeId("n1"), NodeId("n2")


def _world() -> tuple[Cluster, Client]:
    """Two nodes, queues of either, messages that are ready, held, copied, dead and on their way."""
    cluster = Cluster(2)
    mine, theirs = cluster.client("n1", channels=2), cluster.client("n2")
    dlx: FieldTable = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "here",
        "x-max-length": 3,
    }
    mine.ask(QueueDeclare("here", durable=True), QueueDeclareOk)
    mine.ask(QueueDeclare("short", durable=True, arguments=dlx), QueueDeclareOk)
    theirs.ask(QueueDeclare("there", durable=True, arguments={"x-max-priority": 5}), QueueDeclareOk)
    private = mine.ask(QueueDeclare(exclusive=True), QueueDeclareOk).queue
    mine.ask(QueueBind(private, "amq.topic", "a.#"), QueueBindOk)
    for queue in ("here", "there"):
        mine.ask(ConfirmSelect(), ConfirmSelectOk, channel=2)
        mine.publish(queue, "1", "2", "3", channel=2)
        theirs.publish(queue, "4", "5", "6")
        mine.ask(BasicConsume(queue), BasicConsumeOk)
        theirs.ask(BasicConsume(queue), BasicConsumeOk)
    mine.publish("short", *"123456")
    theirs.publish("a.b", "relayed", exchange="amq.topic")
    return cluster, mine


def _around(values: list[int]) -> st.SearchStrategy[int]:
    near = sorted({value + step for value in values for step in (-1, 0, 1) if value + step >= 0})
    return st.sampled_from(near)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_whatever_a_member_says_the_other_one_goes_on(data: st.DataObject) -> None:
    cluster, client = _world()
    node = cluster.node("n1")
    state = node.state
    infos = state.map.fragments
    positions = [p for each in state.primaries.values() for p in each.fragment.messages]
    positions += [p for each in state.backups.values() for p in each.replica.messages]
    events = [each.fragment.last for each in state.primaries.values()]
    events += [each.replication.received for each in state.backups.values()]
    near = st.one_of(_around([*positions, *events]), EVENTS)
    # With room for what the receiver adds: its answers are held to the same bounds.
    small = st.integers(1, 10) | st.integers(0, NUMBER_MAX // 2)
    names = st.sampled_from(["/", "amq.topic", "amq.headers", "here", "x"])
    keys = st.builds(QueueKey, names, names)
    fields: dict[str, st.SearchStrategy[object]] = {
        "positions": st.lists(near, max_size=3), "redelivered": st.lists(near, max_size=3),
        "acknowledged": st.lists(near, max_size=3), "requeued": st.lists(near, max_size=3),
        "rejected": st.lists(near, max_size=3), "unseen": st.lists(near, max_size=3),
        "unmatched": LISTS | st.lists(small, max_size=3),
        "refused": LISTS | st.lists(small, max_size=3),
        "first": st.integers(1, 10) | BY_FIELD["first"],
        "through": near | small, "base": near, "previous": near, "last": near,
        "number": small, "copy": small | st.just(state.copies_asked), "copied": small,
        "request": small, "verb": st.integers(0, 6), "vhost": st.just("/") | names,
        "amount": small,
        "origin": st.builds(Origin, st.sampled_from([ME, OTHER]), st.just(Incarnation(1)))
        | BY_FIELD["origin"],
        # One whose map is another keeps the two from serving: of two nobody knows who is right.
        "digest": st.just(0),
        "user": st.sampled_from(["", "guest", "nobody"]),
        "everything": st.lists(keys, max_size=2), "selective": st.lists(keys, max_size=2),
    }  # fmt: skip
    for kind in data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=8)):
        info = data.draw(st.sampled_from(list(infos.values())))
        ids: dict[str, st.SearchStrategy[int]] = {
            "fragment": st.sampled_from([info.id] * 9 + [FragmentId(9)]),
            "reign": st.sampled_from([info.reign] * 9 + [info.reign + 1]),
            "epoch": st.sampled_from([info.epoch - 1, info.epoch, info.epoch + 1]),
        }
        # What a disk would take: of this fragment, its last word on what was seen among them.
        disk = records(st.just(info.id), near).map(lambda record: encode_all([record]))
        written = {"records": disk | st.binary(max_size=100), "origins": disk}
        message = data.draw(messages_of(kind, **{**fields, **ids, **written}))
        suspects = suspects_of(ids["fragment"], near)
        words = st.builds(LastWords, st.just("a step"), st.lists(suspects, max_size=3))
        link = state.peers[OTHER].link
        frame = peer.PeerFrame(
            OTHER, Incarnation(1), link.session[::-1], link.received + 1, data.draw(small),
            state.map.version, [message], peer.Heartbeat(2**64 - 1, 2**64 - 1, True),
            False, data.draw(st.none() | words),
        )  # fmt: skip
        decoded = decode_frame(encode_frame(frame))
        cluster.hosts[ME].inbox.append(partial(Node.on_peer, frame=decoded))
        cluster.pass_ms(50)
    for primary in state.primaries.values():
        primary.fragment.check()
    client = cluster.client("n1")
    name = client.ask(QueueDeclare(exclusive=True), QueueDeclareOk).queue
    client.publish(name, "served")
    assert client.ask(BasicGet(name, no_ack=True), BasicGetOk)
