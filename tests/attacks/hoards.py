"""Things that a node must hold and that cost more than their bytes (findings H2, H5, M3)."""

from fedq.amqp import method_types as m
from fedq.amqp.methods import encode_method
from fedq.amqp.values import FieldTable
from fedq.core.limits import KIB, MIB
from tests.attacks.attacker import Attacker, message
from tests.attacks.handshakes import secure, with_tls
from tests.attacks.stage import AMPLE, AMPLE_GROWTH, MEMORY_BYTES, Stage, attack
from tests.integration.stock import Address
from tests.integration.waiting import until

QUEUE = "attacked"
#: Who holds too much; its neighbours are another user's.
HOARDER = "hoarder"
TWO_USERS = {
    "limits": {"memory_bytes": MEMORY_BYTES},
    "users": {"guest": "guest", HOARDER: HOARDER},
}


@attack("H5")
def small_messages_that_expire(stage: Stage) -> None:
    """500,000 empty messages with an expiration: 18 bytes each, and 400 to hold them."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(1)
        attacker.call(1, m.QueueDeclare(QUEUE), m.QueueDeclareOk)
        publish = message(1, QUEUE, b"", properties={"expiration": "10000000"})
        attacker.send_bytes(publish * 500_000, reads=False)
        _others_go_on(stage)


@attack("H5")
def small_messages_with_priorities(stage: Stage) -> None:
    """500,000 empty messages in a queue with a TTL and priorities."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(1)
        arguments = {"x-message-ttl": 10_000_000, "x-max-priority": 5}
        attacker.call(1, m.QueueDeclare(QUEUE, arguments={**arguments}), m.QueueDeclareOk)
        publish = message(1, QUEUE, b"")
        attacker.send_bytes(publish * 500_000, reads=False)
        _others_go_on(stage)


@attack("H2")
def bodies_without_an_end_on_many_connections(stage: Stage) -> None:
    """40 connections send 15 MiB each of bodies that they do not finish."""
    attackers = [Attacker(stage.address) for _ in range(40)]
    begun = message(1, QUEUE, bytes(15 * MIB))[: 15 * MIB]
    for attacker in attackers:
        attacker.open_channels(1)
        attacker.send_bytes(begun, reads=False)
    _others_go_on(stage)
    for attacker in attackers:
        attacker.hang_up()


@attack("H5")
def transactions_that_are_not_committed(stage: Stage) -> None:
    """20 connections publish 30 MiB each in transactions."""
    attackers = [Attacker(stage.address) for _ in range(20)]
    for attacker in attackers:
        attacker.open_channels(1)
        attacker.call(1, m.QueueDeclare(QUEUE), m.QueueDeclareOk)
        attacker.call(1, m.TxSelect(), m.TxSelectOk)
    publish = message(1, QUEUE, bytes(100 * KIB))
    for attacker in attackers:
        attacker.send_bytes(publish * 300, reads=False)
    _others_go_on(stage)
    for attacker in attackers:
        attacker.hang_up()


@attack("H5")
def a_long_queue_that_is_held_unacknowledged(stage: Stage) -> None:
    """160 MiB of persistent messages, and a consumer without a prefetch that acknowledges none.

    Then it hangs up, and another one takes all of them again.
    """
    count = 40_000
    with Attacker(stage.address) as publisher:
        publisher.open_channels(1)
        publisher.call(1, m.QueueDeclare(QUEUE, durable=True), m.QueueDeclareOk)
        publisher.publish(1, QUEUE, bytes(4 * KIB), count, properties={"delivery_mode": 2})
        publisher.confirm(1)
    for _ in range(2):
        with Attacker(stage.address) as attacker:
            attacker.open_channels(1)
            attacker.call(1, m.BasicConsume(QUEUE), m.BasicConsumeOk)
            attacker.wait(m.BasicDeliver, count)
            _others_go_on(stage)
            _others_publish(stage)


