"""Traces in the map: what begins and ends them, and the exchange that comes with version 12."""

from fedq.core.errors import NOT_FOUND, Refused
from fedq.core.ids import Incarnation, NodeId, QueueKey
from fedq.core.versions import TRACING
from fedq.wiring.cluster_map import invariants
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import (
    DeclareQueue,
    DeleteQueue,
    MemberUp,
    Operation,
    encode_command,
)
from fedq.wiring.cluster_map.operations_access import AddVhost, DeleteVhost
from fedq.wiring.cluster_map.operations_members import Speaks
from fedq.wiring.cluster_map.operations_tracing import SetFirehose, StartTrace, StopTrace
from fedq.wiring.cluster_map.state import TRACE_EXCHANGE, ExchangeAdded, Ok

STREAM = '{"x-queue-type":"stream"}'
A, B = NodeId("a"), NodeId("b")


class Log:
    """A map, and operations that are applied to it one after the other."""

    def __init__(self) -> None:
        self.map = ClusterMap()
        self._count = 0
        for node in (A, B):
            self.do(MemberUp(node, Incarnation(1), "p", "c", ""))

    def do(self, operation: Operation) -> Ok | Refused:
        self._count += 1
        self.applied = self.map.apply(encode_command(str(self._count), [operation]))
        invariants.check(self.map)
        return self.applied.results[0]

    def exchanges(self) -> list[str]:
        """Virtual hosts that have the firehose's exchange."""
        return [key.vhost for key in self.map.exchanges if key.name == TRACE_EXCHANGE]


def stream(log: Log, vhost: str = "/") -> None:
    log.do(DeclareQueue(vhost, "s", True, False, STREAM, A, 1, 1))


def test_the_exchange_comes_when_the_last_node_speaks_the_version() -> None:
    log = Log()
    log.do(AddVhost("shop"))
    log.do(Speaks(A, Incarnation(1), 5, TRACING))
    log.do(Speaks(B, Incarnation(1), 5, TRACING - 1))
    assert log.exchanges() == []
    log.do(MemberUp(B, Incarnation(2), "p", "c", ""))
    log.do(Speaks(B, Incarnation(2), 5, TRACING))
    assert log.exchanges() == ["/", "shop"]
    added = [change for change in log.applied.changes if isinstance(change, ExchangeAdded)]
    assert [change.key for change in added] == [
        QueueKey("/", TRACE_EXCHANGE), QueueKey("shop", TRACE_EXCHANGE),
    ]  # fmt: skip
    log.do(AddVhost("later"))
    assert log.exchanges() == ["/", "shop", "later"]
    found = log.map.exchanges[QueueKey("later", TRACE_EXCHANGE)]
    assert (found.type, found.durable, found.internal) == ("topic", True, True)
    log.do(DeleteVhost("later"))
    assert log.exchanges() == ["/", "shop"]


def test_a_trace_stays_when_its_stream_goes_and_ends_with_a_virtual_host_of_its_own() -> None:
    log = Log()
    log.do(AddVhost("shop"))
    stream(log)
    stream(log, "shop")
    assert log.do(StartTrace("one", "shop", "", "", 1, "/", "s")) == Ok(1)
    assert log.do(StartTrace("two", "", "", "", 1, "shop", "s")) == Ok(1)
    assert log.do(StartTrace("three", "", "", "", 1, "/", "s")) == Ok(1)
    log.do(DeleteQueue("/", "s"))
    assert list(log.map.traces) == ["one", "two", "three"]
    log.do(DeleteVhost("shop"))
    assert list(log.map.traces) == ["three"]
    assert log.do(StopTrace("three")) == Ok(1)
    refused = log.do(StopTrace("three"))
    assert isinstance(refused, Refused)
    assert refused.reply_code == NOT_FOUND


def test_the_firehose_is_switched_for_a_virtual_host() -> None:
    log = Log()
    assert log.do(SetFirehose("/", True)) == Ok(1)
    assert log.do(SetFirehose("/", True)) == Ok()
    assert log.do(SetFirehose("/", False)) == Ok(1)
    assert log.do(SetFirehose("/", False)) == Ok()
    assert log.map.firehose == {}


def test_a_snapshot_keeps_traces() -> None:
    log = Log()
    stream(log)
    log.do(StartTrace("one", "/", "amq.default", "q", 7, "/", "s"))
    log.do(SetFirehose("/", True))
    restored = ClusterMap()
    restored.restore(log.map.snapshot())
    assert (restored.traces, restored.firehose) == (log.map.traces, {"/": None})
    assert restored.bytes_held == log.map.bytes_held
