"""Declarations and deletions that come in one write: proposed together, answered in order."""

import pytest

from fedq.amqp.methods import (
    ChannelClose,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    encode_method,
)
from fedq.core.ids import NodeId, QueueKey
from fedq.core.limits import COMMANDS_IN_FLIGHT_MAX
from fedq.core.versions import IN_ORDER
from fedq.node.cluster.proposals import InOrder, Result
from fedq.node.requests.trains import REQUESTS_MAX
from fedq.wiring.cluster_map.operations_access import SetVhostLimits
from fedq.wiring.cluster_map.operations_copies import ShapeQueue
from tests.unit.node.cluster.test_planned_moves import wish
from tests.unit.node.harness import Client, Cluster


def write(client: Client, *methods: Method) -> None:
    """All of it in one write; nobody has a turn yet."""
    client.write(b"".join(encode_method(1, method) for method in methods))


def asked(client: Client, *methods: Method) -> list[Method]:
    """What is answered to all of it, in order."""
    before = len(client.said)
    write(client, *methods)
    client.cluster.pass_ms(500)
    return client.heard()[before:]


def declares(*names: str) -> list[Method]:
    return [QueueDeclare(name, durable=True) for name in names]


def turn_of(cluster: Cluster, name: str) -> None:
    """One turn of this node alone."""
    cluster._turn(cluster.hosts[NodeId(name)])


def queues(cluster: Cluster) -> list[str]:
    """The queues that there are, on every node."""
    found = [list(cluster.node(name).state.map.queues) for name in cluster.hosts]
    assert all(each == found[0] for each in found)
    return [key.name for key in found[0]]


NAMES = [f"q{number}" for number in range(REQUESTS_MAX + 10)]


def test_declarations_in_one_write_need_few_commits_and_are_answered_in_order() -> None:
    cluster = Cluster(3)
    client = cluster.client("n2")
    before = len(cluster.log)
    assert asked(client, *declares(*NAMES)) == [QueueDeclareOk(name) for name in NAMES]
    assert queues(cluster) == NAMES
    assert asked(client, *map(QueueDelete, NAMES)) == [QueueDeleteOk(0)] * len(NAMES)
    assert queues(cluster) == []
    # Two each, and one more where a turn had no room for the rest.
    assert 4 <= len(cluster.log) - before <= 6


def test_before_all_nodes_know_of_trains_each_goes_by_itself() -> None:
    cluster = Cluster(3)
    for name in cluster.hosts:
        cluster.node(name).state.map.cluster_version = IN_ORDER - 1
    client, before = cluster.client(), len(cluster.log)
    assert asked(client, *declares("a", "b", "c")) == [QueueDeclareOk(name) for name in "abc"]
    assert asked(client, *map(QueueDelete, "abc")) == [QueueDeleteOk(0)] * 3
    commands = [command for command in cluster.log[before:] if b'_queue","' in command]
    assert len(commands) == 6
    assert b"in_order" not in b"".join(commands)


def test_what_comes_behind_a_declaration_that_another_client_made_impossible_is_not_made() -> None:
    cluster = Cluster(3)
    late, early = cluster.client("n2"), cluster.client("n1")
    # Whoever is asked first has its proposal in the log first.
    write(early, QueueDeclare("b", durable=False))
    before = len(late.said)
    write(late, *declares("a", "b", "c"), QueueDelete("x"))
    cluster.pass_ms(500)
    first, second = late.heard()[before:]
    assert first == QueueDeclareOk("a")
    assert isinstance(second, ChannelClose)
    assert second.reply_code == 406
    assert "inequivalent arg 'durable' for queue 'b'" in second.reply_text
    assert queues(cluster) == ["b", "a"]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (QueueDeclare("amq.mine", durable=True), 403),
        (QueueDeclare("q", durable=True, arguments={"x-max-length": "much"}), 406),
        (QueueDeclare("there", durable=True), 406),
        # What only a compiled node stumbles over: a number that is none.
        (QueueDeclare("q", durable=True, arguments={"x-fedq-replicas": "two"}), 406),
        (QueueDeclare("there", auto_delete=True, arguments={"x-fedq-replicas": "two"}), 406),
        (QueueDeclare("there", auto_delete=True, arguments={"x-fedq-fragments": "many"}), 406),
        (QueueDeclare("gone", passive=True), 404),
        (QueueDelete("full", if_empty=True), 406),
        (QueuePurge("gone"), 404),
    ],
)
def test_what_is_refused_is_refused_behind_the_answers_before_it(bad: Method, code: int) -> None:
    cluster = Cluster(2)
    client = cluster.client()
    asked(client, QueueDeclare("there", auto_delete=True), QueueDeclare("full", durable=True))
    client.publish("full", "a")
    cluster.pass_ms(500)
    *oks, refused = asked(client, *declares("a", "b"), bad, *declares("c"))
    assert oks == [QueueDeclareOk("a"), QueueDeclareOk("b")]
    assert isinstance(refused, ChannelClose)
    assert refused.reply_code == code
    assert queues(cluster) == ["there", "full", "a", "b"]