def _others_publish(stage: Stage) -> None:
    """Another client's persistent messages are confirmed meanwhile."""
    with Attacker(stage.address) as other:
        other.open_channels(1)
        other.call(1, m.QueueDeclare("others", durable=True), m.QueueDeclareOk)
        other.confirm(1)
        other.publish(1, "others", bytes(KIB), 100, properties={"delivery_mode": 2})
        until("they are confirmed", lambda: _is_confirmed(other, 100), seconds=30)


def _is_confirmed(publisher: Attacker, count: int) -> bool:
    publisher.look()
    last = publisher.last.get(m.BasicAck)
    return isinstance(last, m.BasicAck) and last.delivery_tag == count


@attack("M3", more=TWO_USERS)
def queues_and_bindings_of_many_connections(stage: Stage) -> None:
    """20 connections with 20 exclusive queues each, and bindings with long arguments.

    Their user comes to what one user may hold; others declare what they like.
    """
    attackers = [Attacker(stage.address, user=HOARDER) for _ in range(20)]
    for attacker in attackers:
        attacker.open_channels(1)
        names = [f"{id(attacker)}-{number}" for number in range(20)]
        for name in names:
            attacker.send(1, m.QueueDeclare(name, exclusive=True, no_wait=True))
        arguments: FieldTable = {"x-match": "all", **{f"{each:03}": each for each in range(250)}}
        for number in range(300):
            bind = m.QueueBind(
                names[number % 20], "amq.headers", "", True, {**arguments, "n": number}
            )
            attacker.send_bytes(encode_method(1, bind), reads=False)
    _others_go_on(stage)
    until("the user is refused more", lambda: _refused(attackers), seconds=30)
    _others_go_on(stage)
    for attacker in attackers:
        attacker.hang_up()


def _refused(attackers: list[Attacker]) -> bool:
    for attacker in attackers:
        attacker.look()
    said = [text for attacker in attackers for text in attacker.refusals.values()]
    return any(HOARDER in text and "use fewer" in text for text in said)


@attack("H1")
def consumers_that_do_not_read(stage: Stage) -> None:
    """50 messages of 1 MiB for 20 subscribers without a prefetch that read nothing."""
    attackers = [Attacker(stage.address) for _ in range(20)]
    for attacker in attackers:
        attacker.open_channels(1)
        attacker.call(1, m.QueueDeclare("", exclusive=True), m.QueueDeclareOk)
        attacker.call(1, m.QueueBind("", "amq.fanout"), m.QueueBindOk)
        attacker.call(1, m.BasicConsume("", no_ack=True), m.BasicConsumeOk)
    with Attacker(stage.address) as publisher:
        publisher.open_channels(1)
        publish = message(1, "", bytes(MIB), "amq.fanout")
        publisher.send_bytes(publish * 50, reads=False)
        _others_go_on(stage)
    for attacker in attackers:
        attacker.hang_up()


#: Publishers wait now and then and go on, as the disk takes what they send: so there is always some
#: on its way, of which gRPC has a message in each direction that no node can count.
ON_ITS_WAY_BYTES = 2 * 8 * MIB


@attack("H2", nodes=3, is_quick=True, growth_bytes=int(1.3 * MEMORY_BYTES) + ON_ITS_WAY_BYTES)
def long_messages_until_publishers_wait(stage: Stage) -> None:
    """Persistent messages of 8 MiB into a queue with three copies, by way of each node."""
    publish = message(1, QUEUE, bytes(8 * MIB), properties={"delivery_mode": 2})
    attackers = [Attacker(node.amqp) for node in stage.cluster.nodes.values()]
    for attacker in attackers:
        attacker.open_channels(1)
        declare = m.QueueDeclare(QUEUE, durable=True, arguments={"x-fedq-replicas": 3})
        attacker.call(1, declare, m.QueueDeclareOk)
    for attacker in attackers:
        # As much as its node takes.
        attacker.send_bytes(publish * 12, reads=False)
    _others_go_on(stage)
    for attacker in attackers:
        attacker.hang_up()


