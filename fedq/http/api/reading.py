"""What RabbitMQ's API shows: overview, nodes, clients, queues, exchanges, bindings, users.

Each function answers one path; lists go through `fedq.http.api.lists`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from fedq import __version__
from fedq.http.api import gathering, shapes
from fedq.http.api.call import ASK_S, Call
from fedq.http.api.lists import list_answer, of_rows, one_answer
from fedq.http.api.totals import sum_of
from fedq.http.refusal import not_there
from fedq.http.serving.exchange import Answer, Row, json_answer
from fedq.node.views.overview_types import MemberState
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.records import Binding

#: Whose API this is: tools look at it for what they may ask.
API_VERSION: Final = "3.10.0"


async def _list(call: Call, rows: list[Row]) -> Answer:
    return await list_answer(of_rows(rows), call.request.query)


def _one(call: Call, rows: Iterable[Row], key: str, wanted: str) -> Answer:
    """The row whose column has this value; raises `HttpRefusal` 404."""
    for row in rows:
        if row[key] == wanted:
            return one_answer(row, call.request.query)
    raise not_there()


# --- the cluster ----------------------------------------------------------------------------------


async def overview(call: Call) -> Answer:
    """The cluster at a glance."""
    counts, traffic = await gathering.client_figures(call)
    counts |= {
        "exchanges": len((await gathering.exchanges(call, None)).things),
        "queues": len((await gathering.queues(call, None)).things),
    }
    sums = await call.totals.sums.get()
    totals = sum_of(row for vhost, row in sums.items() if call.may_see(vhost))
    node, _ = await call.node.look(call.served.overview.process)
    found: Row = {
        "management_version": API_VERSION,
        "rabbitmq_version": API_VERSION,
        "product_name": "fedq",
        "product_version": __version__,
        "rates_mode": "basic",
        "disable_stats": False,
        "enable_queue_totals": False,
        "exchange_types": shapes.exchange_types(),
        "cluster_name": "fedq",
        "node": node,
        "object_totals": counts,
        "queue_totals": totals,
    }
    if traffic:
        found["message_stats"] = traffic
    if call.sees_all:
        found["listeners"] = _listeners(call, node)
    return one_answer(found, call.request.query)


#: What is spoken on a listener, without and with TLS.
_PROTOCOLS: Final = {
    "http": ("http", "https"),
    "metrics": ("http/prometheus", "https/prometheus"),
}


def listeners_of(call: Call) -> list[tuple[str, str, int]]:
    """(protocol, host, port) of what the node listens on for clients and tools."""
    found: list[tuple[str, str, int]] = []
    for key, listener in call.served.config.client_listeners:
        names = _PROTOCOLS.get(key, ("amqp", "amqp/ssl"))
        port = call.served.ports.get(key, listener.port)
        found.append((names[listener.tls is not None], listener.host, port))
    return found


def _listeners(call: Call, node: str) -> list[Row]:
    return [
        {"node": node, "protocol": protocol, "ip_address": host, "port": port}
        for protocol, host, port in listeners_of(call)
    ]


async def whoami(call: Call) -> Answer:
    """Tells whom the login is of."""
    return json_answer({"name": call.user.name, "tags": list(call.user.tags)})


async def cluster_name(call: Call) -> Answer:
    """The name of the cluster, as AMQP clients read it."""
    return json_answer({"name": "fedq"})


async def nodes(call: Call) -> Answer:
    """Members of the cluster."""
    return await _list(call, await gathering.nodes(call))


async def node(call: Call) -> Answer:
    """One member."""
    return _one(call, await gathering.nodes(call), "name", call.name)


async def nothing(call: Call) -> Answer:
    """A list of what fedq does not have: policies, parameters and the like."""
    return await _list(call, [])


async def status(call: Call) -> Answer:
    """The cluster at a glance, with what is wrong: fedq's own."""
    found = await call.totals.status.get()
    return json_answer(
        {
            "node": found.node, "leader": found.leader or None, "problems": list(found.problems),
            "queues": found.queues, "fragments": found.fragments,
            "fragments_unavailable": found.fragments_unavailable,
            "fragments_short": found.fragments_short, "moves": found.moves,
        }
    )  # fmt: skip


# --- clients --------------------------------------------------------------------------------------


async def connections(call: Call) -> Answer:
    """Client connections."""
    return await _list(call, await gathering.connections(call, call.places.get("vhost")))


async def connection(call: Call) -> Answer:
    """One client connection."""
    return _one(call, await gathering.connections(call, None), "name", call.name)


async def connection_channels(call: Call) -> Answer:
    """The channels of one connection."""
    rows = await gathering.channels(call, None)
    own = [row for row in rows if row["connection_details"]["name"] == call.name]
    return await _list(call, own)