def test_no_number_of_fragments_is_refused_also_where_an_operator_has_set_one() -> None:
    cluster = Cluster(2)
    client = cluster.client()
    asked(client, *declares("a"))
    wish(cluster, ShapeQueue("/", "a", 2))
    cluster.pass_ms(500)
    other = QueueDeclare("a", durable=True, arguments={"x-fedq-fragments": 7})
    assert asked(client, other) == [QueueDeclareOk("a")]
    (refused,) = asked(client, other._replace(arguments={"x-fedq-fragments": "many"}))
    assert isinstance(refused, ChannelClose)
    assert refused.reply_code == 406
    assert "invalid arg 'x-fedq-fragments' for queue 'a'" in refused.reply_text


def test_a_limit_of_queues_counts_those_of_the_train_and_those_of_clients_alone() -> None:
    cluster = Cluster(2)
    client, other = cluster.client(), cluster.client()
    asked(other, *[QueueDeclare("", exclusive=True)] * 2)
    wish(cluster, SetVhostLimits("/", (("max-queues", 4),)))
    cluster.pass_ms(500)
    *oks, refused = asked(client, *declares("a", "b", "c", "d"))
    assert oks == [QueueDeclareOk("a"), QueueDeclareOk("b")]
    assert isinstance(refused, ChannelClose)
    assert "queue limit in vhost '/' (4) is reached" in refused.reply_text
    assert queues(cluster) == ["a", "b"]


def test_each_request_sees_what_those_before_it_did() -> None:
    cluster = Cluster(3)
    client = cluster.client("n3")
    asked(client, QueueDeclare("known", durable=True))
    client.publish("known", "a", "b")
    cluster.pass_ms(500)
    heard = asked(
        client,
        *declares("a", "known", "b"),
        QueueDeclare("a", passive=True),
        *declares("a"),
        QueueDelete("a"),
        QueueDelete("known"),
        QueueDelete("nothing"),
        *declares("a"),
        QueueDeclare("", durable=True, passive=False),
        QueueDelete("b", no_wait=True),
        QueueBind("a", "amq.direct", "key"),
    )
    assert [type(each).__name__ for each in heard] == [
        *["QueueDeclareOk"] * 5, *["QueueDeleteOk"] * 3, *["QueueDeclareOk"] * 2, "QueueBindOk",
    ]  # fmt: skip
    counts = [each.message_count for each in heard if isinstance(each, QueueDeclareOk)]
    assert counts == [0, 2, 0, 0, 0, 0, 0]
    assert heard[6] == QueueDeleteOk(2)
    made = heard[9]
    assert isinstance(made, QueueDeclareOk)
    assert queues(cluster) == ["a", made.queue]


def test_a_queue_that_ends_before_its_answer_is_declared_anew() -> None:
    cluster = Cluster(2)
    client, other = cluster.client(), cluster.client()
    asked(client, *declares("a"))
    # In the log behind the train, and applied before that is answered.
    write(other, QueueDelete("a"))
    heard = asked(client, *declares("b", "a", "c"))
    assert heard == [QueueDeclareOk(name) for name in "bac"]
    assert sorted(queues(cluster)) == ["a", "b", "c"]


