"""Why a client may not have, declare or delete a queue: the refusals of queue methods."""

from fedq.amqp.method_types import QueueDeclare, QueueDelete
from fedq.core.errors import (
    ACCESS_REFUSED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    RESOURCE_LOCKED,
    Refused,
)
from fedq.core.ids import QueueKey
from fedq.core.versions import (
    ADOPTING,
    JOINING,
    MEMBERSHIP,
    PARAMETERS,
    PARTED,
    PLANNED_MOVES,
    POLICIES,
    RABBIT_HASHES,
    SHAPES,
    STREAMS,
    TOPIC_PERMISSIONS,
    TRACING,
)
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.tables import arguments_text, refuse_arguments
from fedq.proxy.calls import Totals
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import Operation, arguments_of
from fedq.wiring.cluster_map.operations_access import PutUser, SetPassword
from fedq.wiring.cluster_map.operations_copies import AdoptCopy, ShapeQueue
from fedq.wiring.cluster_map.operations_members import AdmitNode, RosterOperation
from fedq.wiring.cluster_map.operations_moves import MovingOperation
from fedq.wiring.cluster_map.operations_parameters import ParameterOperation
from fedq.wiring.cluster_map.operations_policies import PolicyOperation
from fedq.wiring.cluster_map.operations_topics import TopicOperation
from fedq.wiring.cluster_map.operations_tracing import TracingOperation
from fedq.wiring.cluster_map.queue_arguments import (
    STREAM,
    arguments_differ,
    is_parted,
    name_of,
    refuse_contradiction,
    refuse_declaration,
    refuse_without_effect,
)
from fedq.wiring.cluster_map.rabbit_hashes import is_rabbit_hash


def missing(key: QueueKey) -> Refused:
    """The refusal of a queue that does not exist."""
    return Refused(NOT_FOUND, f"no queue '{key.name}' in vhost '{key.vhost}'")


def locked(key: QueueKey) -> Refused:
    """The refusal of a queue that is another connection's."""
    return Refused(
        RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked queue '{key.name}' in vhost '{key.vhost}'. It"
        " could be originally declared on another connection or the exclusive property value"
        " does not match that of the original declaration.",
    )


def _difference(key: QueueKey, name: str, received: bool, current: bool) -> Refused:
    return Refused(
        PRECONDITION_FAILED,
        f"inequivalent arg '{name}' for queue '{key.name}' in vhost '{key.vhost}': received "
        f"'{str(received).lower()}' but current is '{str(current).lower()}'",
    )


def refuse_other(private: PrivateQueue, request: QueueDeclare) -> Refused | None:
    """How an exclusive queue differs from what is declared; None if it does not."""
    if not request.exclusive:
        return locked(private.key)
    # What ends with its connection is durable in name only: that is not compared.
    if request.auto_delete != private.auto_delete:
        return _difference(private.key, "auto_delete", request.auto_delete, private.auto_delete)
    return arguments_differ(private.key, request.arguments, arguments_of(private.arguments))


def refuse_new(key: QueueKey, request: QueueDeclare) -> Refused | None:
    """Why there can be no new queue like this; None if there can."""
    if request.queue.startswith("amq."):
        text = f"queue name '{key.name}' contains reserved prefix 'amq.*'"
        return Refused(ACCESS_REFUSED, text)
    name, arguments = name_of(key), request.arguments
    return (
        refuse_arguments(arguments_text(arguments))
        or refuse_declaration(
            key, arguments, durable=request.durable, exclusive=request.exclusive,
            auto_delete=request.auto_delete, server_named=not request.queue,
        )
        or refuse_without_effect(name, arguments)
        or refuse_contradiction(name, arguments)
    )  # fmt: skip


def refuse_new_stream(request: QueueDeclare, known: ClusterMap) -> Refused | None:
    """Why there can be no such queue before all nodes are of a release that knows it."""
    if request.arguments.get("x-queue-type") != STREAM:
        return None
    refused = refuse_too_new("streams", STREAMS, known)
    if refused is None and is_parted(request.arguments):
        refused = refuse_too_new("streams in several fragments", PARTED, known)
    return refused


def refuse_too_new_change(operation: Operation, known: ClusterMap) -> Refused | None:
    """Why an operator's change cannot be made before all nodes are of a release that knows it."""
    if isinstance(operation, AdoptCopy):
        return refuse_too_new("commands that name a copy", ADOPTING, known)
    if isinstance(operation, ShapeQueue):
        return refuse_too_new("numbers of fragments that operators set", SHAPES, known)
    if isinstance(operation, AdmitNode):
        return refuse_too_new("nodes that join", JOINING, known)
    if isinstance(operation, RosterOperation):
        return refuse_too_new("commands that forget nodes", MEMBERSHIP, known)
    if isinstance(operation, TracingOperation):
        return refuse_too_new("traces", TRACING, known)
    if isinstance(operation, PolicyOperation):
        return refuse_too_new("policies", POLICIES, known)
    if isinstance(operation, TopicOperation):
        return refuse_too_new("permissions of topics", TOPIC_PERMISSIONS, known)
    if isinstance(operation, PutUser | SetPassword) and is_rabbit_hash(operation.password):
        return refuse_too_new("passwords as RabbitMQ keeps them", RABBIT_HASHES, known)
    if isinstance(operation, ParameterOperation):
        return refuse_too_new("parameters", PARAMETERS, known)
    if isinstance(operation, MovingOperation):
        return refuse_too_new("drained nodes and planned moves", PLANNED_MOVES, known)
    return None


def refuse_too_new(what: str, since: int, known: ClusterMap) -> Refused | None:
    """Why there can be no such thing before all nodes speak a version.

    As long as a new cluster has not settled on one, nobody must have said that it does not.
    """
    version = known.cluster_version
    if not version:
        version = min([newest for _, newest in known.speaks.values()], default=since)
    if version >= since:
        return None
    text = f"there are no {what} before every node of the cluster runs a release that has them"
    return Refused(PRECONDITION_FAILED, text)


def in_use(key: QueueKey, request: QueueDelete, totals: Totals) -> Refused | None:
    """Why the queue may not be deleted; None if it may."""
    if request.if_unused and totals.consumers:
        return Refused(PRECONDITION_FAILED, f"queue '{key.name}' in vhost '{key.vhost}' in use")
    if request.if_empty and totals.ready:
        return Refused(PRECONDITION_FAILED, f"queue '{key.name}' in vhost '{key.vhost}' not empty")
    return None
