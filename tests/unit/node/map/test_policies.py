"""Policies on nodes driven by hand: what is served obeys them from then on, and no longer."""

import orjson
import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicNack,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.errors import Refused
from fedq.core.ids import NodeId, QueueKey
from fedq.fragments.streams.log import StreamLog
from fedq.journal.records import NOTE_DEAD
from fedq.node.cluster.proposals import Result
from fedq.node.node import Node
from fedq.node.records.roles import Primary
from fedq.wiring.cluster_map.operations_policies import DropPolicy, PutPolicy
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.tracing.traced import change

Settings = dict[str, int | str]


def put(
    cluster: Cluster, definition: Settings, pattern: str = "", name: str = "p",
    operator: bool = False, apply_to: str = "all",
) -> Result:  # fmt: skip
    """An operator puts a policy, and the nodes come to rest."""
    text = orjson.dumps(definition).decode()
    done = change(cluster, PutPolicy("/", name, operator, pattern, apply_to, 0, text))
    assert not isinstance(done, Refused), done
    cluster.pass_ms(50)
    return done


def drop(cluster: Cluster, name: str = "p", operator: bool = False) -> None:
    done = change(cluster, DropPolicy("/", name, operator))
    assert not isinstance(done, Refused), done
    cluster.pass_ms(50)


def declare(client: Client, queue: str = "q", **arguments: int | str) -> None:
    table: FieldTable = {}
    for name, value in arguments.items():
        table[f"x-{name.replace('_', '-')}"] = value
    client.ask(QueueDeclare(queue, durable=True, arguments=table), QueueDeclareOk)


def primary(cluster: Cluster, queue: str = "q") -> Primary:
    node = cluster.node(cluster.primary_of(queue))
    info = node.state.map.queues[QueueKey("/", queue)]
    return node.state.primaries[info.fragments[0]]


def ready(cluster: Cluster, queue: str = "q") -> int:
    return primary(cluster, queue).fragment.ready_count


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


@pytest.mark.parametrize("setting", ["max-length", "max-length-bytes"])
def test_a_queue_is_cut_when_a_policy_comes_and_grows_again_when_it_goes(setting: str) -> None:
    cluster = Cluster(3)
    client = cluster.client("n2")
    declare(client)
    client.publish("q", *numbers(1, 9))
    put(cluster, {setting: 4}, "^q$")
    assert ready(cluster) == 4
    client.publish("q", *numbers(1, 9))
    assert ready(cluster) == 4
    # Another queue, and one of that name, that is declared afterwards.
    declare(client, "q2")
    client.publish("q2", *numbers(1, 9))
    assert ready(cluster, "q2") == 9
    drop(cluster)
    client.publish("q", *numbers(1, 9))
    assert ready(cluster) == 13


def test_a_new_queue_has_its_policies_and_the_smaller_number_counts() -> None:
    cluster = Cluster()
    client = cluster.client()
    put(cluster, {"max-length": 5})
    put(cluster, {"max-length": 3}, name="o", operator=True)
    declare(client, "q")
    declare(client, "short", max_length=2)
    declare(client, "long", max_length=100)
    for queue, length in (("q", 3), ("short", 2), ("long", 3)):
        client.publish(queue, *numbers(1, 9))
        assert ready(cluster, queue) == length
    drop(cluster, "o", operator=True)
    client.publish("long", *numbers(1, 9))
    assert ready(cluster, "long") == 5
    drop(cluster)
    client.publish("long", *numbers(1, 9))
    assert ready(cluster, "long") == 14


def test_a_time_to_live_counts_for_what_comes_from_then_on() -> None:
    cluster = Cluster()
    client = cluster.client()
    declare(client)
    client.publish("q", "old")
    put(cluster, {"message-ttl": 100})
    client.publish("q", "new")
    cluster.pass_ms(1_000)
    # As in RabbitMQ, when a message expires is settled as it comes.
    assert ready(cluster) == 1
    client.publish("q", "newer")
    drop(cluster)
    client.publish("q", "newest")
    cluster.pass_ms(1_000)
    assert ready(cluster) == 2


