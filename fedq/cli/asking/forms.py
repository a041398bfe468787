"""Admin messages as JSON values. Names and shapes here are a promise to scripts (`--json`).

Unknown figures are null. States are the words that the tables show.
"""

from typing import Any, Final

from fedq.admin.rows import (
    FRAGMENT_STATES,
    OTHER,
    arguments_of,
    channel_name,
    channel_row,
    connection_row,
    consumer_row,
)
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.placement import host_of

Form = dict[str, Any]

MEMBER_STATES = {
    pb.MEMBER_STATE_UP: "up",
    pb.MEMBER_STATE_DOWN: "down",
    pb.MEMBER_STATE_ABSENT: "absent",
}
ROLES = {
    pb.RAFT_ROLE_LEADER: "leader",
    pb.RAFT_ROLE_FOLLOWER: "follower",
    pb.RAFT_ROLE_LOOKING: "looking",
}
CAUSES = {
    pb.FRAGMENT_CAUSE_DECLARED: "declared",
    pb.FRAGMENT_CAUSE_FIXED: "fixed",
    pb.FRAGMENT_CAUSE_TRAFFIC: "traffic",
}
COPY_ROLES = {
    pb.COPY_ROLE_PRIMARY: "primary",
    pb.COPY_ROLE_BACKUP: "backup",
    pb.COPY_ROLE_KEPT: "kept",
}
MEMBER_ROLES = {
    pb.MEMBER_ROLE_VOTER: "voter",
    pb.MEMBER_ROLE_OBSERVER: "observer",
    pb.MEMBER_ROLE_JOINING: "joining",
}
#: What is told of each copy, and added up for its queue.
STORED: Final = (
    "messages_on_disk_alone", "memory_bytes", "on_disk_alone_bytes", "journal_bytes",
    "scratch_bytes", "reading_bytes", "at_hand_bytes",
)  # fmt: skip


def member_form(member: pb.Member) -> Form:
    """A member; `figures` is null when it did not answer."""
    return {
        "node": member.node,
        "host": host_of(member.peer_address),
        "state": MEMBER_STATES.get(member.state, OTHER),
        "role": MEMBER_ROLES.get(member.role, OTHER),
        "incarnation": member.incarnation,
        "zone": member.zone,
        "peer_address": member.peer_address,
        "amqp_address": member.amqp_address,
        "drained": member.HasField("drain"),
        "clients_are_to_leave": member.drain.closes_clients,
        "leads": member.leads,
        "copies": member.copies,
        "copies_that_stay": member.copies_that_stay,
        "only_copies": member.only_copies,
        "single_copies": member.single_copies,
        "figures": figures_form(member.figures) if member.HasField("figures") else None,
    }


def member_state(member: Form) -> str:
    """Up, down, or the more precise word for a member that is up and does not serve."""
    if member["state"] != "up":
        return str(member["state"])
    if member["figures"] is None:
        return "silent"
    return "up" if member["figures"]["lease"] == "held" else "fenced"


def figures_form(figures: pb.NodeFigures) -> Form:
    """A node's own figures."""
    return {
        "version": figures.version,
        "raft_role": ROLES.get(figures.raft_role, OTHER),
        "leader": figures.leader or None,
        "map_version": figures.map_version,
        "lease": "held" if figures.lease_held else "fenced",
        "stopping": figures.stopping,
        "uptime_ms": figures.uptime_ms,
        "connections": figures.connections,
        "channels": figures.channels,
        "consumers": figures.consumers,
        "private_queues": figures.private_queues,
        "memory_bytes": figures.memory_bytes,
        "journal_bytes": figures.journal_bytes,
        "journal_segments": figures.journal_segments,
        "journal_dead_bytes": figures.journal_dead_bytes,
        "failed_logins": figures.failed_logins,
        "scrub": scrub_form(figures.scrub) if figures.HasField("scrub") else None,
        "alarms": alarms_form(figures.alarms) if figures.HasField("alarms") else None,
        "turns": turns_form(figures.turns) if figures.HasField("turns") else None,
        "messages": _client_messages(figures.traffic) if figures.HasField("traffic") else None,
    }


def _client_messages(traffic: pb.ClientTraffic) -> Form:
    """What clients of a node have done since its start; a basic.get is delivered, too."""
    return {
        "published": traffic.received,
        "delivered": traffic.delivered + traffic.got,
        "acknowledged": traffic.acknowledged,
    }


def _fragment_traffic(traffic: pb.FragmentTraffic) -> Form:
    """What came and went since the primary leads the fragment."""
    return {
        "published": traffic.published,
        "delivered": traffic.handed_out,
        "acknowledged": traffic.acknowledged,
    }


def turns_form(turns: pb.Turns) -> Form:
    """How many turns took how long; `null` stands for no bound."""
    return {
        "count": sum(turns.counts),
        "total_us": turns.total_us,
        "longest_us": turns.longest_us,
        "within_us": [
            {"bound": bound, "turns": count}
            for bound, count in zip((*turns.bounds_us, None), turns.counts, strict=False)
        ],
    }


