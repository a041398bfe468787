"""RabbitMQ's runtime parameters: what becomes of the map when they come, change and go.

Inputs: the map and a committed operation. Output: its result; changes are appended to the map's.
What is asked for and is so already is confirmed. A parameter is of a component, which says what
its value may be (docs/adr/0113); those of a virtual host go with it. Global ones are of nobody, and
may be anything.
"""

from typing import Any, Final

import orjson

from fedq.core import limits
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, RESOURCE_ERROR, Refused
from fedq.wiring.cluster_map.operations_parameters import (
    PARAMETERS,
    DropParameter,
    ParameterChanged,
    ParameterKey,
    ParameterOperation,
    PutParameter,
)
from fedq.wiring.cluster_map.shovel_definitions import SHOVEL, refuse_form, refuse_shovel
from fedq.wiring.cluster_map.state import MapState, Ok

#: What RabbitMQ has as parameters, and where it is set here.
_ELSEWHERE: Final = {
    "policy": "policies may not be set using this method",
    "operator_policy": "operators' policies may not be set using this method",
    "vhost-limits": "limits of virtual hosts may not be set using this method",
}
#: Names of a cluster, which RabbitMQ keeps as global parameters.
IDENTITIES: Final = ("cluster_name", "internal_cluster_id")


def apply(state: MapState, operation: ParameterOperation) -> Ok | Refused:
    """Carries out one operation, or refuses it and changes nothing."""
    if isinstance(operation, PutParameter):
        return _put(state, operation)
    return _drop(state, operation)


def value_of(text: str) -> Any:
    """The value that a canonical text stands for."""
    return orjson.loads(text)


def refuse_parameter(wanted: PutParameter) -> str | None:
    """What is wrong with a parameter by itself, in RabbitMQ's words; None: nothing."""
    if wanted.component == SHOVEL:
        return refuse_shovel(value_of(wanted.value))
    return _refuse_alike(wanted)


def _refuse_alike(wanted: PutParameter) -> str | None:
    """As `refuse_parameter`, as far as every node says the same."""
    if not wanted.vhost and not wanted.component:
        if wanted.name in IDENTITIES:
            return f"{wanted.name} is the cluster's own, and cannot be set"
        return None
    if wanted.component == SHOVEL:
        return refuse_form(value_of(wanted.value))
    return _ELSEWHERE.get(wanted.component, f"component {wanted.component} not found")


def _put(state: MapState, wanted: PutParameter) -> Ok | Refused:
    is_global = not wanted.vhost and not wanted.component
    if not is_global and wanted.vhost not in state.vhosts:
        return Refused(NOT_FOUND, f"virtual host '{wanted.vhost}' does not exist")
    wrong = _refuse_alike(wanted)
    if wrong is not None:
        return Refused(PRECONDITION_FAILED, wrong)
    key = ParameterKey(wanted.vhost, wanted.component, wanted.name)
    known = state.parameters
    before = known.get(key)
    if before == wanted.value:
        return Ok()
    if before is None and len(known) >= limits.PARAMETERS_MAX:
        text = f"the cluster map holds at most {limits.PARAMETERS_MAX} parameters"
        return Refused(RESOURCE_ERROR, f"{text}: delete some that are unused")
    if before is None and wanted.component == SHOVEL:
        shovels = len([each for each in known if each.component == SHOVEL])
        if shovels >= limits.SHOVELS_MAX:
            text = f"a cluster has at most {limits.SHOVELS_MAX} shovels"
            return Refused(RESOURCE_ERROR, f"{text}: delete some that are done")
    if refusal := state.refuse_if_heavy():
        return refusal
    known[key] = wanted.value
    state.changes.append(ParameterChanged(PARAMETERS, key))
    return Ok(1)


def _drop(state: MapState, operation: DropParameter) -> Ok | Refused:
    key = ParameterKey(operation.vhost, operation.component, operation.name)
    if key not in state.parameters:
        where = f"of {key.component} '{key.name}' in vhost '{key.vhost}'"
        is_global = not key.vhost and not key.component
        what = f"global parameter '{key.name}'" if is_global else f"parameter {where}"
        return Refused(NOT_FOUND, f"there is no {what}")
    del state.parameters[key]
    state.changes.append(ParameterChanged(PARAMETERS, key))
    return Ok(1)


def on_vhost_deleted(state: MapState, vhost: str) -> None:
    """Ends the parameters of a virtual host that goes."""
    for key in [key for key in state.parameters if key.vhost == vhost]:
        del state.parameters[key]
        state.changes.append(ParameterChanged(PARAMETERS, key))
