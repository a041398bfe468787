"""Lists of what there is, from the node's map and the answers of the admin service.

Input: a call, and maybe a virtual host. Output: of what there may be tens of thousands, names that
cost little, and a way to gather the rows of some (`Listing`); of everything else rows, up to a
bound, beyond which the request is refused with the advice to ask for less. Each question to the
node's loop is about some things at a time.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

from fedq.admin.access_answers import permissions_message
from fedq.admin.rows import exchange_row, permission_row
from fedq.admin.topology import binding_message, exchange_message
from fedq.core.ids import QueueKey
from fedq.http.api import shapes
from fedq.http.api.call import ASK_S, Call
from fedq.http.api.lists import Listing
from fedq.http.api.rates import client_counters, message_stats
from fedq.http.api.slices import slices, wanted
from fedq.http.api.totals import NAMES, gather
from fedq.http.bounds import HTTP_CLIENTS_AT_ONCE, HTTP_ROWS_AT_ONCE, HTTP_ROWS_MAX
from fedq.http.refusal import HttpRefusal, not_there, unavailable
from fedq.http.serving.exchange import Row
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.records import Binding, Exchange


class _Page(Protocol):
    @property
    def next_page_token(self) -> str: ...


Page = TypeVar("Page", bound=_Page)


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
            raise _too_many()


def _too_many() -> HttpRefusal:
    return unavailable(
        f"there are more than {HTTP_ROWS_MAX} of them; ask for those of one virtual host"
    )


def _in_sight(call: Call, vhost: str | None) -> Callable[[tuple[str, ...]], bool]:
    """Whether a key that begins with its virtual host is wanted, and the user's to see."""
    if vhost is not None:
        return lambda key: key[0] == vhost
    return lambda key: call.may_see(key[0])


async def queues(call: Call, vhost: str | None) -> Listing[QueueKey]:
    """Shared queues; exclusive ones live on their nodes alone, and are not listed."""
    keys = await call.node.look(call.served.overview.queue_names)

    async def rows(part: Sequence[QueueKey]) -> list[Row]:
        found = await gather(call.node, call.served.answers.cluster, part)
        return [shapes.queue(each, call.totals.rates) for each in found]

    return Listing(
        await wanted(keys, _in_sight(call, vhost)), rows, lambda key: key.name, lambda key: key,
        {"name": lambda key: key.name, "vhost": lambda key: key.vhost},
    )  # fmt: skip


Named: TypeAlias = tuple[str, str, Exchange]


async def exchanges(call: Call, vhost: str | None) -> Listing[Named]:
    """Exchanges."""
    known = await call.node.look(call.served.answers.access.overview.exchanges)
    is_wanted = _in_sight(call, vhost)
    things = [(*key, each) for key, each in await wanted(known, lambda item: is_wanted(item[0]))]

    async def rows(part: Sequence[Named]) -> list[Row]:
        return await _exchange_rows(call, part)

    return Listing(
        things, rows, lambda each: each[1], lambda each: each[:2],
        {
            "name": lambda each: each[1], "vhost": lambda each: each[0],
            "type": lambda each: each[2].type,
        },
    )  # fmt: skip


async def _exchange_rows(call: Call, named: Sequence[Named]) -> list[Row]:
    found: list[Row] = []
    access = call.served.answers.access.overview
    async for part in slices(named, HTTP_ROWS_AT_ONCE):
        keys = [QueueKey(vhost, name) for vhost, name, _ in part]
        policies = [*await call.node.look(partial(access.policies_of_exchanges, keys))]
        while len(policies) < len(keys):
            rest = keys[len(policies) :]
            policies += await call.node.look(partial(access.policies_of_exchanges, rest))
        for key, (_, _, exchange), policy in zip(keys, part, policies, strict=True):
            row = exchange_row(exchange_message(key, exchange))
            # As in RabbitMQ, which leaves it out where there is none.
            found.append({**row, "policy": policy} if policy else row)
    return found


async def exchange(call: Call, name: str) -> Row:
    """One exchange of the path's virtual host; raises `HttpRefusal` 404."""
    for named in (await exchanges(call, call.vhost)).things:
        if named[1] == name:
            return (await _exchange_rows(call, [named]))[0]
    raise not_there()


async def bindings(
    call: Call, vhost: str | None, is_wanted: Callable[[Binding], bool] | None = None
) -> Listing[Binding]:
    """Bindings of exchanges, and that of each queue to the default exchange."""
    keys = await call.node.look(call.served.overview.queue_names)
    known = await call.node.look(call.served.answers.access.overview.bindings)
    in_sight = _in_sight(call, vhost)
    found: list[Binding] = []
    async for part in slices(keys):
        found += [Binding(key.vhost, "", "queue", key.name, key.name, "") for key in part]
    found += known
    things = await wanted(
        found, lambda each: in_sight(each) and (is_wanted is None or is_wanted(each))
    )
    return Listing(
        things, _binding_rows, lambda each: "", lambda each: each,
        {
            "vhost": lambda each: each.vhost, "source": lambda each: each.source,
            "destination": lambda each: each.destination,
            "destination_type": lambda each: each.destination_kind,
            "routing_key": lambda each: each.routing_key,
        },
    )  # fmt: skip


async def _binding_rows(part: Sequence[Binding]) -> list[Row]:
    return [shapes.binding(binding_message(each)) for each in part]


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
    access = call.served.answers.access.overview
    names, firehose, members = await call.node.look(
        lambda: (access.vhosts(), frozenset(access.firehose()), call.served.overview.members())
    )
    states = {
        member.node: "running" if member.state.value == "up" else "down" for member in members
    }
    sums = await call.totals.sums.get()
    return [
        {
            "name": name, "tracing": name in firehose, "cluster_state": states, "description": "",
            "tags": [], "metadata": {"description": "", "tags": []},
            **sums.get(name, dict.fromkeys(NAMES, 0)),
        }
        for name in names
        if call.may_see(name)
    ]  # fmt: skip


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
    access = call.served.answers.access.overview
    keys = [
        key
        for key in await call.node.look(access.grants)
        if user in (None, key.user) and vhost in (None, key.vhost)
    ]
    if len(keys) > HTTP_ROWS_MAX:
        raise _too_many()
    found: list[Row] = []
    async for part in slices(keys, HTTP_ROWS_AT_ONCE):
        found += [
            permission_row(permissions_message(key, grant))
            for key, grant in await call.node.look(partial(access.grants_of, part))
        ]
    return found


async def client_figures(call: Call) -> tuple[Row, Row]:
    """How many connections, channels and consumers there are that the user sees; `message_stats`.

    What clients publish is not told apart by virtual host: only who sees all sees it.
    """
    if call.sees_all:
        members = await call.ask(lambda: call.served.answers.cluster.members(ASK_S))
        figures = [each.figures for each in members if each.HasField("figures")]
        return {
            "connections": sum(each.connections for each in figures),
            "channels": sum(each.channels for each in figures),
            "consumers": sum(each.consumers for each in figures),
        }, message_stats(
            call.totals.rates,
            (((each.node, each.incarnation), client_counters(each.traffic)) for each in figures),
        )
    return {
        "connections": len(await connections(call, None)),
        "channels": len(await channels(call, None)),
        "consumers": len(await consumers(call, None)),
    }, {}


async def nodes(call: Call) -> list[Row]:
    """Members of the cluster."""
    members = await call.ask(lambda: call.served.answers.cluster.members(ASK_S))
    return [shapes.node(each) for each in members]