def alarms_form(alarms: pb.Alarms) -> Form:
    """What a node holds beside its bounds, and which of its connections wait for whom."""
    return {
        "memory": alarms.memory,
        "disk": alarms.disk,
        "memory_bytes_max": alarms.memory_bytes_max,
        "resident_bytes": alarms.resident_bytes,
        "disk_free_bytes": alarms.disk_free_bytes if alarms.HasField("disk_free_bytes") else None,
        "disk_free_bytes_min": alarms.disk_free_bytes_min,
        "connections_waiting": alarms.connections,
        "waits": [
            {
                "node": wait.node,
                "vhost": wait.queue.vhost if wait.HasField("queue") else None,
                "queue": wait.queue.name if wait.HasField("queue") else None,
                "connections": wait.connections,
            }
            for wait in alarms.waits
        ],
    }


def scrub_form(scrub: pb.Scrub) -> Form:
    """What reading the journal again has come to."""
    return {
        "passes": scrub.passes,
        "last_pass_unix_ms": scrub.last_pass_unix_ms or None,
        "segment": scrub.segment or None,
        "pass_bytes": scrub.pass_bytes,
        "segments_with_rot": scrub.segments_with_rot,
        "messages_mended": scrub.messages_mended,
        "messages_lost": scrub.messages_lost,
    }


def status_form(status: pb.ClusterStatusReply) -> Form:
    """The cluster at a glance."""
    return {
        "node": status.node,
        "leader": status.leader or None,
        "era": status.era,
        "map_version": status.map_version,
        "members": [member_form(member) for member in status.members],
        "queues": status.queues,
        "fragments": status.fragments,
        "fragments_unavailable": status.fragments_unavailable,
        "fragments_short": status.fragments_short,
        "moves": status.moves,
        "problems": list(status.problems),
        "notes": list(status.notes),
        "cluster_version": status.cluster_version,
        "awaited": [
            {
                "nodes": list(awaited.nodes),
                "fragments": awaited.fragments,
                "queues": [{"vhost": queue.vhost, "name": queue.name} for queue in awaited.queues],
            }
            for awaited in status.awaited
        ],
    }


def queue_form(queue: pb.Queue) -> Form:
    """A shared queue with its fragments."""
    known = queue.HasField("ready")
    return {
        "vhost": queue.vhost,
        "name": queue.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": arguments_of(queue.arguments_json),
        "policy": queue.policy or None,
        "operator_policy": queue.operator_policy or None,
        "effective_policy_definition": arguments_of(queue.effective_policy_json),
        "replicas": queue.replicas,
        "ready": queue.ready if known else None,
        "unacknowledged": queue.unacknowledged if known else None,
        "messages": queue.ready + queue.unacknowledged if known else None,
        "consumers": queue.consumers if queue.HasField("consumers") else None,
        "silent_members": list(queue.silent_members),
        "fragments": [fragment_form(fragment) for fragment in queue.fragments],
    }


def queue_state(queue: Form) -> str:
    """The state of a queue is that of its worst fragment."""
    order = ("unavailable", "unknown", "catching up", "serving")
    states = [fragment["state"] for fragment in queue["fragments"]]
    return min(states, key=order.index, default="serving")


def stored_form(queue: pb.Queue) -> Form:
    """As `queue_form`, with what each member has of it, in memory and on its disk.

    `storage` adds up what all members have; null if one that has a copy did not say.
    """
    form = queue_form(queue)
    for fragment, shown in zip(queue.fragments, form["fragments"], strict=True):
        said = {copy.node: copy_form(copy) for copy in fragment.copies}
        silent = [n for n in (fragment.primary, *fragment.backups) if n not in said]
        shown["why"] = why_form(fragment)
        shown["copies"] = [*said.values(), *[{"node": node, "role": None} for node in silent]]
    copies = [copy for fragment in form["fragments"] for copy in fragment["copies"]]
    is_known = all(copy["role"] is not None for copy in copies)
    sums = {name: sum(copy[name] for copy in copies) for name in STORED} if is_known else None
    return {**form, "storage": sums}


def why_form(fragment: pb.Fragment) -> Form:
    """Why a fragment is as it is; what only its primary knows is null if that did not say it."""
    shapes = [copy.shape for copy in fragment.copies if copy.HasField("shape")]
    shape = next(iter(shapes), None)
    is_idle = shape is not None and shape.HasField("idle_ms")
    return {
        "cause": CAUSES.get(fragment.cause, OTHER),
        "to_be_led_by": fragment.moves_to or None,
        "idle_ms": shape.idle_ms if shape is not None and is_idle else None,
        "retiring": shape.retiring if shape is not None else None,
        "stays": list(shape.stays) if shape is not None else None,
        "waits": list(shape.waits) if shape is not None else None,
    }


