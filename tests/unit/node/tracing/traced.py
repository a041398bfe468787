"""Traces of nodes driven by hand: started as by operators, read as anybody reads streams."""

from fedq.core.errors import Refused
from fedq.core.ids import NodeId, QueueKey
from fedq.core.message import split
from fedq.core.trace_records import Batch, Event, Ranges, decode
from fedq.node.cluster.proposals import Result
from fedq.node.node import Node
from fedq.wiring.cluster_map.operations import DeclareQueue, Operation
from fedq.wiring.cluster_map.operations_tracing import SetFirehose, StartTrace, StopTrace
from tests.unit.node.harness import Cluster

#: Events that are about the trace itself, or that come with time.
OWN = ("started", "stopped", "gap", "standing", "leads")


def change(cluster: Cluster, operation: Operation, node: str = "n1") -> Result:
    """What an operator hears who has the map changed."""
    heard: list[Result] = []

    def ask(node: Node) -> None:
        node.on_change_asked(operation, heard.append)

    cluster.hosts[NodeId(node)].inbox.append(ask)
    cluster.wait_for(lambda: bool(heard))
    return heard[0]


def start(
    cluster: Cluster, name: str = "all", *, vhost: str = "", exchange: str = "", queue: str = "",
    sample: int = 1, stream: str = "", arguments: str = '{"x-queue-type":"stream"}',
) -> None:  # fmt: skip
    """Starts a trace, whose stream is declared before."""
    stream = stream or f"fedq.trace.{name}"
    home = NodeId("n1")
    declared = change(cluster, DeclareQueue("/", stream, True, False, arguments, home, 1, 2))
    assert not isinstance(declared, Refused), declared
    begun = change(cluster, StartTrace(name, vhost, exchange, queue, sample, "/", stream))
    assert not isinstance(begun, Refused), begun
    cluster.pass_ms(200)


def stop(cluster: Cluster, name: str = "all") -> None:
    stopped = change(cluster, StopTrace(name))
    assert not isinstance(stopped, Refused), stopped
    cluster.pass_ms(200)


def firehose(cluster: Cluster, on: bool, vhost: str = "/") -> None:
    done = change(cluster, SetFirehose(vhost, on))
    assert not isinstance(done, Refused), done
    cluster.settle()


def batches(cluster: Cluster, name: str = "all") -> list[Batch]:
    """All batches in the stream of a trace."""
    cluster.pass_ms(300)
    stream = f"fedq.trace.{name}"
    node = cluster.node(cluster.primary_of(stream))
    info = node.state.map.queues[QueueKey("/", stream)]
    fragment = node.state.primaries[info.fragments[0]].fragment
    return [decode(split(message)[2]) for _, message in sorted(fragment.messages.pairs())]


def events(cluster: Cluster, name: str = "all", *kinds: str) -> list[Event]:
    """The events in the stream of a trace: of these kinds, or all but those about itself."""
    return [
        event
        for batch in batches(cluster, name)
        for event in batch.events
        if (event.kind in kinds if kinds else event.kind not in OWN)
    ]


def amount(ranges: Ranges) -> int:
    """How many numbers ranges hold."""
    return sum(last - first + 1 for first, last in ranges)


def kinds(cluster: Cluster, name: str = "all") -> list[str]:
    return [event.kind for event in events(cluster, name)]
