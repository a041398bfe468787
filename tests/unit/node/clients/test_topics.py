"""Which topics users may publish to and bind by; what RabbitMQ says to it, fedq says."""

from collections.abc import Callable

import pytest

from fedq.amqp.content import NO_PROPERTIES, encode_properties
from fedq.amqp.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueUnbind,
    QueueUnbindOk,
    TxSelect,
    TxSelectOk,
)
from fedq.amqp.publishes import PublishRun, take_publishes
from fedq.amqp.values import FieldTable, TableValue
from fedq.node.clients import topics
from fedq.wiring.cluster_map.operations_access import PutUser, SetPermissions
from fedq.wiring.cluster_map.operations_topics import ClearTopicPermissions, SetTopicPermissions
from tests.contract.http.topics import DEEDS, SET, recorded
from tests.unit.amqp.wire import publish
from tests.unit.node.clients.test_access import RECORD, add_user, change, channel_of, refused
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.uncompiled import only_uncompiled


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(1)
    owner = cluster.client()
    owner.ask(QueueDeclare("q"), QueueDeclareOk)
    owner.ask(ExchangeDeclare("t", "topic"), ExchangeDeclareOk)
    owner.ask(ExchangeDeclare("d", "direct"), ExchangeDeclareOk)
    owner.ask(QueueBind("q", "t", "#"), QueueBindOk)
    add_user(cluster)
    return cluster


def limit(cluster: Cluster, write: str, read: str = ".*", exchange: str = "t") -> None:
    change(cluster, SetTopicPermissions("ann", "/", exchange, write, read))


def text_of(topic: str) -> str:
    return (
        f"ACCESS_REFUSED - access to topic '{topic}' in exchange 't' in vhost '/' refused for user "
        "'ann'"
    )


def publishes(client: Client, *keys: str, copies: FieldTable | None = None) -> str:
    """Publishes to the exchange, in one piece; "" or the text that closes the channel."""
    properties = encode_properties({"headers": copies}) if copies else NO_PROPERTIES
    client.said.clear()
    client.write(b"".join(publish(1, "t", key, b"x", properties) for key in keys))
    client.cluster.settle()
    return closed_for(client)


def closed_for(client: Client) -> str:
    """The text that closed the channel, which is opened again; "": it is open."""
    if not client.has(ChannelClose):
        return ""
    closed = client.take(ChannelClose)
    assert closed.reply_code == 403
    client.send(ChannelCloseOk())
    client.ask(ChannelOpen(), ChannelOpenOk)
    return closed.reply_text


def waiting(cluster: Cluster) -> int:
    """How many messages wait in the queue that gets all topics."""
    passive = QueueDeclare("q", passive=True)
    return cluster.client().ask(passive, QueueDeclareOk).message_count


_BINDINGS: dict[str, Callable[[str], tuple[Method, type]]] = {
    "bind": lambda key: (QueueBind("q", "t", key), QueueBindOk),
    "unbind": lambda key: (QueueUnbind("q", "t", key), QueueUnbindOk),
    "bind an exchange": lambda key: (ExchangeBind("d", "t", key), ExchangeBindOk),
    "bind to amq.direct": lambda key: (QueueBind("q", "amq.direct", key), QueueBindOk),
}


def test_each_deed_ends_as_with_rabbitmq(cluster: Cluster) -> None:
    limit(cluster, SET["write"], SET["read"])
    limit(cluster, "", "^$", "amq.direct")
    ann = channel_of(cluster, "ann")
    found = []
    for word, key in DEEDS:
        if word == "publish":
            found.append([word, key, publishes(ann, key)])
            continue
        method, answer = _BINDINGS[word](key)
        ann.said.clear()
        ann.send(method)
        found.append([word, key, closed_for(ann)])
        assert ann.has(answer) is (found[-1][2] == "")
    assert found == recorded()["deeds"]


def test_who_is_not_limited_may_use_all_topics(cluster: Cluster) -> None:
    limit(cluster, "^a$")
    add_user(cluster, "ben")
    ben = channel_of(cluster, "ben")
    assert publishes(ben, "a", "b", "c") == ""
    ann = channel_of(cluster, "ann")
    ann.ask(QueueBind("q", "amq.topic", "b"), QueueBindOk)
    assert publishes(ann, "a") == ""
    assert waiting(cluster) == 4


def test_a_run_of_publishes_ends_at_the_first_topic_that_is_refused(cluster: Cluster) -> None:
    limit(cluster, "^a")
    ann = channel_of(cluster, "ann")
    # Neighbours that go the same way are looked at one by one.
    assert publishes(ann, "a1", "a2", "a2", "a3", "b", "a4") == text_of("b")
    assert waiting(cluster) == 4
    assert publishes(ann, "b", "b") == text_of("b")
    assert publishes(ann, "a1", "a1") == ""
    assert waiting(cluster) == 6


def test_limits_hold_at_once_and_end_at_once(cluster: Cluster) -> None:
    ann = channel_of(cluster, "ann")
    assert publishes(ann, "b") == ""
    limit(cluster, "^a")
    assert publishes(ann, "b") == text_of("b")
    limit(cluster, "b")
    assert publishes(ann, "b") == ""
    limit(cluster, "")
    assert publishes(ann, "b") == text_of("b")
    assert publishes(ann, "") == "", "no pattern is for the empty key alone"
    change(cluster, ClearTopicPermissions("ann", "/", "t", False))
    assert publishes(ann, "b") == ""


def test_copies_need_their_topics_too(cluster: Cluster) -> None:
    limit(cluster, "^a")
    ann = channel_of(cluster, "ann")
    for header in ("CC", "BCC"):
        assert publishes(ann, "a", copies={header: ["a.b", "b"]}) == text_of("b")
        assert publishes(ann, "a", copies={header: ["a.b"]}) == ""
    assert publishes(ann, "b", copies={"CC": ["a"]}) == text_of("b")


