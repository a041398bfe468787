"""What happened between two looks at a cluster, by the second. Pure: two looks in, rows out.

Figures of a member that was started anew, or of which one look knows nothing, are null and never
guessed; so are messages of a queue if one of its fragments is led anew, which counts from 0 then.
Rows come in the order of what is worth looking at.
"""

from typing import Any, Final

from fedq.cli.asking.forms import Form, member_state, queue_state
from fedq.cli.top.looking import Key, Look

#: What is counted of messages, of what clients of a member do and of what queues do.
COUNTED: Final = ("published", "delivered", "acknowledged")


def members(before: Look, after: Look) -> list[Form]:
    """The members, in the order of the map, with what they do."""
    old = {member["node"]: member for member in before.status["members"]}
    seconds = after.at_s - before.at_s
    return [_member(old.get(each["node"]), each, seconds) for each in after.status["members"]]


def _member(old: Form | None, new: Form, seconds: float) -> Form:
    figures = new["figures"]
    is_same = old is not None and old["incarnation"] == new["incarnation"]
    earlier = old["figures"] if old is not None and is_same else None
    turns, turns_before = _part(figures, "turns"), _part(earlier, "turns")
    alarms = _part(figures, "alarms")
    busy_us = _change(turns_before, turns, "total_us")
    return {
        "node": new["node"],
        "state": member_state(new),
        "role": figures and figures["raft_role"],
        "leads": new["leads"],
        "copies": new["copies"],
        "connections": figures and figures["connections"],
        "consumers": figures and figures["consumers"],
        "memory_bytes": figures and figures["memory_bytes"],
        "memory_bytes_max": alarms and alarms["memory_bytes_max"],
        "connections_waiting": alarms and alarms["connections_waiting"],
        "journal_bytes": figures and figures["journal_bytes"],
        "journal_bytes_per_second": _rate(_change(earlier, figures, "journal_bytes"), seconds),
        **_message_rates(_part(earlier, "messages"), _part(figures, "messages"), seconds),
        "turns_per_second": _rate(_change(turns_before, turns, "count"), seconds),
        "busy_percent": None if (busy := _rate(busy_us, seconds)) is None else round(busy / 1e4, 1),
    }


def _part(figures: Form | None, name: str) -> Form | None:
    return None if figures is None else figures[name]


def _change(before: Form | None, after: Form | None, name: str) -> int | None:
    if before is None or after is None or before[name] is None or after[name] is None:
        return None
    return int(after[name] - before[name])


def _rate(change: int | None, seconds: float) -> float | None:
    return None if change is None or seconds <= 0 else round(change / seconds, 1)


def queues(before: Look, after: Look) -> list[Form]:
    """The queues, those with the most traffic first, then those that grow or shrink most."""
    seconds = after.at_s - before.at_s
    rows = [_queue(key, before, after, seconds) for key in after.queues]
    return sorted(rows, key=_queue_order)


def _queue(key: Key, before: Look, after: Look, seconds: float) -> Form:
    new, old = after.queues[key], before.queues.get(key)
    counted_before = None if old is None else _message_counts(old, new)
    counted = None if old is None else _message_counts(new, old)
    return {
        "vhost": new["vhost"],
        "name": new["name"],
        "state": queue_state(new),
        "ready": new["ready"],
        "unacknowledged": new["unacknowledged"],
        "messages": new["messages"],
        "consumers": new["consumers"],
        "messages_change_per_second": _rate(_change(old, new, "messages"), seconds),
        **_message_rates(counted_before, counted, seconds),
    }


def _message_rates(before: Form | None, after: Form | None, seconds: float) -> Form:
    """Messages a second; null where less was counted than before, as that began anew."""
    found = {name: _change(before, after, name) for name in COUNTED}
    return {
        f"{name}_per_second": None if change is None or change < 0 else _rate(change, seconds)
        for name, change in found.items()
    }


def _message_counts(queue: Form, alike: Form) -> Form | None:
    """What is counted of a queue's fragments; null if that is not known, or not of these reigns."""
    fragments, others = queue["fragments"], alike["fragments"]
    if [_reign(each) for each in fragments] != [_reign(each) for each in others]:
        return None
    if any(each["traffic"] is None for each in fragments):
        return None
    return {name: sum(each["traffic"][name] for each in fragments) for name in COUNTED}


def _reign(fragment: Form) -> tuple[Any, Any]:
    return fragment["fragment"], fragment["reign"]


def _queue_order(row: Form) -> tuple[Any, ...]:
    return (
        -sum(row[f"{name}_per_second"] or 0 for name in COUNTED),
        -abs(row["messages_change_per_second"] or 0),
        -(row["messages"] or 0),
        row["vhost"],
        row["name"],
    )


def connections(before: Look, after: Look) -> list[Form]:
    """The connections, those that wait to publish first, then by what they hold."""
    seconds = after.at_s - before.at_s
    rows = [
        {
            "name": name,
            "user": new["user"],
            "vhost": new["vhost"],
            "peer_host": new["peer_host"],
            "user_provided_name": new["user_provided_name"],
            "state": new["state"],
            "channels": new["channels"],
            "consumers": new["consumers"],
            "messages_unacknowledged": new["messages_unacknowledged"],
            "unacknowledged_change_per_second": _rate(
                _change(before.connections.get(name), new, "messages_unacknowledged"), seconds
            ),
        }
        for name, new in after.connections.items()
    ]
    return sorted(rows, key=_connection_order)


def _connection_order(row: Form) -> tuple[Any, ...]:
    return (
        row["state"] == "running",
        -abs(row["unacknowledged_change_per_second"] or 0),
        -row["messages_unacknowledged"],
        -row["consumers"],
        row["name"],
    )


def shown(before: Look, after: Look, rows: int) -> Form:
    """All of it as one JSON value, at most so many queues and connections."""
    return {
        "node": after.status["node"],
        "leader": after.status["leader"],
        "seconds": round(after.at_s - before.at_s, 3),
        "problems": after.status["problems"],
        "members": members(before, after),
        "queues_total": after.status["queues"],
        "queues_looked_at": len(after.queues),
        "queues": queues(before, after)[:rows],
        "connections_looked_at": len(after.connections),
        "connections": connections(before, after)[:rows],
        "more_queues": after.more_queues,
        "more_connections": after.more_connections,
        "silent_members": list(after.silent),
    }