async def channels(call: Call) -> Answer:
    """Channels of client connections."""
    return await _list(call, await gathering.channels(call, call.places.get("vhost")))


async def channel(call: Call) -> Answer:
    """One channel, with its consumers."""
    for row in await gathering.channels(call, None):
        if row["name"] == call.name:
            consumers = await gathering.consumers(call, row["vhost"])
            own = [each for each in consumers if each["channel_details"]["name"] == call.name]
            return one_answer(row | {"consumer_details": own}, call.request.query)
    raise not_there()


async def consumers(call: Call) -> Answer:
    """Consumers."""
    return await _list(call, await gathering.consumers(call, call.places.get("vhost")))


# --- queues, exchanges, bindings ------------------------------------------------------------------


async def queues(call: Call) -> Answer:
    """Shared queues."""
    found = await gathering.queues(call, call.places.get("vhost"))
    return await list_answer(found, call.request.query)


async def queue_row(call: Call) -> Row:
    """The queue of the path, with its fragments; raises `HttpRefusal` 404."""
    request = pb.ShowQueueRequest(vhost=call.vhost, name=call.name)
    if not call.name:
        raise not_there()
    found = await call.ask(lambda: call.served.answers.cluster.show_queue(request, ASK_S))
    return shapes.queue(found, call.totals.rates) | {
        "fedq_fragment_details": [shapes.fragment(each) for each in found.fragments]
    }


async def queue(call: Call) -> Answer:
    """One queue, with its consumers."""
    row = await queue_row(call)
    details = await gathering.consumers(call, call.vhost)
    row["consumer_details"] = [each for each in details if each["queue"]["name"] == call.name]
    return one_answer(row, call.request.query)


async def exchanges(call: Call) -> Answer:
    """Exchanges."""
    found = await gathering.exchanges(call, call.places.get("vhost"))
    return await list_answer(found, call.request.query)


def exchange_name(name: str) -> str:
    """The name of an exchange in a path: that of the default one is empty."""
    return "" if name == "amq.default" else name


async def exchange(call: Call) -> Answer:
    """One exchange."""
    found = await gathering.exchange(call, exchange_name(call.name))
    return one_answer(found, call.request.query)


async def bindings(call: Call) -> Answer:
    """Bindings."""
    found = await gathering.bindings(call, call.places.get("vhost"))
    return await list_answer(found, call.request.query)


async def _bindings_that(call: Call, is_wanted: Callable[[Binding], bool]) -> Answer:
    found = await gathering.bindings(call, call.vhost, is_wanted)
    return await list_answer(found, call.request.query)


async def queue_bindings(call: Call) -> Answer:
    """The bindings of one queue."""
    await queue_row(call)
    return await _bindings_that(call, lambda each: _leads_to(each, call.name, "queue"))


async def exchange_bindings_out(call: Call) -> Answer:
    """The bindings that one exchange is the source of."""
    source = exchange_name(call.name)
    await gathering.exchange(call, source)
    return await _bindings_that(call, lambda each: each.source == source)


async def exchange_bindings_in(call: Call) -> Answer:
    """The bindings that lead to one exchange."""
    await gathering.exchange(call, exchange_name(call.name))
    return await _bindings_that(call, lambda each: _leads_to(each, call.name, "exchange"))


def _leads_to(binding: Binding, name: str, kind: str) -> bool:
    return binding.destination == name and binding.destination_kind == kind


async def bindings_between(call: Call) -> list[Row]:
    """The bindings between the two of the path; raises `HttpRefusal` 404 for another kind."""
    kind = {"q": "queue", "e": "exchange"}.get(call.places["kind"])
    if kind is None:
        raise not_there()
    source, destination = exchange_name(call.places["source"]), call.places["destination"]
    found = await gathering.bindings(
        call, call.vhost,
        lambda each: each.source == source and _leads_to(each, destination, kind),
    )  # fmt: skip
    return await found.rows(found.things)


async def bindings_of_two(call: Call) -> Answer:
    """All bindings between two."""
    return await _list(call, await bindings_between(call))


async def binding(call: Call) -> Answer:
    """One binding."""
    return _one(call, await bindings_between(call), "properties_key", call.places["key"])


# --- virtual hosts, users, permissions ------------------------------------------------------------


async def vhosts(call: Call) -> Answer:
    """Virtual hosts."""
    return await _list(call, await gathering.vhosts(call))


async def vhost(call: Call) -> Answer:
    """One virtual host."""
    return _one(call, await gathering.vhosts(call), "name", call.vhost)


async def users(call: Call) -> Answer:
    """Users."""
    return await _list(call, await gathering.users(call))


