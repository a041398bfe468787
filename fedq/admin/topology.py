"""Pages of exchanges and bindings, as the cluster map of the asked node has them.

Inputs: copies of the map's keys, and requests. Outputs: replies, or AdminError. There may be tens
of thousands, so they are put in order in a thread; the map itself is only read on the event loop.
Bindings of exclusive queues are their nodes' alone: the map has what those nodes want of each
exchange, as bindings to the node.
"""

import asyncio
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TypeVar

from fedq.admin.paging import page_of, vhost_of
from fedq.core.ids import QueueKey
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.state import Binding, Exchange

Thing = TypeVar("Thing")


async def list_exchanges(
    exchanges: Sequence[tuple[QueueKey, Exchange]], request: pb.ListExchangesRequest
) -> pb.ListExchangesReply:
    """A page of exchanges."""
    found, token = await asyncio.to_thread(_page, iter(exchanges), request)
    return pb.ListExchangesReply(
        exchanges=[exchange_message(*each) for each in found], next_page_token=token
    )


async def list_bindings(
    bindings: Sequence[Binding], request: pb.ListBindingsRequest
) -> pb.ListBindingsReply:
    """A page of bindings."""
    found, token = await asyncio.to_thread(_page, map(_keyed, bindings), request)
    return pb.ListBindingsReply(
        bindings=[binding_message(binding) for _, binding in found], next_page_token=token
    )


def _page(
    things: Iterable[tuple[QueueKey, Thing]],
    request: pb.ListExchangesRequest | pb.ListBindingsRequest,
) -> tuple[list[tuple[QueueKey, Thing]], str]:
    """The things of one page, in order of their keys, and the token of the next page."""
    vhost = vhost_of(request)
    known = {key: thing for key, thing in things if vhost in (None, key.vhost)}
    page = page_of(sorted(known), request.page_size, request.page_token)
    return [(key, known[key]) for key in page.keys], page.next_token


def exchange_message(key: QueueKey, exchange: Exchange) -> pb.Exchange:
    """An exchange of the map, as the admin service tells of it."""
    return pb.Exchange(
        vhost=key.vhost,
        name=key.name,
        type=exchange.type,
        durable=exchange.durable,
        auto_delete=exchange.auto_delete,
        internal=exchange.internal,
        arguments_json=exchange.arguments,
    )


def binding_message(binding: Binding) -> pb.Binding:
    """A binding of the map, as the admin service tells of it."""
    return pb.Binding(
        vhost=binding.vhost,
        source_name=binding.source,
        source_kind="exchange",
        destination_name=binding.destination,
        destination_kind=binding.destination_kind,
        routing_key=binding.routing_key,
        arguments_json=binding.arguments,
    )


def _keyed(binding: Binding) -> tuple[QueueKey, Binding]:
    """Each thing by a key that keeps an exchange's things together and fits into a page token."""
    return QueueKey(binding.vhost, f"{binding.source} {_digest(binding)}"), binding


def _digest(binding: Binding) -> str:
    made = blake2b(digest_size=12)
    for part in binding:
        data = part.encode()
        made.update(len(data).to_bytes(4))
        made.update(data)
    return made.hexdigest()