@attack("H1")
def one_long_message_for_many_who_do_not_read(stage: Stage) -> None:
    """Three messages of 15 MiB; 60 connections get each of them many times, and read nothing.

    Whoever is cut off for that makes room for the next.
    """
    _get_and_do_not_read(stage, stage.address)


@attack("H1", nodes=3)
def one_long_message_of_another_node_for_many_who_do_not_read(stage: Stage) -> None:
    """The same with one of 8 MiB, where it is on another node: each answer is a copy of its own."""
    owners = list(stage.cluster.nodes.values())[1].amqp
    _get_and_do_not_read(stage, owners, count=1, size=8 * MIB, is_cut_off=False)


@attack("H1", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def the_longest_message_for_many_who_do_not_read(stage: Stage) -> None:
    """The same with one message of 128 MiB, which every piece of work on it takes long for."""
    _get_and_do_not_read(stage, stage.address, count=1, size=128 * MIB - 1, is_cut_off=False)


@attack("H1")
def one_long_message_for_many_consumers_who_do_not_read(stage: Stage) -> None:
    """60 subscribers of a fanout exchange, a message of 15 MiB, nothing read."""
    _subscribe_and_do_not_read(stage, [Attacker(stage.address) for _ in range(60)])


@attack("H1", prepare=with_tls)
def one_long_message_for_many_tls_clients_who_do_not_read(stage: Stage) -> None:
    """The same with 200 subscribers that speak TLS: each of them gets other bytes."""
    place = secure(stage)
    _subscribe_and_do_not_read(stage, [Attacker(place, has_tls=True) for _ in range(200)])


def _subscribe_and_do_not_read(stage: Stage, attackers: list[Attacker]) -> None:
    """Of a fanout exchange, to which a message of 15 MiB is published."""
    for attacker in attackers:
        attacker.open_channels(1)
        attacker.call(1, m.QueueDeclare("", exclusive=True), m.QueueDeclareOk)
        attacker.call(1, m.QueueBind("", "amq.fanout"), m.QueueBindOk)
        attacker.call(1, m.BasicConsume("", no_ack=True), m.BasicConsumeOk)
    connected = stage.descriptors()
    with Attacker(stage.address) as publisher:
        publisher.open_channels(1)
        publisher.publish(1, "", bytes(15 * MIB), exchange="amq.fanout")
        publisher.confirm(1)
        _others_go_on(stage)
        until("some are cut off", lambda: stage.descriptors() < connected - 3, seconds=30)
    for attacker in attackers:
        attacker.hang_up()


def _get_and_do_not_read(
    stage: Stage, owners: Address, count: int = 3, size: int = 15 * MIB,
    is_cut_off: bool = True,
) -> None:  # fmt: skip
    """`owners`: of the node where the messages are. `is_cut_off`: what is unread is too much."""
    with Attacker(owners) as owner:
        owner.open_channels(1)
        owner.call(1, m.QueueDeclare(QUEUE), m.QueueDeclareOk)
        for _ in range(count):
            owner.publish(1, QUEUE, bytes(size))
            owner.confirm(1)
    attackers = [Attacker(stage.address) for _ in range(60)]
    connected = stage.descriptors()
    for attacker in attackers:
        attacker.open_channels(1)
        pairs = [
            encode_method(1, m.BasicGet(QUEUE)) + encode_method(1, m.BasicReject(tag, True))
            for tag in range(1, 101)
        ]
        if not attacker.is_closed:
            attacker.send_bytes(b"".join(pairs), reads=False)
    _others_go_on(stage)
    if is_cut_off:
        until("some are cut off", lambda: stage.descriptors() < connected - 3, seconds=30)
    _others_go_on(stage)
    for attacker in attackers:
        attacker.hang_up()


def _others_go_on(stage: Stage) -> None:
    """Another client is served meanwhile."""
    with Attacker(stage.address) as other:
        other.open_channels(1)
        other.call(1, m.QueueDeclare("other", exclusive=True), m.QueueDeclareOk)
