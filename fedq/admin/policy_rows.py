"""Policies as rows in RabbitMQ's words: read, and written.

In: what somebody says a policy is, or one of the map. Out: the operation that puts it, or a
sentence with what is wrong with it; rows.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from fedq.admin.rows import Row
from fedq.core import limits
from fedq.core.ids import QueueKey
from fedq.wiring.cluster_map.operation_fields import arguments_of
from fedq.wiring.cluster_map.operations_policies import ALL, APPLY_TO, Policy, PutPolicy
from fedq.wiring.cluster_map.policies import refuse_policy
from fedq.wiring.cluster_map.policy_definitions import erlang_text

_PRIORITY_MAX: Final = 1 << 60


def definition_json(definition: Mapping[str, Any]) -> str:
    """A definition in its one text; "" for one that says nothing."""
    if not definition:
        return ""
    return orjson.dumps(definition, option=orjson.OPT_SORT_KEYS).decode()


def wanted_of(key: QueueKey, operator: bool, row: Mapping[str, Any]) -> PutPolicy | str:
    """The operation that puts a policy which a row describes, or what is wrong with it.

    `pattern` and `definition` have to be there; so says who asks.
    """
    pattern, definition = row.get("pattern"), row.get("definition")
    apply_to, priority = row.get("apply-to", ALL), row.get("priority", 0)
    if not isinstance(pattern, str):
        return f"pattern should be a binary but was {erlang_text(pattern)}"
    if len(pattern.encode()) > limits.PATTERN_BYTES_MAX:
        return f"pattern is longer than {limits.PATTERN_BYTES_MAX} bytes"
    if not isinstance(definition, dict):
        return f"definition should be a JSON object, actually was {erlang_text(definition)}"
    if isinstance(priority, bool) or not isinstance(priority, int):
        return f"priority should be a number, actually was {erlang_text(priority)}"
    if abs(priority) >= _PRIORITY_MAX:
        return f"priority should be less than {_PRIORITY_MAX} in either direction"
    if apply_to not in APPLY_TO:
        said = apply_to if isinstance(apply_to, str) else erlang_text(apply_to)
        text = f"apply-to '{said[: limits.NAME_BYTES_MAX]}' unrecognised"
        return f"{text}; should be 'queues', 'exchanges' or 'all'"
    try:
        text = definition_json(definition)
    except orjson.JSONEncodeError:
        return "definition is nested too deeply"
    if len(text.encode()) > limits.ARGUMENTS_BYTES_MAX:
        return f"definition takes more than {limits.ARGUMENTS_BYTES_MAX} bytes as JSON"
    wanted = PutPolicy(key.vhost, key.name, operator, pattern, apply_to, priority, text)
    return refuse_policy(wanted) or wanted


def policy_row(key: QueueKey, policy: Policy) -> Row:
    """A policy of the map."""
    return {
        "vhost": key.vhost,
        "name": key.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": arguments_of(policy.definition),
        "priority": policy.priority,
    }
