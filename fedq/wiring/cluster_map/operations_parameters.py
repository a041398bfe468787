"""The replicated operations on RabbitMQ's runtime parameters, their forms, and the key of one.

A part of `fedq.wiring.cluster_map.operations_access`, which carries their forms; what they do is in
`fedq.wiring.cluster_map.parameters`. None is proposed before the cluster speaks
`versions.PARAMETERS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import orjson

from fedq.core import limits
from fedq.wiring.cluster_map.operation_fields import Check, bounded, name, text


class ParameterKey(NamedTuple):
    """The name of a parameter; a global one has "" for virtual host and component."""

    vhost: str
    component: str
    name: str


#: The table of a map: a parameter's value is JSON, in canonical text.
PARAMETERS: Final = "parameters"


@dataclass(frozen=True, slots=True)
class PutParameter:
    """A parameter comes or is replaced; a global one has neither virtual host nor component."""

    vhost: str
    component: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class DropParameter:
    """A parameter goes."""

    vhost: str
    component: str
    name: str


class ParameterChanged(NamedTuple):
    """A parameter came, changed or went: which table, and which one."""

    table: str
    key: ParameterKey


ParameterOperation: TypeAlias = PutParameter | DropParameter


def canonical_value(value: object) -> str:
    """The one text for a value of JSON; raises ValueError if it is none, or too long."""
    said = bounded(limits.ARGUMENTS_BYTES_MAX)(value)
    try:
        return orjson.dumps(orjson.loads(said), option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError as error:  # a TypeError: nested beyond what can be written
        raise ValueError(str(error)) from error


#: Name on the wire -> the operation's class and the check of each field.
PARAMETER_FORMS: Final[dict[str, tuple[Callable[..., ParameterOperation], dict[str, Check]]]] = {
    "put_parameter": (
        PutParameter,
        {"vhost": text, "component": text, "name": name, "value": canonical_value},
    ),
    "drop_parameter": (DropParameter, {"vhost": text, "component": text, "name": name}),
}