def test_what_dies_goes_where_the_policy_says_at_that_time() -> None:
    cluster = Cluster()
    client = cluster.client()
    declare(client)
    declare(client, "dead")
    client.publish("q", *numbers(1, 5))
    put(
        cluster,
        {"max-length": 2, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"}, "^q$",
    )  # fmt: skip
    cluster.pass_ms(100)
    assert (ready(cluster), ready(cluster, "dead")) == (2, 3)
    put(cluster, {"max-length": 1}, "^q$")
    cluster.pass_ms(100)
    assert (ready(cluster), ready(cluster, "dead")) == (1, 3)


def test_dead_letters_that_have_not_set_out_go_with_their_exchange() -> None:
    cluster = Cluster(work_per_turn=60)
    client = cluster.client()
    declare(client)
    declare(client, "dead")
    declare(client, "other")
    client.ask(QueueBind("q", "amq.topic", "#"), QueueBindOk)
    client.publish("other", *numbers(1, 400), exchange="amq.topic")
    letters = '{"dead-letter-exchange":"","dead-letter-routing-key":"dead","max-length":1}'
    fragment = primary(cluster).fragment
    operation = PutPolicy("/", "p", False, "^q$", "all", 0, letters)

    def ask(node: Node) -> None:
        node.on_change_asked(operation, lambda _: None)

    cluster.hosts[NodeId("n1")].inbox.append(ask)
    for _ in range(200):
        if not fragment.notes.get(NOTE_DEAD):
            cluster.turn()
    assert fragment.notes.get(NOTE_DEAD), "some have died, and wait"
    change(cluster, DropPolicy("/", "p", False))
    cluster.pass_ms(3_000)
    assert not fragment.notes.get(NOTE_DEAD)
    fragment.check()
    assert ready(cluster) + ready(cluster, "dead") < 400
    # None of them goes where the default exchange would lead it.
    assert ready(cluster, "other") == 0


def test_a_policy_refuses_publishes_and_lets_them_in_again() -> None:
    cluster = Cluster(3)
    client = cluster.client("n3")
    declare(client)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    put(cluster, {"max-length": 2, "overflow": "reject-publish"})
    client.publish("q", *numbers(1, 4))
    cluster.wait_for(lambda: client.has(BasicNack))
    assert ready(cluster) == 2
    client.said.clear()
    drop(cluster)
    client.publish("q", *numbers(1, 4))
    cluster.wait_for(lambda: client.has(BasicAck))
    assert ready(cluster) == 6
    # Whoever leads from now on cannot know what was refused before, and confirms none of it.
    assert primary(cluster).fragment.doubts
    cluster.kill(cluster.primary_of("q"))
    cluster.pass_ms(5_000)
    assert primary(cluster).fragment.doubts


def test_a_queue_that_nobody_uses_goes_with_a_policy_that_says_so() -> None:
    cluster = Cluster()
    client = cluster.client()
    declare(client)
    cluster.pass_ms(5_000)
    put(cluster, {"expires": 2_000}, "^q$")
    # It counts from now on.
    cluster.pass_ms(1_000)
    assert QueueKey("/", "q") in cluster.node("n1").state.map.queues
    cluster.pass_ms(2_000)
    assert QueueKey("/", "q") not in cluster.node("n1").state.map.queues


def test_policies_survive_the_primary_and_every_process() -> None:
    cluster = Cluster(3)
    client = cluster.client("n1")
    declare(client)
    put(cluster, {"max-length": 2})
    leader = cluster.primary_of("q")
    cluster.kill(leader)
    cluster.pass_ms(5_000)
    other = next(name for name in ("n1", "n2", "n3") if name != leader)
    sender = cluster.client(other)
    sender.publish("q", *numbers(1, 9))
    assert ready(cluster) == 2
    cluster.start(leader)
    cluster.pass_ms(5_000)
    book = cluster.node(leader).state.policies
    assert book.of_queue(QueueKey("/", "q"), {}).policy == "p"


def test_an_exchange_has_the_alternate_one_of_its_policy() -> None:
    cluster = Cluster()
    client = cluster.client()
    declare(client, "lost")
    client.ask(ExchangeDeclare("main", "direct"), ExchangeDeclareOk)
    client.ask(ExchangeDeclare("other", "fanout"), ExchangeDeclareOk)
    client.ask(QueueBind("lost", "other"), QueueBindOk)
    client.publish("nowhere", "1", exchange="main", mandatory=True)
    assert client.has(BasicReturn)
    put(cluster, {"alternate-exchange": "other"}, "^main$", apply_to="exchanges")
    client.publish("nowhere", "2", exchange="main")
    assert ready(cluster, "lost") == 1
    # And one that is declared afterwards; of queues it says nothing.
    client.ask(ExchangeDeclare("main2", "direct"), ExchangeDeclareOk)
    put(cluster, {"alternate-exchange": "other"}, "^main", apply_to="exchanges")
    client.publish("nowhere", "3", exchange="main2")
    assert ready(cluster, "lost") == 2
    drop(cluster)
    client.publish("nowhere", "4", exchange="main")
    assert ready(cluster, "lost") == 2


def test_an_exclusive_queue_has_policies_too() -> None:
    cluster = Cluster()
    client = cluster.client()
    put(cluster, {"max-length": 5})
    client.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    client.publish("mine", *numbers(1, 9))
    (private,) = cluster.node("n1").state.private.values()
    assert private.fragment.ready_count == 5
    put(cluster, {"max-length": 2})
    assert private.fragment.ready_count == 2
    drop(cluster)
    client.publish("mine", *numbers(1, 9))
    assert private.fragment.ready_count == 11


def test_a_stream_keeps_what_its_policy_says() -> None:
    cluster = Cluster()
    client = cluster.client()
    declare(client, "s", queue_type="stream")
    put(cluster, {"max-length-bytes": 300, "stream-max-segment-size-bytes": 100})
    for number in numbers(1, 40):
        client.publish("s", number * 20)
    cluster.pass_ms(1_000)
    log = primary(cluster, "s").fragment.log
    assert isinstance(log, StreamLog)
    assert log.size < 1_000
    drop(cluster)
    assert log.policy.max_bytes is None


def test_many_queues_are_looked_at_in_pieces() -> None:
    cluster = Cluster(work_per_turn=400)
    client = cluster.client()
    for number in range(60):
        declare(client, f"q{number}")
        client.publish(f"q{number}", *numbers(1, 3))
    state = cluster.node("n1").state
    turns = state.work.turn
    put(cluster, {"max-length": 1}, "(a|b|q)[0-9]+$")
    cluster.pass_ms(100)
    assert state.work.turn - turns > 3
    assert [ready(cluster, f"q{number}") for number in range(60)] == [1] * 60
    # A change while that goes on counts in the end.
    text = orjson.dumps({"max-length": 2}).decode()
    change(cluster, PutPolicy("/", "p", False, "", "all", 0, text))
    change(cluster, DropPolicy("/", "p", False))
    cluster.pass_ms(200)
    assert all(p.is_plain for p in state.primaries.values())
