"""Runtime parameters as rows in RabbitMQ's words: read, and written without passwords.

In: what somebody says a parameter is, or one of the map. Out: the operation that puts it, or a
sentence with what is wrong with it; rows.
"""

from typing import Any, Final

import orjson

from fedq.admin.rows import Row
from fedq.amqp.uris import is_near
from fedq.core import limits
from fedq.wiring.cluster_map.operations_parameters import ParameterKey, PutParameter
from fedq.wiring.cluster_map.parameters import refuse_parameter, value_of
from fedq.wiring.cluster_map.shovel_definitions import SHOVEL, masked, uris_of

#: Who logs in from this machine alone, if nobody changed that.
_GUEST: Final = "guest"


def is_global(key: ParameterKey) -> bool:
    """Whether a parameter is of no virtual host."""
    return not key.vhost and not key.component


def wanted_parameter(key: ParameterKey, value: Any) -> PutParameter | str:
    """The operation that puts a parameter, or what is wrong with it."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError:
        return "value is nested too deeply"
    if len(text.encode()) > limits.ARGUMENTS_BYTES_MAX:
        return f"value takes more than {limits.ARGUMENTS_BYTES_MAX} bytes as JSON"
    wanted = PutParameter(key.vhost, key.component, key.name, text)
    return refuse_parameter(wanted) or wanted


def refuse_to_policymaker(wanted: PutParameter) -> str | None:
    """Why only an administrator may put this parameter; None: a policymaker may, too.

    A shovel speaks from the node's host. What it can reach there and others cannot is not for who
    makes policies in one virtual host: loopback, the link (where clouds answer machines about
    themselves), and the user `guest`, who is let in from loopback alone.
    """
    if wanted.component != SHOVEL:
        return None
    for uri in uris_of(value_of(wanted.value)):
        if uri.host and is_near(uri.host):
            return f"only administrators may name hosts such as {uri.host} in URIs"
        if not uri.host and uri.user == _GUEST:
            return f"only administrators may name the user {_GUEST} in local URIs"
    return None


def shown_value(key: ParameterKey, text: str) -> Any:
    """A parameter's value as anybody may see it who sees parameters: without passwords."""
    value = value_of(text)
    return masked(value) if key.component == SHOVEL else value


def parameter_row(key: ParameterKey, value: Any) -> Row:
    """A parameter; a global one has neither virtual host nor component."""
    if is_global(key):
        return {"name": key.name, "value": value}
    return {"value": value, "vhost": key.vhost, "component": key.component, "name": key.name}
