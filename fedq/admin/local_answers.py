"""What the node asked knows without asking anybody: the `Local…` calls.

Pure functions from an overview and a request to a reply; AdminError when the request is bad.
"""

from fedq.admin import messages
from fedq.admin.bounds import CONNECTIONS_DEFAULT, CONNECTIONS_MAX, QUEUES_PER_PAGE_MAX
from fedq.admin.own_process import OwnProcess
from fedq.admin.refusal import invalid
from fedq.core.ids import QueueKey
from fedq.node.views.overview_types import Overview
from fedq.shell.durations import Durations
from fedq.shell.pb import admin_pb2 as pb


def local_node(overview: Overview, turns: Durations, process: OwnProcess) -> pb.LocalNodeReply:
    """The node's own figures."""
    return pb.LocalNodeReply(figures=messages.figures(overview.node(), turns, process))


def local_fragments(
    overview: Overview, request: pb.LocalFragmentsRequest
) -> pb.LocalFragmentsReply:
    """The fragments this node serves of the queues asked for, and its clients' consumers.

    Of a single queue also what this node has of it, in memory and on its disk.
    """
    if len(request.queues) > QUEUES_PER_PAGE_MAX:
        raise invalid(
            f"{len(request.queues)} queues asked for at once; ask for at most {QUEUES_PER_PAGE_MAX}"
        )
    reply = pb.LocalFragmentsReply()
    for name in request.queues:
        key = QueueKey(name.vhost, name.name)
        for fragment in overview.local_fragments(key):
            # They may be many: of one queue alone.
            is_alone = len(request.queues) == 1
            readers = overview.named_readers(fragment.fragment) if is_alone else ()
            reply.fragments.append(messages.local_fragment(fragment, readers))
        consumers = overview.local_consumers(key)
        if consumers:
            reply.consumers.append(pb.LocalConsumers(queue=name, consumers=consumers))
        if len(request.queues) == 1:
            node = overview.process()[0]
            reply.copies.extend([messages.copy(node, each) for each in overview.copies(key)])
    return reply


def local_connections(
    overview: Overview, request: pb.LocalConnectionsRequest
) -> pb.LocalConnectionsReply:
    """The first of this node's client connections, and how many there are."""
    process = overview.process()
    found = overview.connections(connection_limit(request.limit))
    return pb.LocalConnectionsReply(
        connections=[messages.connection(process, connection) for connection in found],
        total=overview.node().connections,
    )


def connection_limit(limit: int) -> int:
    """How many connections to list; 0 asks for the default."""
    if limit > CONNECTIONS_MAX:
        raise invalid(f"limit is {limit}; ask for at most {CONNECTIONS_MAX} connections")
    return limit or CONNECTIONS_DEFAULT