def copy_form(copy: pb.Copy) -> Form:
    """What one member has of a fragment."""
    stream = copy.stream
    return {
        "node": copy.node,
        "role": COPY_ROLES.get(copy.role, OTHER),
        "messages": copy.messages,
        **{name: getattr(copy, name) for name in STORED},
        "journal_segments": copy.journal_segments,
        "journal_dead_bytes": copy.journal_dead_bytes,
        "age_ms": copy.age_ms if copy.HasField("age_ms") else None,
        "age_ms_max": copy.age_ms_max if copy.HasField("age_ms_max") else None,
        "whole": copy.whole,
        "last": copy.last,
        "last_reign": copy.last_reign,
        "stream": {
            "first_offset": stream.first_offset if stream.HasField("first_offset") else None,
            "last_offset": stream.last_offset if stream.HasField("last_offset") else None,
            "segments": stream.segments,
            "bytes": stream.bytes,
            "readers": stream.readers,
        }
        if copy.HasField("stream")
        else None,
    }


def fragment_form(fragment: pb.Fragment) -> Form:
    """One fragment of a queue."""
    known = fragment.HasField("ready")
    return {
        "fragment": fragment.fragment,
        "primary": fragment.primary,
        "backups": list(fragment.backups),
        "in_sync": list(fragment.in_sync),
        "epoch": fragment.epoch,
        "reign": fragment.reign,
        "state": FRAGMENT_STATES.get(fragment.state, OTHER),
        "moves_to": fragment.moves_to or None,
        "ready": fragment.ready if known else None,
        "unacknowledged": fragment.unacknowledged if known else None,
        "messages": fragment.ready + fragment.unacknowledged if known else None,
        "bytes": fragment.bytes if known else None,
        "traffic": _fragment_traffic(fragment.traffic) if fragment.HasField("traffic") else None,
        "readers": [reader_form(reader) for reader in fragment.readers],
    }


def reader_form(reader: pb.NamedReader) -> Form:
    """A named reader of a stream."""
    return {
        "name": reader.name,
        "offset": reader.offset,
        "lag": reader.lag,
        "node": reader.node or None,
    }


def connection_form(connection: pb.Connection) -> Form:
    """A client connection."""
    return {
        "node": connection.node,
        "connection": connection.connection,
        "client_address": connection.client_address,
        "user": connection.user,
        "vhost": connection.vhost,
        "client_name": connection.client_name,
        "channels": connection.channels,
        "consumers": connection.consumers,
        "unacknowledged": connection.unacknowledged,
        "blocked": connection.blocked,
    }


def listed_connection_form(connection: pb.Connection) -> Form:
    """A client connection, in RabbitMQ's words."""
    row = connection_row(connection)
    return {
        **row,
        "peer_port": row["peer_port"] or None,
        "user_provided_name": connection.client_name,
        "consumers": connection.consumers,
        "messages_unacknowledged": connection.unacknowledged,
    }


def channel_form(channel: pb.Channel) -> Form:
    """A channel, in RabbitMQ's words."""
    return {
        **channel_row(channel),
        "connection": channel.connection,
        "client_flow_blocked": not channel.flow,
    }


def consumer_form(consumer: pb.Consumer) -> Form:
    """A consumer, in RabbitMQ's words; `active` is null when nobody said whether it is."""
    return {
        **consumer_row(consumer),
        "vhost": consumer.queue.vhost,
        "queue_name": consumer.queue.name,
        "channel": channel_name(consumer.connection, consumer.channel),
        "node": consumer.node,
        "active": consumer.active if consumer.HasField("active") else None,
    }


def subscriber_form(subscriber: pb.Subscriber) -> Form:
    """An exclusive queue and its owner; `stuck`: its socket takes nothing more for now."""
    return {
        "vhost": subscriber.queue.vhost,
        "queue_name": subscriber.queue.name,
        "node": subscriber.node,
        "connection": subscriber.connection,
        "user": subscriber.user,
        "messages_ready": subscriber.messages_ready,
        "bytes_held": subscriber.bytes_held,
        "messages_dropped": subscriber.messages_dropped,
        "consumers": subscriber.consumers,
        "stuck": subscriber.stuck,
    }


def binding_form(binding: pb.Binding) -> Form:
    """A binding, in RabbitMQ's words."""
    return {
        "vhost": binding.vhost,
        "source_name": binding.source_name,
        "source_kind": binding.source_kind,
        "destination_name": binding.destination_name,
        "destination_kind": binding.destination_kind,
        "routing_key": binding.routing_key,
        "arguments": arguments_of(binding.arguments_json),
    }


def vhost_form(vhost: pb.Vhost) -> Form:
    """A virtual host."""
    return {
        "name": vhost.name,
        "queues": vhost.queues,
        "exchanges": vhost.exchanges,
        "users": vhost.users,
    }


def user_form(user: pb.User) -> Form:
    """A user; `password`: whether it has one."""
    return {"name": user.name, "tags": list(user.tags), "password": user.has_password}
