"""Pages of exchanges and bindings, as the cluster map of the asked node has them.

Inputs: copies of the map's keys, and requests. Outputs: replies, or AdminError. There may be tens
of thousands, so they are put in order in a thread; the map itself is only read on the event loop.
Bindings of exclusive queues are their nodes' alone: the map has what those nodes want of each
exchange, as bindings to the node.
"""

import asyncio
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from fedq.admin.paging import Page, page_of
from fedq.core.ids import QueueKey
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.state import Binding, Exchange


async def list_exchanges(
    exchanges: Sequence[tuple[QueueKey, Exchange]], request: pb.ListExchangesRequest
) -> pb.ListExchangesReply:
    """A page of exchanges."""
    vhost = request.vhost if request.HasField("vhost") else None
    known = {key: each for key, each in exchanges if vhost in (None, key.vhost)}
    page = await asyncio.to_thread(_ordered, known, request.page_size, request.page_token)
    reply = pb.ListExchangesReply(next_page_token=page.next_token)
    for key in page.keys:
        each = known[key]
        reply.exchanges.add(
            vhost=key.vhost,
            name=key.name,
            type=each.type,
            durable=each.durable,
            auto_delete=each.auto_delete,
            internal=each.internal,
            arguments_json=each.arguments,
        )
    return reply


async def list_bindings(
    bindings: Sequence[Binding], request: pb.ListBindingsRequest
) -> pb.ListBindingsReply:
    """A page of bindings."""
    vhost = request.vhost if request.HasField("vhost") else None
    known = await asyncio.to_thread(_by_key, bindings, vhost)
    page = await asyncio.to_thread(_ordered, known, request.page_size, request.page_token)
    reply = pb.ListBindingsReply(next_page_token=page.next_token)
    for key in page.keys:
        each = known[key]
        reply.bindings.add(
            vhost=each.vhost,
            source_name=each.source,
            source_kind="exchange",
            destination_name=each.destination,
            destination_kind=each.destination_kind,
            routing_key=each.routing_key,
            arguments_json=each.arguments,
        )
    return reply


def _by_key(bindings: Sequence[Binding], vhost: str | None) -> dict[QueueKey, Binding]:
    """By a key that puts those of one exchange together, and is short enough for a page token."""
    return {
        QueueKey(each.vhost, f"{each.source} {_digest(each)}"): each
        for each in bindings
        if vhost in (None, each.vhost)
    }


def _digest(binding: Binding) -> str:
    made = blake2b(digest_size=12)
    for part in binding:
        data = part.encode()
        made.update(len(data).to_bytes(4))
        made.update(data)
    return made.hexdigest()


def _ordered(known: Iterable[QueueKey], size: int, token: str) -> Page[QueueKey]:
    return page_of(sorted(known), size, token)
