"""Whole lists, page by page, from the answers of the admin service.

Input: a call, and maybe a virtual host. Output: rows, up to a bound; beyond it the request is
refused with the advice to ask for less. Each page is one question to the node's loop.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol, TypeVar

from fedq.http.api import shapes
from fedq.http.api.call import ASK_S, Call
from fedq.http.bounds import (
    HTTP_CLIENTS_AT_ONCE,
    HTTP_QUEUES_AT_ONCE,
    HTTP_ROWS_AT_ONCE,
    HTTP_ROWS_MAX,
)
from fedq.http.refusal import unavailable
from fedq.http.serving.exchange import Row
from fedq.node.views.overview_types import MemberState
from fedq.shell.pb import admin_pb2 as pb


class _Page(Protocol):
    @property
    def next_page_token(self) -> str: ...


Page = TypeVar("Page", bound=_Page)
_STATES: Final = {MemberState.UP: "running"}


async def _pages(
    call: Call, page: Callable[[str], Awaitable[Page]], rows_of: Callable[[Page], list[Row]]
) -> list[Row]:
    """The rows of all pages."""
    found: list[Row] = []
    token = ""
    while True:
        reply = await call.ask(partial(page, token))
        found += rows_of(reply)
        token = reply.next_page_token
        if not token:
            return found
        if len(found) > HTTP_ROWS_MAX:
            raise unavailable(
                f"there are more than {HTTP_ROWS_MAX} of them; ask for those of one virtual host"
            )


async def queues(call: Call, vhost: str | None) -> list[Row]:
    """Shared queues; exclusive ones live on their nodes alone, and are not listed."""
    answers = call.served.answers.cluster

    def page(token: str) -> Awaitable[pb.ListQueuesReply]:
        request = pb.ListQueuesRequest(vhost=vhost, page_size=HTTP_QUEUES_AT_ONCE, page_token=token)
        return answers.list_queues(request, ASK_S)

    return await _pages(call, page, lambda reply: [shapes.queue(each) for each in reply.queues])


async def exchanges(call: Call, vhost: str | None) -> list[Row]:
    """Exchanges."""
    answers = call.served.answers.access

    def page(token: str) -> Awaitable[pb.ListExchangesReply]:
        return answers.list_exchanges(
            pb.ListExchangesRequest(vhost=vhost, page_size=HTTP_ROWS_AT_ONCE, page_token=token)
        )

    return await _pages(
        call, page, lambda reply: [shapes.exchange(each) for each in reply.exchanges]
    )


async def bindings(call: Call, vhost: str | None) -> list[Row]:
    """Bindings of exchanges, and that of each queue to the default exchange."""
    answers, overview = call.served.answers.access, call.served.overview
    keys = await call.node.look(overview.queue_keys)
    found = [
        shapes.default_binding(key.vhost, key.name) for key in keys if vhost in (None, key.vhost)
    ]

    def page(token: str) -> Awaitable[pb.ListBindingsReply]:
        return answers.list_bindings(
            pb.ListBindingsRequest(vhost=vhost, page_size=HTTP_ROWS_AT_ONCE, page_token=token)
        )

    return found + await _pages(
        call, page, lambda reply: [shapes.binding(each) for each in reply.bindings]
    )


def _browse(vhost: str | None, token: str) -> pb.BrowseRequest:
    return pb.BrowseRequest(vhost=vhost, page_size=HTTP_CLIENTS_AT_ONCE, page_token=token)


async def connections(call: Call, vhost: str | None) -> list[Row]:
    """Client connections; those of others only for who sees all."""
    answers = call.served.answers.clients

    def page(token: str) -> Awaitable[pb.BrowseConnectionsReply]:
        return answers.connections(_browse(vhost, token), ASK_S)

    rows = await _pages(
        call, page, lambda reply: [shapes.connection(each) for each in reply.connections]
    )
    return _own(call, rows)


async def channels(call: Call, vhost: str | None) -> list[Row]:
    """Channels of clients; those of others only for who sees all."""
    answers = call.served.answers.clients

    def page(token: str) -> Awaitable[pb.BrowseChannelsReply]:
        return answers.channels(_browse(vhost, token), ASK_S)

    rows = await _pages(call, page, lambda reply: [shapes.channel(each) for each in reply.channels])
    return _own(call, rows)


async def consumers(call: Call, vhost: str | None) -> list[Row]:
    """Consumers of queues in virtual hosts that the user sees."""
    answers = call.served.answers.clients

    def page(token: str) -> Awaitable[pb.BrowseConsumersReply]:
        return answers.consumers(_browse(vhost, token), ASK_S)

    rows = await _pages(
        call, page, lambda reply: [shapes.consumer(each) for each in reply.consumers]
    )
    return [row for row in rows if call.may_see(row["queue"]["vhost"])]


def _own(call: Call, rows: list[Row]) -> list[Row]:
    if call.sees_all:
        return rows
    return [row for row in rows if row["user"] == call.user.name]


async def vhosts(call: Call) -> list[Row]:
    """Virtual hosts that the user sees, with the messages in each."""
    answers = call.served.answers.access

    def page(token: str) -> Awaitable[pb.ListVhostsReply]:
        return answers.list_vhosts(pb.ListVhostsRequest(page_size=100, page_token=token))

    rows = await _pages(call, page, lambda reply: [{"name": each.name} for each in reply.vhosts])
    members = await call.node.look(call.served.overview.members)
    states = {
        member.node: "running" if member.state.value == "up" else "down" for member in members
    }
    firehose = await call.node.look(answers.overview.firehose)
    shown = {row["name"]: row for row in rows if call.may_see(row["name"])}
    for name, row in shown.items():
        row |= {
            "tracing": name in firehose, "cluster_state": states, "description": "", "tags": [],
            "metadata": {"description": "", "tags": []}, "messages": 0, "messages_ready": 0,
            "messages_unacknowledged": 0,
        }  # fmt: skip
    for queue in await queues(call, None):
        row = shown.get(queue["vhost"], {})
        for name in ("messages", "messages_ready", "messages_unacknowledged"):
            # With a part missing there is no sum.
            if name not in queue:
                row.pop(name, None)
            elif name in row:
                row[name] += queue[name]
    return list(shown.values())


async def users(call: Call) -> list[Row]:
    """Users with their tags and limits."""
    answers = call.served.answers.access

    def page(token: str) -> Awaitable[pb.ListUsersReply]:
        return answers.list_users(
            pb.ListUsersRequest(page_size=HTTP_ROWS_AT_ONCE, page_token=token)
        )

    rows = await _pages(
        call, page,
        lambda reply: [shapes.user(each.name, list(each.tags), {}) for each in reply.users],
    )  # fmt: skip
    known = await call.node.look(answers.overview.limits)
    limits = {each.name: dict(each.limits) for each in known if each.is_user}
    for row in rows:
        row["limits"] = limits.get(row["name"], {})
    return rows


async def permissions(call: Call, user: str | None = None, vhost: str | None = None) -> list[Row]:
    """Permissions of a user, or in a virtual host, or all."""
    answers = call.served.answers.access

    def page(token: str) -> Awaitable[pb.ListPermissionsReply]:
        return answers.list_permissions(
            pb.ListPermissionsRequest(
                user=user, vhost=vhost, page_size=HTTP_ROWS_AT_ONCE, page_token=token
            )
        )

    return await _pages(
        call, page, lambda reply: [shapes.permission(each) for each in reply.permissions]
    )


async def client_counts(call: Call) -> Row:
    """How many connections, channels and consumers there are that the user sees."""
    if call.sees_all:
        members = await call.ask(lambda: call.served.answers.cluster.members(ASK_S))
        figures = [each.figures for each in members if each.HasField("figures")]
        return {
            "connections": sum(each.connections for each in figures),
            "channels": sum(each.channels for each in figures),
            "consumers": sum(each.consumers for each in figures),
        }
    return {
        "connections": len(await connections(call, None)),
        "channels": len(await channels(call, None)),
        "consumers": len(await consumers(call, None)),
    }


async def nodes(call: Call) -> list[Row]:
    """Members of the cluster."""
    members = await call.ask(lambda: call.served.answers.cluster.members(ASK_S))
    return [shapes.node(each) for each in members]