def test_a_queue_behind_a_known_one_is_answered_when_all_nodes_know_it() -> None:
    cluster = Cluster(2)
    client, other = cluster.client(), cluster.client()
    asked(client, *declares("known"))
    here, before = cluster.hosts[NodeId("n1")], len(client.said)
    write(other, *declares("other"))
    while here.applied == len(cluster.log):
        turn_of(cluster, "n1")
    turn_of(cluster, "n1")
    # The other node has not even applied what was there when the train began.
    write(client, *declares("known", "new"))
    turn_of(cluster, "n1")
    turn_of(cluster, "n1")
    assert QueueKey("/", "new") in cluster.node("n1").state.map.queues
    *cluster.log, last = cluster.log
    turn_of(cluster, "n2")
    turn_of(cluster, "n1")
    assert QueueKey("/", "new") not in cluster.node("n2").state.map.queues
    assert client.heard()[before:] == []
    cluster.log.append(last)
    cluster.settle()
    assert client.heard()[before:] == [QueueDeclareOk("known"), QueueDeclareOk("new")]


def test_deletions_of_what_another_node_leads_are_answered_with_its_counts() -> None:
    cluster = Cluster(2)
    owner, client = cluster.client("n1"), cluster.client("n2")
    asked(owner, *declares("a", "b"))
    owner.publish("b", "1", "2", "3")
    cluster.pass_ms(500)
    assert asked(client, QueueDelete("a"), QueueDelete("b")) == [QueueDeleteOk(0), QueueDeleteOk(3)]
    assert queues(cluster) == []


def test_a_client_that_hangs_up_has_declared_what_it_said() -> None:
    cluster = Cluster(2)
    client = cluster.client()
    write(client, *declares(*NAMES))
    cluster.turn()
    client.hang_up()
    cluster.pass_ms(500)
    assert queues(cluster) == NAMES
    assert not cluster.node("n1").state.waiting


def test_without_a_majority_all_are_refused_by_the_first() -> None:
    cluster = Cluster(3, request_timeout_ms=1_000)
    client = cluster.client()
    cluster.proposals_lost = True
    write(client, *declares("a", "b"))
    cluster.wait_for(lambda: client.has(ChannelClose))
    assert client.take(ChannelClose).reply_code == 506
    assert not client.has(QueueDeclareOk)


def test_a_known_queue_is_declared_though_no_command_may_be_begun() -> None:
    cluster = Cluster(2)
    client = cluster.client()
    asked(client, *declares("known"))
    cluster.proposals_lost = True
    proposals, heard = cluster.node("n1").cluster.proposals, list[Result]()
    for _ in range(COMMANDS_IN_FLIGHT_MAX):
        command = proposals.begin_in_order()
        assert isinstance(command, InOrder)
        command.add(b"{}", heard.append)
        proposals.flush()
    known, refused = asked(client, *declares("known", "new"))
    assert known == QueueDeclareOk("known")
    assert isinstance(refused, ChannelClose)
    assert refused.reply_code == 506
    assert heard == []


def test_two_channels_that_declare_the_same_both_hear_that_it_is_there() -> None:
    cluster = Cluster(2)
    client = cluster.client(channels=2)
    before = len(client.said)
    both = [encode_method(channel, each) for each in declares("a", "b") for channel in (1, 2)]
    client.write(b"".join(both))
    cluster.pass_ms(500)
    assert client.heard()[before:] == [QueueDeclareOk(name) for name in "abab"]
    assert queues(cluster) == ["a", "b"]


def test_another_client_does_not_wait_for_all_of_many_declarations() -> None:
    cluster = Cluster(2)
    client, other = cluster.client(), cluster.client()
    names = [f"q{number}" for number in range(500)]
    write(client, *declares(*names))
    write(other, *declares("other"))
    cluster.wait_for(lambda: QueueKey("/", names[-1]) in cluster.node("n2").state.map.queues)
    cluster.pass_ms(500)
    assert [each.queue for each in client.heard() if isinstance(each, QueueDeclareOk)] == names
    made = queues(cluster)
    assert made.index("other") <= 2 * REQUESTS_MAX
