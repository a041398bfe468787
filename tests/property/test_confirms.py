"""Confirms of publishes in one piece that go to many queues, against a plain account of each tag.

The model goes publish by publish: which queues it reaches, which of them refuses it since it is
full, which of them waits for a disk. A confirm says nothing before all of a tag's queues have it,
waits for nothing else than those and the tags before it, and a nack is for what was refused alone.
"""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedq.amqp.methods import (
    BasicAck,
    BasicNack,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
)
from fedq.amqp.values import FieldTable
from tests.examples import examples
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import PERSISTENT, Client, Cluster

#: Queue -> whether it is durable, how many messages it takes, and the words that lead to it.
QUEUES: dict[str, tuple[bool, int | None, tuple[str, ...]]] = {
    "safe": (True, None, ("a", "ab", "abc")),
    "kept": (True, None, ("b", "ab")),
    "quick": (False, None, ("b", "c", "abc")),
    "short": (False, 2, ("c", "ac", "abc")),
    "tight": (True, 1, ("d", "ac")),
    "pri": (False, None, ("p", "ap")),
}
WORDS = ("a", "b", "c", "d", "p", "ab", "ac", "ap", "abc", "none")
pieces = st.lists(
    st.lists(st.tuples(st.sampled_from(WORDS), st.booleans()), min_size=1, max_size=12),
    min_size=1, max_size=3,
)  # fmt: skip


def wired() -> tuple[Cluster, Client]:
    """A publisher with confirms, and nobody who consumes."""
    cluster = Cluster(1)
    client = cluster.client()
    methods: list[Method] = [ExchangeDeclare("x", "direct")]
    for name, (durable, most, words) in QUEUES.items():
        arguments: FieldTable = {}
        if most is not None:
            arguments = {"x-max-length": most, "x-overflow": "reject-publish"}
        methods.append(QueueDeclare(name, False, durable, name == "pri", arguments=arguments))
        methods += [QueueBind(name, "x", word) for word in words]
    client.send(*methods)
    bindings = sum(len(words) for _, _, words in QUEUES.values())
    cluster.wait_for(lambda: sum(isinstance(s, QueueBindOk) for s in client.said) == bindings)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.heard()
    return cluster, client


def told(heard: list[Method], through: int) -> tuple[dict[int, bool], int]:
    """Tag -> safe, of what a publisher heard; and the last tag it was told of."""
    found: dict[int, bool] = {}
    for said in heard:
        if isinstance(said, BasicAck | BasicNack):
            first = through + 1 if said.multiple else said.delivery_tag
            for tag in range(first, said.delivery_tag + 1):
                assert tag not in found, "told twice"
                found[tag] = isinstance(said, BasicAck)
            through = said.delivery_tag
    return found, through


@settings(max_examples=examples(60))
@given(pieces, st.booleans())
@example([[("none", False), ("a", False)]], True)
def test_each_tag_is_told_when_its_queues_have_it(
    batches: list[list[tuple[str, bool]]], disk_waits: bool
) -> None:
    cluster, client = wired()
    cluster.disk_waits("n1", disk_waits)
    room = {name: most for name, (_, most, _) in QUEUES.items() if most is not None}
    safe: dict[int, bool] = {}
    #: The first tag that waits for the disk.
    waits = returned = 0
    for batch in batches:
        for word, mandatory in batch:
            tag = len(safe) + 1
            queues = [name for name, (_, _, words) in QUEUES.items() if word in words]
            taken = [name for name in queues if room.get(name, 1) > 0]
            for name in taken:
                room[name] = room.get(name, 1 << 30) - 1
            safe[tag] = taken == queues
            returned += mandatory and not queues
            if not waits and any(QUEUES[name][0] for name in taken):
                waits = tag
        client.write(
            b"".join(publish(1, "x", word, b"m", PERSISTENT, int(must)) for word, must in batch)
        )
        cluster.settle()
    heard = client.heard()
    assert sum(isinstance(said, BasicReturn) for said in heard) == returned
    early, through = told(heard, 0)
    end = waits - 1 if disk_waits and waits else len(safe)
    assert early == {tag: safe[tag] for tag in range(1, end + 1)}
    cluster.disk_waits("n1", False)
    cluster.pass_ms(50)
    late, _ = told(client.heard(), through)
    assert early | late == safe
    assert not early.keys() & late.keys()
