"""Few bytes that make a node walk over much: settlements, consumers, bindings (finding H4)."""

from fedq.amqp import method_types as m
from fedq.amqp.methods import encode_method
from fedq.amqp.values import FieldTable, TableValue
from tests.attacks.attacker import Attacker, message
from tests.attacks.stage import AMPLE, AMPLE_GROWTH, Stage, attack

QUEUE = "attacked"


def _unacked(attacker: Attacker, count: int) -> None:
    """Channel 1 gets `count` deliveries and acknowledges none."""
    attacker.open_channels(2)
    attacker.call(1, m.QueueDeclare(QUEUE), m.QueueDeclareOk)
    attacker.publish(2, QUEUE, b"", count)
    attacker.confirm(2)
    attacker.send(1, m.BasicConsume(QUEUE, "taker"))
    attacker.wait(m.BasicDeliver, count)


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH, is_quick=True)
def acknowledgements_of_much_in_a_transaction(stage: Stage) -> None:
    """400 times ack(multiple) of 1, 2, 3 … while 50,000 deliveries are unacknowledged."""
    with Attacker(stage.address) as attacker:
        _unacked(attacker, 50_000)
        attacker.call(1, m.TxSelect(), m.TxSelectOk)
        acks = [encode_method(1, m.BasicAck(tag, True)) for tag in range(1, 401)]
        attacker.send_bytes(b"".join(acks))
        attacker.call(1, m.TxRollback(), m.TxRollbackOk)


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def a_consumer_with_much_unacknowledged_is_lost(stage: Stage) -> None:
    """No attack: the connection of a consumer without a prefetch breaks with 400,000 unacked."""
    with Attacker(stage.address) as attacker:
        _unacked(attacker, 400_000)
    with Attacker(stage.address) as after:
        after.open_channels(1)
        after.call(1, m.QueuePurge(QUEUE), m.QueuePurgeOk)


