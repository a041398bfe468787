"""What `fedq migrate` would do: which queues are moved, and which definitions are imported first.

Input: definitions in RabbitMQ's form. Output: a plan, with a sentence for whatever is left where it
is, and why. It asks nobody.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from fedq.core.ids import QueueKey

#: What is imported; users and what they may is another subject, and shovels would run twice.
_IMPORTED: Final = ("vhosts", "policies", "exchanges", "queues", "bindings")
_PARAMETERS: Final = ("vhost-limits", "operator_policy")
_PREFIX: Final = "migrate."
#: Of a queue's name in that of its shovel.
_NAME_LETTERS: Final = 60


class MigrationPlan(NamedTuple):
    """What is to be moved, in order, and what is not."""

    queues: tuple[QueueKey, ...]
    left: tuple[str, ...]
    #: What is imported, in RabbitMQ's form.
    definitions: dict[str, Any]


def plan_of(said: Any, vhost: str | None) -> MigrationPlan:
    """The plan for a file of definitions; `vhost`: of that virtual host alone.

    Raises ValueError for what are no definitions of all virtual hosts.
    """
    if not isinstance(said, dict) or not isinstance(said.get("queues"), list):
        raise ValueError("these are no definitions as RabbitMQ exports them")
    kept = {name: _rows(said, name, vhost) for name in _IMPORTED}
    kept["parameters"] = [
        row for row in _rows(said, "parameters", vhost) if row.get("component") in _PARAMETERS
    ]
    expiring = _expiring(kept)
    queues: list[QueueKey] = []
    left: list[str] = []
    for row in kept["queues"]:
        if not isinstance(row.get("vhost"), str):
            raise ValueError("a queue has no vhost: export the definitions of all virtual hosts")
        key = QueueKey(row["vhost"], str(row.get("name")))
        why = _why_not(row, [each for where, each in expiring if where == key.vhost])
        if why:
            left.append(f"queue {key.name!r} in vhost {key.vhost!r} is not moved: {why}")
        else:
            queues.append(key)
    return MigrationPlan(tuple(sorted(queues)), tuple(left), kept)


def shovel_name(number: int, key: QueueKey) -> str:
    """The name of the shovel that moves a queue, which is so many in its plan."""
    return f"{_PREFIX}{number}.{key.name[:_NAME_LETTERS]}"


def shovel_value(key: QueueKey, source: str, destination: str, after: str) -> dict[str, Any]:
    """The shovel that moves a queue from one URI to another, and ends after so many messages."""
    return {
        "src-uri": source, "src-queue": key.name, "dest-uri": destination, "dest-queue": key.name,
        "src-delete-after": after, "reconnect-delay": 2,
    }  # fmt: skip


def moved_by(name: str, vhost: str, value: Any) -> QueueKey | None:
    """The queue that a shovel moves which this command has made; None: somebody else made it."""
    number = name.removeprefix(_PREFIX).partition(".")[0]
    if not isinstance(value, dict) or not number.isdecimal():
        return None
    key = QueueKey(vhost, str(value.get("src-queue")))
    like = shovel_value(key, "", "", "")
    is_made = value.keys() == like.keys() and value["dest-queue"] == key.name
    return key if is_made and name == shovel_name(int(number), key) else None


def _rows(said: dict[str, Any], name: str, vhost: str | None) -> list[dict[str, Any]]:
    rows = said.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{name} is no list of tables")
    whose = "name" if name == "vhosts" else "vhost"
    return [row for row in rows if vhost in (None, row.get(whose))]


def _expiring(kept: dict[str, list[dict[str, Any]]]) -> list[tuple[Any, str]]:
    """Virtual hosts and patterns of the policies by which unused queues are deleted."""
    rows: list[tuple[Any, Any]] = [(row.get("vhost"), row) for row in kept["policies"]]
    rows += [(row.get("vhost"), row.get("value")) for row in kept["parameters"]]
    return [
        (vhost, str(row.get("pattern", "")))
        for vhost, row in rows
        if isinstance(row, dict)
        and isinstance(definition := row.get("definition"), dict)
        and "expires" in definition
    ]


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        # Of Erlang's, and none here: rather too many are left where they are.
        return True


def _why_not(row: dict[str, Any], expiring: Sequence[str]) -> str:
    """Why a queue is not moved; `expiring`: patterns of policies that have queues expire."""
    arguments = row.get("arguments")
    kind = arguments.get("x-queue-type") if isinstance(arguments, dict) else None
    if kind == "stream":
        return "it is a stream, which is read and not emptied"
    has_expiry = isinstance(arguments, dict) and "x-expires" in arguments
    if has_expiry or any(_matches(each, str(row.get("name"))) for each in expiring):
        return "it is deleted with its messages when nobody uses it, which is so here at first"
    if row.get("auto_delete"):
        return "it is deleted when its last consumer leaves, and a shovel is one"
    return ""
