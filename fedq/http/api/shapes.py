"""Rows of RabbitMQ's API, from what the admin service answers.

One function for each kind of thing. What fedq does not know or count is left out, and what it shows
means what it means in RabbitMQ; names that fedq alone has begin with `fedq_`. Names of connections
are fedq's (NODE.PROCESS.NUMBER): those of RabbitMQ, made of two addresses, may come again.
"""

from base64 import urlsafe_b64encode
from hashlib import blake2b
from typing import Final
from urllib.parse import quote_plus

import orjson

from fedq.admin.rows import (
    FRAGMENT_STATES,
    OTHER,
    arguments_of,
    channel_name,
    channel_row,
    connection_row,
    consumer_row,
)
from fedq.http.api.rates import Rates, fragment_counters, message_stats
from fedq.http.serving.exchange import Row
from fedq.shell.pb import admin_pb2 as pb

_DESCRIPTION: Final = "AMQP {} exchange, as per the AMQP specification"
EXCHANGE_TYPES: Final = ("direct", "fanout", "headers", "topic")
#: Fragment states as states of a queue.
_STATES: Final = {
    pb.FRAGMENT_STATE_SERVING: "running",
    pb.FRAGMENT_STATE_CATCHING_UP: "running",
    pb.FRAGMENT_STATE_UNAVAILABLE: "down",
}


def exchange_types() -> list[Row]:
    """The types that every broker has."""
    return [
        {"name": each, "description": _DESCRIPTION.format(each), "enabled": True}
        for each in EXCHANGE_TYPES
    ]


def queue(each: pb.Queue, rates: Rates) -> Row:
    """A shared queue; figures that are unknown are left out."""
    arguments = arguments_of(each.arguments_json)
    states = [_STATES.get(fragment.state, "unknown") for fragment in each.fragments]
    first = each.fragments[0] if each.fragments else None
    members = dict.fromkeys(
        node for fragment in each.fragments for node in (fragment.primary, *fragment.backups)
    )
    row: Row = {
        "name": each.name,
        "vhost": each.vhost,
        "durable": each.durable,
        "auto_delete": each.auto_delete,
        "exclusive": False,
        "arguments": arguments,
        "type": arguments.get("x-queue-type", "classic"),
        "node": first.primary if first is not None else "",
        "state": next((state for state in states if state != "running"), "running"),
        "policy": each.policy or None,
        "operator_policy": each.operator_policy or None,
        "effective_policy_definition": arguments_of(each.effective_policy_json),
        "fedq_members": list(members),
        "fedq_in_sync": list(
            dict.fromkeys(n for fragment in each.fragments for n in fragment.in_sync)
        ),
        "fedq_fragments": len(each.fragments),
        "fedq_replicas": each.replicas,
    }
    if each.HasField("ready"):
        row["messages_ready"] = each.ready
        row["messages_unacknowledged"] = each.unacknowledged
        row["messages"] = each.ready + each.unacknowledged
        row["message_bytes"] = sum(fragment.bytes for fragment in each.fragments)
    if each.HasField("consumers"):
        row["consumers"] = each.consumers
    if each.fragments and all(fragment.HasField("traffic") for fragment in each.fragments):
        counted = (
            ((fragment.fragment, fragment.reign), fragment_counters(fragment.traffic))
            for fragment in each.fragments
        )
        if stats := message_stats(rates, counted):
            row["message_stats"] = stats
    return row


def fragment(each: pb.Fragment) -> Row:
    """A fragment of a queue, where it is and what it holds."""
    is_known = each.HasField("ready")
    return {
        "fragment": each.fragment,
        "state": FRAGMENT_STATES.get(each.state, OTHER),
        "primary": each.primary,
        "backups": list(each.backups),
        "in_sync": list(each.in_sync),
        "ready": each.ready if is_known else None,
        "unacknowledged": each.unacknowledged if is_known else None,
        "bytes": each.bytes if is_known else None,
    }


def properties_key(routing_key: str, arguments: Row) -> str:
    """What tells a binding from others between the same two: of the key, and of its arguments."""
    key = quote_plus(routing_key).replace("~", "%7E")
    if not arguments:
        return key or "~"
    digest = blake2b(orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS), digest_size=6).digest()
    return f"{key}~{urlsafe_b64encode(digest).decode()}"


def binding(each: pb.Binding) -> Row:
    """A binding of an exchange to a queue, an exchange, or a node's exclusive queues."""
    arguments = arguments_of(each.arguments_json)
    return {
        "source": each.source_name,
        "vhost": each.vhost,
        "destination": each.destination_name,
        "destination_type": each.destination_kind,
        "routing_key": each.routing_key,
        "arguments": arguments,
        "properties_key": properties_key(each.routing_key, arguments),
    }


def connection(each: pb.Connection) -> Row:
    """A client connection."""
    row = {
        **connection_row(each),
        "user_who_performed_action": each.user,
        "client_properties": {"connection_name": each.client_name} if each.client_name else {},
        "protocol": "AMQP 0-9-1",
        "type": "network",
    }
    if each.client_name:
        row["user_provided_name"] = each.client_name
    return row


def channel(each: pb.Channel) -> Row:
    """A channel of a client connection."""
    return {
        **channel_row(each),
        "user_who_performed_action": each.user,
        "connection_details": {"name": each.connection},
        "state": "running" if each.flow else "flow",
    }


def consumer(each: pb.Consumer) -> Row:
    """A consumer; whether it is active may be unknown."""
    row: Row = {
        **consumer_row(each),
        "queue": {"name": each.queue.name, "vhost": each.queue.vhost},
        "exclusive": False,
        "channel_details": {
            "name": channel_name(each.connection, each.channel),
            "connection_name": each.connection,
            "number": each.channel,
            "node": each.node,
        },
    }
    if each.HasField("active"):
        row["active"] = each.active
        row["activity_status"] = "up" if each.active else "waiting"
    return row


def user(name: str, tags: tuple[str, ...] | list[str], limits: Row) -> Row:
    """A user; never its password, in whatever form."""
    return {"name": name, "tags": list(tags), "limits": limits}


def node(each: pb.Member) -> Row:
    """A member of the cluster, with what it says of itself."""
    row: Row = {
        "name": each.node,
        "type": "disc",
        "running": each.state == pb.MEMBER_STATE_UP and each.HasField("figures"),
        "partitions": [],
        "fedq_zone": each.zone,
        "fedq_amqp_address": each.amqp_address,
    }
    if not each.HasField("figures"):
        return row
    figures, alarms = each.figures, each.figures.alarms
    row |= {
        "uptime": figures.uptime_ms,
        "mem_used": figures.memory_bytes,
        "mem_limit": alarms.memory_bytes_max,
        "mem_alarm": alarms.memory,
        "disk_free_limit": alarms.disk_free_bytes_min,
        "disk_free_alarm": alarms.disk,
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": name, "description": f"SASL {name}", "enabled": True}
            for name in ("PLAIN", "AMQPLAIN")
        ],
        "fedq_stopping": figures.stopping,
        "fedq_version": figures.version,
        "fedq_lease_held": figures.lease_held,
        "fedq_leader": figures.leader,
        "fedq_troubles": list(figures.troubles),
    }
    if alarms.HasField("disk_free_bytes"):
        row["disk_free"] = alarms.disk_free_bytes
    return row