def test_a_transaction_hears_of_it_before_it_commits(cluster: Cluster) -> None:
    limit(cluster, "^a")
    ann = channel_of(cluster, "ann")
    ann.ask(TxSelect(), TxSelectOk)
    assert publishes(ann, "a", "b") == text_of("b")
    assert waiting(cluster) == 0


@pytest.mark.parametrize("user", ["a.b", "x|y", "$^", "ü(*"])
def test_a_name_in_a_pattern_means_itself(cluster: Cluster, user: str) -> None:
    everything = SetPermissions(user, "/", ".*", ".*", ".*")
    topics_of = SetTopicPermissions(user, "/", "t", "^{username}{vhost}$", "")
    change(cluster, PutUser(user, RECORD, (), False), everything, topics_of)
    client = channel_of(cluster, user)
    assert publishes(client, f"{user}/") == ""
    for other in ("aXb/", "x", "y/", "/", "", f"{user}//"):
        assert "access to topic" in publishes(client, other)


def test_only_topic_exchanges_are_limited_and_only_when_they_are_there(cluster: Cluster) -> None:
    ann = channel_of(cluster, "ann")
    limit(cluster, "", "", exchange="d")
    limit(cluster, "", "", exchange="later")
    ann.ask(QueueBind("q", "d", "k"), QueueBindOk)
    ann.ask(ExchangeDeclare("later", "topic"), ExchangeDeclareOk)
    text = refused(cluster, ann, QueueBind("q", "later", "k"))
    assert "access to topic 'k' in exchange 'later'" in text


@pytest.mark.parametrize("bind", [QueueBind, QueueUnbind])
def test_a_binding_without_queue_and_key_is_asked_for_the_key_that_it_gets(
    cluster: Cluster, bind: type[QueueBind | QueueUnbind]
) -> None:
    limit(cluster, "", "^(a.*)?$")
    answer = QueueBindOk if bind is QueueBind else QueueUnbindOk
    ann = channel_of(cluster, "ann")
    ann.ask(QueueDeclare("a.q"), QueueDeclareOk)
    ann.ask(bind("", "t", ""), answer)
    limit(cluster, "", "^$")
    text = refused(cluster, ann, bind("", "t", ""))
    assert text.endswith(text_of("a.q").partition(" - ")[2])


def test_a_long_topic_is_refused_in_a_text_that_fits(cluster: Cluster) -> None:
    limit(cluster, "^a")
    ann = channel_of(cluster, "ann")
    assert publishes(ann, "k" * 255).startswith("ACCESS_REFUSED - access to topic 'kkk")
    assert publishes(ann, "a") == "", "the connection is open"


@only_uncompiled
def test_what_is_remembered_of_topics_is_bounded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "VERDICTS_KEPT_MAX", 8)
    limit(cluster, "^a")
    ann = channel_of(cluster, "ann")
    assert publishes(ann, *(f"a{number}" for number in range(100))) == ""
    known = cluster.node("n1").permissions.topics
    (found,) = known._keys.values()
    assert len(found.verdicts) <= 8
    assert waiting(cluster) == 100
    # Headers may hold keys of any length.
    for first in "ab":
        long = f"{first}{'k' * 255}"
        closed = publishes(ann, "a", copies={"CC": [long]})
        assert closed.startswith("ACCESS_REFUSED - access to topic")
    assert max(len(key) for key in found.verdicts) <= 255


def test_copies_cost_a_turn_at_most(cluster: Cluster) -> None:
    limit(cluster, "(a?){450}")
    ann = channel_of(cluster, "ann")
    copies: list[TableValue] = [f"{number}{'k' * 100}" for number in range(50)]
    ann.write(publish(1, "t", "a", b"x", encode_properties({"headers": {"CC": copies}})))
    cluster.settle()
    closed = ann.take(ChannelClose)
    assert closed.reply_code == 406
    assert closed.reply_text.endswith("too many new topics for one message: publish several")
    ann.send(ChannelCloseOk())
    ann.ask(ChannelOpen(), ChannelOpenOk)
    assert publishes(ann, "a", copies={"CC": copies[-5:]}) == ""


def test_new_topics_of_a_batch_end_its_turn(cluster: Cluster) -> None:
    limit(cluster, "(a?){450}")
    keys = [f"{number}{'k' * 200}" for number in range(50)]
    owner = cluster.client()
    # The routes are known: it is the permission that has to be found.
    owner.write(b"".join(publish(1, "t", key, b"x") for key in keys))
    cluster.settle()
    ann = channel_of(cluster, "ann")
    node = cluster.node("n1")
    channel = node.state.clients[ann.connection].channels[1]
    batch: list[PublishRun] = []
    data = b"".join(publish(1, "t", key, b"x") for key in keys)
    take_publishes(data, 0, 131_072, {}, batch)
    assert len(batch) == 50
    left = node.publishing.flow.on_publishes(channel, batch)
    assert 30 < len(left) < 50


def test_a_new_topic_costs_what_its_pattern_takes(cluster: Cluster) -> None:
    # As long as a pattern may be, about; and a key that it walks to the end.
    limit(cluster, "(a?){450}b$")
    ann = channel_of(cluster, "ann")
    work = cluster.node("n1").state.work
    state = cluster.node("n1").state
    client = state.clients[ann.connection]
    may = cluster.node("n1").permissions.may_publish_topic
    may(client, "t", "warm")
    before = work.left
    assert may(client, "t", "a" * 255) is False
    assert before - work.left > 1_000
    before = work.left
    assert may(client, "t", "a" * 255) is False
    assert work.left == before, "what is known costs nothing"