def _consume(attacker: Attacker, channel: int, count: int, priority: bool = False) -> None:
    arguments: dict[str, int] = {"x-priority": 1} if priority else {}
    consumes = [
        encode_method(channel, m.BasicConsume(QUEUE, f"{channel}-{each}", no_wait=True))
        for each in range(count - 1)
    ]
    attacker.send_bytes(b"".join(consumes))
    last = m.BasicConsume(QUEUE, f"{channel}-last", arguments={**arguments})
    attacker.call(channel, last, m.BasicConsumeOk)


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH, is_quick=True)
def many_consumers_of_one_queue_hang_up(stage: Stage) -> None:
    """Two channels with thousands of consumers each, one of them with a priority, break."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(2)
        attacker.call(1, m.QueueDeclare(QUEUE), m.QueueDeclareOk)
        _consume(attacker, 1, 10_000)
        _consume(attacker, 2, 10_000, priority=True)


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH, is_quick=True)
def prefetch_changes_for_many_consumers(stage: Stage) -> None:
    """1,000 times basic.qos(global) on a channel with 10,000 consumers."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(1)
        attacker.call(1, m.QueueDeclare(QUEUE), m.QueueDeclareOk)
        _consume(attacker, 1, 10_000)
        changes = [m.BasicQos(0, 1 + number % 100, True) for number in range(1_000)]
        attacker.send(1, *changes)
        attacker.wait(m.BasicQosOk, len(changes))


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def flow_changes_for_many_consumers(stage: Stage) -> None:
    """200 times channel.flow on a channel with 10,000 consumers."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(1)
        attacker.call(1, m.QueueDeclare(QUEUE), m.QueueDeclareOk)
        _consume(attacker, 1, 10_000)
        attacker.send(1, *[m.ChannelFlow(number % 2 == 1) for number in range(200)])
        attacker.wait(m.ChannelFlowOk, 200)


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def acknowledgements_of_nothing_with_many_consumers(stage: Stage) -> None:
    """300 pairs of ack(0, multiple) on two channels with a global prefetch and 10,000 consumers."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(2)
        attacker.call(1, m.QueueDeclare(QUEUE), m.QueueDeclareOk)
        for channel in (1, 2):
            attacker.call(channel, m.BasicQos(0, 1, True), m.BasicQosOk)
            _consume(attacker, channel, 5_000)
        for _ in range(300):
            attacker.send(1, m.BasicAck(0, True))
            attacker.send(2, m.BasicAck(0, True))
        attacker.confirm(1)


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH, is_quick=True)
def headers_bindings_and_publishes(stage: Stage) -> None:
    """500 publishes to a headers exchange with 3,000 private bindings."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(1)
        declare = m.QueueDeclare("mine", exclusive=True)
        attacker.call(1, declare, m.QueueDeclareOk)
        binds = [
            m.QueueBind("mine", "amq.headers", "", True, {"x-match": "all", "n": number})
            for number in range(3_000)
        ]
        attacker.send(1, *binds)
        attacker.confirm(1)
        publishes = [
            message(1, "", b"", "amq.headers", {"headers": {"n": -number}}) for number in range(500)
        ]
        attacker.send_bytes(b"".join(publishes))
        attacker.confirm(1)


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def one_publish_with_many_keys(stage: Stage) -> None:
    """One publish with 1,000 keys in CC to a topic exchange with 1,024 private bindings."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(1)
        attacker.call(1, m.QueueDeclare("mine", exclusive=True), m.QueueDeclareOk)
        keys = ["#." * (n % 10) + "*" + ".#" * (9 - n % 10) + f".{n}" for n in range(1_024)]
        attacker.send(1, *[m.QueueBind("mine", "amq.topic", key, True) for key in keys])
        attacker.confirm(1)
        copies = [".".join(str(number + part) for part in range(30)) for number in range(1_000)]
        attacker.send_bytes(message(1, "a", b"", "amq.topic", {"headers": {"CC": list(copies)}}))
        attacker.confirm(1)


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def a_long_message_ends_many_short_ones(stage: Stage) -> None:
    """A queue bounded in bytes drops 60,000 messages of one byte for a long one."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(1)
        arguments = {"x-max-length-bytes": 60_000}
        attacker.call(1, m.QueueDeclare(QUEUE, arguments={**arguments}), m.QueueDeclareOk)
        attacker.publish(1, QUEUE, b"x", 60_000)
        attacker.confirm(1)
        attacker.publish(1, QUEUE, bytes(60_000))
        attacker.confirm(1)


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def much_that_was_returned_is_purged(stage: Stage) -> None:
    """400,000 messages are delivered, returned by basic.recover, and purged."""
    with Attacker(stage.address) as attacker:
        _unacked(attacker, 400_000)
        attacker.call(1, m.BasicCancel("taker"), m.BasicCancelOk)
        attacker.call(1, m.BasicRecover(True), m.BasicRecoverOk)
        attacker.call(2, m.QueuePurge(QUEUE), m.QueuePurgeOk)


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH, is_quick=True)
def filters_of_a_stream_that_match_nothing(stage: Stage) -> None:
    """40 readers, each with 64 values of its own, walk over messages with 2,000 headers each."""
    headers: FieldTable = {f"{number:04}": None for number in range(2_000)}
    with Attacker(stage.address) as attacker:
        attacker.open_channels(2)
        stream = m.QueueDeclare(QUEUE, durable=True, arguments={"x-queue-type": "stream"})
        attacker.call(1, stream, m.QueueDeclareOk)
        for number in range(100):
            headers["x-stream-filter-value"] = f"{number}"
            attacker.send_bytes(message(2, QUEUE, b"", properties={"headers": headers}))
        attacker.confirm(2)
        attacker.send_bytes(message(2, QUEUE, b"") * 5_000)
        attacker.confirm(2)
        attacker.call(1, m.BasicQos(prefetch_count=1), m.BasicQosOk)
        for number in range(40):
            values: list[TableValue] = [f"no {number} {each}" for each in range(64)]
            wanted: FieldTable = {"x-stream-filter": values, "x-stream-offset": "first"}
            attacker.send(1, m.BasicConsume(QUEUE, f"r{number}", arguments=wanted))
        attacker.wait(m.BasicConsumeOk, 40)
        for _ in range(20):
            attacker.call(1, m.BasicConsume(QUEUE, "r", arguments=wanted), m.BasicConsumeOk)
            attacker.call(1, m.BasicCancel("r"), m.BasicCancelOk)
        attacker.publish(2, QUEUE, b"", 1_000)
        attacker.confirm(2)
