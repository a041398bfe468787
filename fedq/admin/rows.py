"""What messages of the admin service say, in RabbitMQ's words, as JSON values.

In: a message. Out: the part of its row that the command line (`--json`) and the HTTP API have in
common; each adds what is its own. Names here are a promise to scripts.
"""

from typing import Any, Final, TypeAlias

import orjson

from fedq.core.addresses import split_address
from fedq.shell.pb import admin_pb2 as pb

Row: TypeAlias = dict[str, Any]

FRAGMENT_STATES: Final = {
    pb.FRAGMENT_STATE_SERVING: "serving",
    pb.FRAGMENT_STATE_CATCHING_UP: "catching up",
    pb.FRAGMENT_STATE_UNAVAILABLE: "unavailable",
    pb.FRAGMENT_STATE_UNKNOWN: "unknown",
}
#: A word of a newer node that this version does not know.
OTHER: Final = "unknown"


def arguments_of(text: str) -> Row:
    """The arguments of a declaration, or of a binding."""
    found: Row = orjson.loads(text) if text else {}
    return found


def channel_name(connection: str, number: int) -> str:
    """What a channel is called: its connection's name, and its number there."""
    return f"{connection} ({number})"


def connection_row(each: pb.Connection) -> Row:
    """A client connection; the port of an address that has none is 0."""
    try:
        host, port = split_address(each.client_address)
    except ValueError:
        host, port = each.client_address, 0
    return {
        "name": each.name,
        "node": each.node,
        "user": each.user,
        "vhost": each.vhost,
        "peer_host": host,
        "peer_port": port,
        "channels": each.channels,
        "state": "blocked" if each.blocked else "running",
    }


def channel_row(each: pb.Channel) -> Row:
    """A channel of a client connection."""
    return {
        "name": channel_name(each.connection, each.number),
        "number": each.number,
        "node": each.node,
        "user": each.user,
        "vhost": each.vhost,
        "consumer_count": each.consumers,
        "messages_unacknowledged": each.unacknowledged,
        "messages_uncommitted": each.uncommitted,
        "acks_uncommitted": each.acks_uncommitted,
        "messages_unconfirmed": each.unconfirmed,
        "prefetch_count": each.prefetch_count,
        "global_prefetch_count": each.global_prefetch_count,
        "confirm": each.confirm,
        "transactional": each.transactional,
    }


def consumer_row(each: pb.Consumer) -> Row:
    """A consumer, without what it consumes from."""
    return {
        "consumer_tag": each.tag,
        "ack_required": each.ack_required,
        "prefetch_count": each.prefetch_count,
        "arguments": {"x-priority": each.priority} if each.priority else {},
    }


def exchange_row(each: pb.Exchange) -> Row:
    """An exchange."""
    return {
        "name": each.name,
        "vhost": each.vhost,
        "type": each.type,
        "durable": each.durable,
        "auto_delete": each.auto_delete,
        "internal": each.internal,
        "arguments": arguments_of(each.arguments_json),
    }


def permission_row(each: pb.Permissions) -> Row:
    """What a user may do in a virtual host."""
    return {
        "user": each.user,
        "vhost": each.vhost,
        "configure": each.configure,
        "write": each.write,
        "read": each.read,
    }


def topic_permission_row(each: pb.TopicPermissions) -> Row:
    """What a user may do with the topics of an exchange."""
    return {
        "user": each.user,
        "vhost": each.vhost,
        "exchange": each.exchange,
        "write": each.write,
        "read": each.read,
    }
