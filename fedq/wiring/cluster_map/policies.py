"""RabbitMQ's policies: what becomes of the map when they come, change and go (docs/adr/0099).

Inputs: the map and a committed operation. Output: its result; changes are appended to the map's.
What is asked for and is so already is confirmed. Policies go with their virtual host. What they
come to for a queue is never kept, but found when it is asked for
(`fedq.wiring.cluster_map.policy_book`).
"""

from typing import Final

from fedq.core import limits
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, RESOURCE_ERROR, Refused
from fedq.core.ids import QueueKey
from fedq.core.policy import DROP_HEAD
from fedq.wiring.cluster_map.operation_fields import arguments_of
from fedq.wiring.cluster_map.operations_policies import (
    OPERATOR_POLICIES,
    POLICIES,
    DropPolicy,
    Policy,
    PolicyChanged,
    PolicyOperation,
    PutPolicy,
    RefusingNoted,
)
from fedq.wiring.cluster_map.patterns import EVERYTHING, Pattern, PatternError, compile_text
from fedq.wiring.cluster_map.policy_definitions import refuse_definition
from fedq.wiring.cluster_map.state import MapState, Ok

#: What a policy without a pattern says, which matches every name; of a permission it matches none.
_ANY: Final = ".*"


def apply(state: MapState, operation: PolicyOperation) -> Ok | Refused:
    """Carries out one operation, or refuses it and changes nothing."""
    if isinstance(operation, PutPolicy):
        return _put(state, operation)
    return _drop(state, operation)


def pattern_of(text: str) -> Pattern:
    """The compiled pattern of a policy. Raises `PatternError`."""
    return compile_text(text or _ANY)


def refuse_policy(wanted: PutPolicy) -> str | None:
    """What is wrong with a policy, whatever else there is, in RabbitMQ's words; None: nothing."""
    try:
        pattern_of(wanted.pattern)
    except PatternError as error:
        return f"pattern should be regular expression but is invalid: {error}"
    return refuse_definition(arguments_of(wanted.definition), wanted.operator)


def tables_of(state: MapState, operator: bool) -> tuple[str, dict[QueueKey, Policy]]:
    """The table of policies, or of operators' ones, and its name."""
    if operator:
        return OPERATOR_POLICIES, state.operator_policies
    return POLICIES, state.policies


def _put(state: MapState, wanted: PutPolicy) -> Ok | Refused:
    if wanted.vhost not in state.vhosts:
        return Refused(NOT_FOUND, f"virtual host '{wanted.vhost}' does not exist")
    wrong = refuse_policy(wanted)
    if wrong is not None:
        return Refused(PRECONDITION_FAILED, wrong)
    table, known = tables_of(state, wanted.operator)
    key = QueueKey(wanted.vhost, wanted.name)
    steps = _steps(pattern_of(wanted.pattern))
    policy = Policy(wanted.pattern, wanted.apply_to, wanted.priority, wanted.definition, steps)
    before = known.get(key)
    if before == policy:
        return Ok()
    if before is None and len(known) >= limits.POLICIES_MAX:
        text = f"the cluster map holds at most {limits.POLICIES_MAX} policies of a kind"
        return Refused(RESOURCE_ERROR, f"{text}: delete some that are unused")
    others = [each.steps for at, each in known.items() if at.vhost == wanted.vhost and at != key]
    if sum(others) + steps > limits.POLICY_STEPS_MAX:
        text = f"the patterns of the policies of vhost '{wanted.vhost}' are too long together"
        return Refused(RESOURCE_ERROR, f"{text}: say them more briefly, or delete some")
    if refusal := state.refuse_if_heavy():
        return refusal
    known[key] = policy
    state.changes.append(PolicyChanged(table, key))
    overflow = arguments_of(wanted.definition).get("overflow", DROP_HEAD)
    if overflow != DROP_HEAD and wanted.vhost not in state.refusing:
        state.refusing[wanted.vhost] = None
        state.changes.append(RefusingNoted("refusing", wanted.vhost))
    return Ok(1)


def _steps(pattern: Pattern) -> int:
    return 1 if pattern is EVERYTHING else pattern.steps


def _drop(state: MapState, operation: DropPolicy) -> Ok | Refused:
    table, known = tables_of(state, operation.operator)
    key = QueueKey(operation.vhost, operation.name)
    if key not in known:
        what = "operator policy" if operation.operator else "policy"
        text = f"there is no {what} '{operation.name}' in vhost '{operation.vhost}'"
        return Refused(NOT_FOUND, text)
    del known[key]
    state.changes.append(PolicyChanged(table, key))
    return Ok(1)


def on_vhost_deleted(state: MapState, vhost: str) -> None:
    """Ends the policies of a virtual host that goes."""
    for operator in (False, True):
        table, known = tables_of(state, operator)
        for key in [key for key in known if key.vhost == vhost]:
            del known[key]
            state.changes.append(PolicyChanged(table, key))
    state.refusing.pop(vhost, None)
