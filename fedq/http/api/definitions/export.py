"""Definitions as RabbitMQ exports them: all that is shared, without messages.

Input: a call. Output: an answer in parts: there may be tens of thousands of queues. Passwords go
out as fedq keeps them (scrypt), for another cluster of fedq, and those of a RabbitMQ as that keeps
them; only an administrator is told.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final

import orjson

from fedq import __version__
from fedq.admin.rows import arguments_of, exchange_row
from fedq.admin.topology import binding_message, exchange_message
from fedq.core.ids import QueueKey
from fedq.http.api import gathering, parameters, policies, shapes, topics
from fedq.http.api.call import Call
from fedq.http.api.definitions.plan import OPERATOR_POLICY, OWN_HASHES
from fedq.http.api.reading import API_VERSION
from fedq.http.api.slices import slices, wanted
from fedq.http.bounds import HTTP_ROWS_AT_ONCE
from fedq.http.serving.exchange import Answer, Row
from fedq.node.views.overview_types import QueueOverview
from fedq.wiring.cluster_map.rabbit_hashes import rabbit_hash_of
from fedq.wiring.cluster_map.records import Binding

_LABELS: Final = {
    "rabbit_version": API_VERSION, "rabbitmq_version": API_VERSION, "product_name": "fedq",
    "product_version": __version__,
}  # fmt: skip


async def export_all(call: Call) -> Answer:
    """All definitions of the cluster."""
    access = call.served.answers.access.overview
    limits = await call.node.look(access.limits)
    of_components, of_nobody = await parameters.exported(call, None)
    of_vhosts = [
        {"vhost": each.name, "component": "vhost-limits", "name": "limits",
         "value": dict(each.limits)}
        for each in limits
        if not each.is_user
    ]  # fmt: skip
    head = {
        **_LABELS,
        "users": await _users(call),
        "vhosts": [{"name": name} for name in await call.node.look(access.vhosts)],
        "permissions": await gathering.permissions(call),
        "topic_permissions": await topics.rows(call),
        "parameters": [*of_vhosts, *await _operator_policies(call, None), *of_components],
        "global_parameters": [{"name": "cluster_name", "value": "fedq"}, *of_nobody],
        "policies": await policies.rows(call, None, False),
    }
    return Answer(parts=_written(call, None, head))


async def export_vhost(call: Call) -> Answer:
    """The definitions of one virtual host, which may be imported into another one."""
    of_components, _ = await parameters.exported(call, call.vhost)
    head = {
        **_LABELS,
        "parameters": [*await _operator_policies(call, call.vhost), *of_components],
        "policies": await policies.rows(call, call.vhost, False),
    }
    return Answer(parts=_written(call, call.vhost, head))


async def _operator_policies(call: Call, vhost: str | None) -> list[Row]:
    """Policies of operators, which RabbitMQ's files have among the parameters."""
    return [
        {
            "vhost": row.pop("vhost"), "component": OPERATOR_POLICY, "name": row.pop("name"),
            "value": row,
        }
        for row in await policies.rows(call, vhost, True)
    ]  # fmt: skip


async def _users(call: Call) -> list[Row]:
    access = call.served.answers.access.overview
    rows = await gathering.users(call)

    def records(names: Sequence[str]) -> list[str]:
        return [access.password_record(name) or "" for name in names]

    found: list[Row] = []
    async for part in slices(rows, HTTP_ROWS_AT_ONCE):
        kept = await call.node.look(partial(records, [row["name"] for row in part]))
        found += [{**row, **_hash(record)} for row, record in zip(part, kept, strict=True)]
    return found


def _hash(record: str) -> Row:
    """What RabbitMQ's files say of a password."""
    rabbit = rabbit_hash_of(record)
    if rabbit is None:
        return {"password_hash": record, "hashing_algorithm": OWN_HASHES}
    return {"password_hash": rabbit.base64, "hashing_algorithm": rabbit.algorithm}


async def _written(call: Call, vhost: str | None, head: Row) -> AsyncIterator[bytes]:
    """The export, a few things at a time."""
    yield orjson.dumps(head)[:-1]

    def without(rows: list[Row]) -> list[Row]:
        if vhost is not None:
            for row in rows:
                del row["vhost"]
        return rows

    in_sight = _of(vhost)
    yield b',"queues":['
    comma = b""
    keys = await wanted(await call.node.look(call.served.overview.queue_names), in_sight)
    async for part in slices(keys, HTTP_ROWS_AT_ONCE):
        rows = [_queue(each) for each in await call.node.look(partial(_queues, call, part))]
        if rows:
            yield comma + orjson.dumps(without(rows))[1:-1]
            comma = b","
    yield b'],"exchanges":['
    comma = b""
    found = await call.node.look(call.served.answers.access.overview.exchanges)
    named = await wanted(found, lambda each: in_sight(each[0]))
    async for exchanges in slices(named, HTTP_ROWS_AT_ONCE):
        rows = [
            exchange_row(exchange_message(key, each))
            for key, each in exchanges
            if key.name and not key.name.startswith("amq.")
        ]
        if rows:
            yield comma + orjson.dumps(without(rows))[1:-1]
            comma = b","
    yield b'],"bindings":['
    comma = b""
    all_bindings = await call.node.look(call.served.answers.access.overview.bindings)
    async for bindings in slices(all_bindings, HTTP_ROWS_AT_ONCE):
        rows = [
            _binding(each)
            for each in bindings
            # Those to a node are of exclusive queues.
            if in_sight(each) and each.destination_kind in ("queue", "exchange")
        ]
        if rows:
            yield comma + orjson.dumps(without(rows))[1:-1]
            comma = b","
    yield b"]}"


def _of(vhost: str | None) -> Callable[[tuple[Any, ...]], bool]:
    return lambda key: vhost is None or key[0] == vhost


def _queues(call: Call, keys: Sequence[QueueKey]) -> list[QueueOverview]:
    found = [call.served.overview.queue(key) for key in keys]
    return [each for each in found if each is not None]


def _queue(each: QueueOverview) -> Row:
    return {
        "name": each.key.name, "vhost": each.key.vhost, "durable": each.durable,
        "auto_delete": each.auto_delete, "arguments": arguments_of(each.arguments),
    }  # fmt: skip


def _binding(each: Binding) -> Row:
    row = shapes.binding(binding_message(each))
    del row["properties_key"]
    return row