async def users_without_permissions(call: Call) -> Answer:
    """Users that have no permissions anywhere."""
    busy = {row["user"] for row in await gathering.permissions(call)}
    rows = await gathering.users(call)
    return await _list(call, [row for row in rows if row["name"] not in busy])


async def user(call: Call) -> Answer:
    """One user."""
    return _one(call, await gathering.users(call), "name", call.places["user"])


async def permissions(call: Call) -> Answer:
    """All permissions; of a virtual host, or of a user."""
    places = call.places
    rows = await gathering.permissions(call, places.get("user"), places.get("vhost"))
    return await _list(call, rows)


async def permission(call: Call) -> Answer:
    """What one user may do in one virtual host."""
    rows = await gathering.permissions(call, None, call.vhost)
    return _one(call, rows, "user", call.places["user"])


async def limits(call: Call) -> Answer:
    """The limits of virtual hosts that have some."""
    return await _list(call, await _limits(call, is_user=False))


async def user_limits(call: Call) -> Answer:
    """The limits of users that have some."""
    return await _list(call, await _limits(call, is_user=True))


async def _limits(call: Call, *, is_user: bool) -> list[Row]:
    known = await call.node.look(call.served.answers.access.overview.limits)
    kind = "user" if is_user else "vhost"
    wanted = call.places.get(kind)
    return [
        {kind: each.name, "value": dict(each.limits)}
        for each in known
        if each.is_user is is_user and wanted in (None, each.name)
        if is_user or call.may_see(each.name)
    ]


# --- health ---------------------------------------------------------------------------------------

_OK: Final = {"status": "ok"}


def _failed(reason: str, **more: object) -> Answer:
    return json_answer({"status": "failed", "reason": reason, **more}, 503)


async def health_alarms(call: Call) -> Answer:
    """Whether no member is short of memory or disk."""
    short = [
        {"node": row["name"], "resource": resource}
        for row in await gathering.nodes(call)
        for resource in ("mem", "disk_free")
        if row.get(f"{resource}_alarm")
    ]
    return _failed("alarms in effect in the cluster", alarms=short) if short else json_answer(_OK)


async def health_local_alarms(call: Call) -> Answer:
    """Whether this node is short of neither memory nor disk."""
    alarms = (await call.node.look(call.served.overview.node)).alarms
    if alarms.memory or alarms.disk:
        names = [
            name for name, is_on in (("memory", alarms.memory), ("disk", alarms.disk)) if is_on
        ]
        return _failed("alarms in effect on the node", alarms=names)
    return json_answer(_OK)


async def health_virtual_hosts(call: Call) -> Answer:
    """Whether this node serves: all virtual hosts are there wherever the cluster map is."""
    own = await call.node.look(call.served.overview.node)
    if not own.lease_held:
        return _failed(
            f"{own.node} has no contact with a majority of the nodes: it serves no virtual host"
        )
    return json_answer(_OK)


async def health_port_listener(call: Call) -> Answer:
    """Whether this node listens on a port."""
    if not call.places["port"].isdecimal():
        raise not_there()
    wanted = int(call.places["port"][:10])
    ports = [port for _, _, port in listeners_of(call)]
    if wanted not in ports:
        return _failed("No active listener", missing=wanted, ports=ports)
    return json_answer({"status": "ok", "port": wanted})


async def health_protocol_listener(call: Call) -> Answer:
    """Whether this node listens for a protocol."""
    wanted, known = call.places["protocol"], [name for name, _, _ in listeners_of(call)]
    name = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqps": "amqp/ssl"}.get(wanted, wanted)
    if name not in known:
        return _failed("No active listener", missing=wanted, protocols=known)
    return json_answer({"status": "ok", "protocol": wanted})


async def health_quorum_critical(call: Call) -> Answer:
    """Whether no majority is lost when this node stops: RabbitMQ's question before a stop."""
    members = await call.node.look(call.served.overview.members)
    if len(members) < 2:
        return json_answer(_OK | {"reason": "single node cluster"})
    up = sum(member.state is MemberState.UP for member in members)
    if up - 1 < len(members) // 2 + 1:
        return _failed("without this node there is no majority", queues=[])
    alone = await call.ask(call.served.answers.cluster.cluster)
    own, _ = await call.node.look(call.served.overview.process)
    if own in dict(alone.alone):
        return _failed("this node has the only copy in sync of some queues", queues=[])
    return json_answer(_OK)


async def health_node(call: Call) -> Answer:
    """RabbitMQ's old health check: the node answers, and has no alarm."""
    answer = await health_local_alarms(call)
    return answer if answer.status != 200 else await health_virtual_hosts(call)
