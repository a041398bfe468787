"""Runtime parameters: put, dropped and listed. Who asks here is an administrator.

Inputs: this node's view of the map, a way to have it changed, requests. Outputs: replies without
passwords, or AdminError. What is wrong with a parameter is said before anything is asked for.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import orjson

from fedq.admin.access_answers import AccessAnswers, name_of
from fedq.admin.paging import page_of, vhost_of
from fedq.admin.parameter_rows import is_global, shown_value, wanted_parameter
from fedq.admin.refusal import invalid
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_parameters import DropParameter, ParameterKey

Change: TypeAlias = Callable[[Operation, float], Awaitable[bool]]

#: No value is longer, whatever spaces it has.
_JSON_BYTES_MAX: Final = 65_536


class ParameterAnswers:
    """Answers about parameters. Belongs to one event loop."""

    __slots__ = ("_change", "_overview")

    def __init__(self, access: AccessAnswers) -> None:
        self._overview = access.overview
        self._change: Change = access.change

    async def put(self, request: pb.PutParameterRequest, timeout_s: float) -> pb.PutParameterReply:
        """Puts a parameter, or replaces one."""
        said = request.parameter
        wanted = wanted_parameter(_key(said), _value(said.value_json))
        if isinstance(wanted, str):
            raise invalid(wanted)
        return pb.PutParameterReply(changed=await self._change(wanted, timeout_s))

    async def drop(
        self, request: pb.DropParameterRequest, timeout_s: float
    ) -> pb.DropParameterReply:
        """Takes a parameter away."""
        await self._change(DropParameter(*_key(request)), timeout_s)
        return pb.DropParameterReply()

    async def list(self, request: pb.ListParametersRequest) -> pb.ListParametersReply:
        """A page of parameters."""
        vhost = vhost_of(request)
        known = {
            (key.vhost, f"{key.component}\0{key.name}"): (key, value)
            for key, value in self._overview.parameters()
            if is_global(key) == request.globals
            and vhost in (None, key.vhost)
            and request.component in ("", key.component)
        }
        page = page_of(sorted(known), request.page_size, request.page_token)
        return pb.ListParametersReply(
            parameters=[_message(*known[each]) for each in page.keys],
            next_page_token=page.next_token,
        )


def _key(said: pb.Parameter | pb.DropParameterRequest) -> ParameterKey:
    key = ParameterKey(said.vhost, said.component, name_of("name", said.name))
    if not is_global(key):
        name_of("vhost", said.vhost)
        name_of("component", said.component)
    return key


def _value(text: str) -> Any:
    if len(text) > _JSON_BYTES_MAX:
        raise invalid(f"value_json is longer than {_JSON_BYTES_MAX} bytes")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise invalid(f'the value is no JSON: {error}; say it as {{"key": "value"}}') from error


def _message(key: ParameterKey, value: str) -> pb.Parameter:
    shown = orjson.dumps(shown_value(key, value), option=orjson.OPT_SORT_KEYS).decode()
    return pb.Parameter(vhost=key.vhost, component=key.component, name=key.name, value_json=shown)
