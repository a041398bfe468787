"""Where a publish goes, as seen from this node.

Inputs: exchanges, queue names and bindings as the map, this node's private queues and the other
nodes' interest bring them; the route of each publish. Output: the destinations, each once.

Destinations are of four kinds (`fedq.wiring.routing.exchanges.Destination`). Another exchange is
followed at once, each at most once for a publish, so cycles end. An exchange whose own bindings
match nothing is followed by its alternate exchange, if that exists; a node that wants "everything"
of an exchange does not count as a match, so the alternate one may get a publish too many. A publish
that passes an exchange that delays is delayed for all its destinations.

The answers are kept by virtual host and route, so most publishes cost one look-up; a change
forgets what it may have made wrong. A topic exchange may get any number of different keys: where
no further exchange is involved, its answers are kept by the set of matched destinations, too, so
that a new key costs a look at the bindings and no more.

Invariants: an answer from the cache is the one that a fresh walk would give; the order of
destinations is that of the walk and of the bindings, never that of a hash.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fedq.core.ids import NodeId, QueueKey
from fedq.core.limits import MIB
from fedq.core.message import split_route
from fedq.wiring.routing.exchange_arguments import ALTERNATE
from fedq.wiring.routing.exchange_kinds import DELAYED
from fedq.wiring.routing.exchange_types import table_of
from fedq.wiring.routing.exchanges import (
    Arguments,
    Destination,
    Found,
    Properties,
    Table,
    ToExchange,
    TopicTable,
    arguments_text,
)
from fedq.wiring.routing.hashing import HashTable
from fedq.wiring.routing.names import node_of
from fedq.wiring.routing.route import Route, sorted_out
from fedq.wiring.routing.topic_routes import TopicRoutes

#: What the kept routes may take; beyond, those of the virtual host that has most are forgotten.
CACHE_BYTES_MAX: Final = 32 * MIB
#: What a kept route takes besides its text, and for each of its destinations.
_ROUTE_BYTES: Final = 250
_DESTINATION_BYTES: Final = 8


class Bound(NamedTuple):
    """A binding that `Router.unbind_all` undid."""

    source: QueueKey
    routing_key: str
    arguments: Arguments


class Router:
    """The exchanges of all virtual hosts; see the module's docstring."""

    __slots__ = (
        "_alternates", "_bound", "_cache_bytes", "_cache_bytes_max", "_delaying", "_everything",
        "_internal", "_kept", "_me", "_named", "_stand_ins", "_tables", "walked",
    )  # fmt: skip

    def __init__(self, me: NodeId, cache_bytes_max: int = CACHE_BYTES_MAX) -> None:
        """`me`: this node; server-named queues of others are routed to their nodes."""
        self._me = me
        self._cache_bytes_max = cache_bytes_max
        self._tables: dict[QueueKey, Table] = {}
        #: Exchange -> its alternate exchange, which need not exist; and back, with how many do.
        self._alternates: dict[QueueKey, QueueKey] = {}
        self._stand_ins: dict[QueueKey, int] = {}
        self._delaying: dict[QueueKey, None] = {}
        self._internal: dict[QueueKey, None] = {}
        #: Where the default exchange leads, by queue name.
        self._named: dict[QueueKey, QueueKey | int | NodeId] = {}
        #: Every binding, by destination, then by (source, routing key, text of the arguments).
        self._bound: dict[Destination, dict[tuple[QueueKey, str, str], Arguments]] = {}
        #: Nodes that want all that an exchange gets.
        self._everything: dict[QueueKey, dict[NodeId, None]] = {}
        #: By virtual host, what is kept of the answers; and what the routes of all of them take.
        self._kept: dict[str, _Kept] = {}
        self._cache_bytes = 0
        #: What answers have cost that nobody has charged yet, in units of work (`core.work`).
        self.walked = 0

    # --- exchanges and names ---

    def add_exchange(
        self, key: QueueKey, kind: str, arguments: Arguments = None, internal: bool = False
    ) -> None:
        """An exchange of type `kind`; the default exchange is always there and never added."""
        assert key.name, "the default exchange has no table"
        if key in self._tables:
            return
        arguments = arguments or {}
        self._tables[key] = table_of(kind, arguments, self._me)
        self._lead_on(key, _alternate_of(key, arguments))
        if kind == DELAYED:
            self._delaying[key] = None
        if internal:
            self._internal[key] = None
        self._forget_all(key.vhost)

    def set_alternate(self, key: QueueKey, arguments: Arguments) -> None:
        """Leads what an exchange finds no destination for on, as these arguments say from now."""
        alternate = _alternate_of(key, arguments or {})
        if key in self._tables and alternate != self._alternates.get(key):
            self._lead_on(key, None)
            self._lead_on(key, alternate)
            self._forget_all(key.vhost)

    def _lead_on(self, key: QueueKey, alternate: QueueKey | None) -> None:
        """Notes the alternate exchange of one that had none, or forgets the one that it had."""
        if alternate is not None:
            self._alternates[key] = alternate
            self._stand_ins[alternate] = self._stand_ins.get(alternate, 0) + 1
            return
        before = self._alternates.pop(key, None)
        if before is not None:
            self._stand_ins[before] -= 1
            if not self._stand_ins[before]:
                del self._stand_ins[before]

    def is_internal(self, vhost: str, exchange: str) -> bool:
        """Whether clients may not publish to this exchange."""
        return (vhost, exchange) in self._internal

    def remove_exchange(self, key: QueueKey) -> None:
        """The exchange goes with all bindings of which it is the source or the destination."""
        table = self._tables.pop(key, None)
        if table is None:
            return
        self._delaying.pop(key, None)
        self._internal.pop(key, None)
        self._lead_on(key, None)
        for destination in dict.fromkeys(table.destinations()):
            bound = self._bound[destination]
            for name in [name for name in bound if name[0] == key]:
                del bound[name]
            if not bound:
                del self._bound[destination]
        self._everything.pop(key, None)
        self.unbind_all(ToExchange(key))
        self._forget_all(key.vhost)

    def add_queue(self, name: QueueKey, destination: QueueKey | int | NodeId) -> None:
        """Adds the queue to which the default exchange leads for this routing key.

        That is a shared queue, a private queue of this node, or the node that holds a queue of a
        claimed name.
        """
        self._named[name] = destination
        self._forget_route(name.vhost, "", name.name)

    def remove_queue(self, name: QueueKey) -> None:
        """Removes a queue's name; its bindings are undone by `unbind_all`."""
        self._named.pop(name, None)
        self._forget_route(name.vhost, "", name.name)

    # --- bindings ---

    def bind(
        self, source: QueueKey, destination: Destination, routing_key: str, arguments: Arguments
    ) -> bool:
        """Adds a binding. False if it is there already, or its exchange is not."""
        table = self._tables.get(source)
        name = (source, routing_key, arguments_text(arguments))
        if table is None or name in self._bound.get(destination, ()):
            return False
        table.add(destination, routing_key, arguments)
        self._bound.setdefault(destination, {})[name] = arguments or None
        self._forget_key(source, table, routing_key)
        return True

    def unbind(
        self, source: QueueKey, destination: Destination, routing_key: str, arguments: Arguments
    ) -> bool:
        """Removes a binding. False if it is not there."""
        bound = self._bound.get(destination)
        name = (source, routing_key, arguments_text(arguments))
        if bound is None or name not in bound:
            return False
        del bound[name]
        if not bound:
            del self._bound[destination]
        table = self._tables[source]
        table.remove(destination, routing_key, arguments)
        self._forget_topics(source.vhost)
        self._forget_key(source, table, routing_key)
        return True

    def unbind_all(self, destination: Destination) -> list[Bound]:
        """Removes the bindings of a queue that goes, or of a node that went; returns them."""
        undone = []
        for (source, key, _), arguments in self._bound.pop(destination, {}).items():
            table = self._tables[source]
            table.remove(destination, key, arguments)
            self._forget_topics(source.vhost)
            self._forget_key(source, table, key)
            undone.append(Bound(source, key, arguments))
        if isinstance(destination, ToExchange):
            self._forget_all(destination.key.vhost)
        return undone

    def set_everything(self, source: QueueKey, node: NodeId, wanted: bool) -> None:
        """Whether the node wants all that this exchange gets, whatever its key."""
        nodes = self._everything.setdefault(source, {})
        table = self._tables.get(source)
        wanted = wanted and table is not None
        if isinstance(table, HashTable):
            table.set_everything(node, wanted)
        if wanted:
            nodes[node] = None
        else:
            nodes.pop(node, None)
        if not nodes:
            del self._everything[source]
        self._forget_all(source.vhost)

    def forget_node(self, node: NodeId) -> None:
        """Forgets a node that went: what it wanted to hear, and the names it held, are void."""
        self.unbind_all(node)
        for source in [source for source, nodes in self._everything.items() if node in nodes]:
            self.set_everything(source, node, False)
        for name in [name for name, holder in self._named.items() if holder == node]:
            self.remove_queue(name)

    # --- publishes ---

    def route(self, vhost: str, route: bytes, properties: Properties) -> Route | None:
        """The destinations of a publish; None if its exchange does not exist.

        `route` is as in `fedq.core.message`; `properties` is called at most once, and only if an
        exchange that looks at them is reached.
        """
        kept = self._kept.get(vhost)
        if kept is None:
            kept = self._kept[vhost] = _Kept()
        known = kept.routes.get(route)
        if known is not None:
            return known
        topics = kept.topics.get(route[: 1 + route[0]])
        if topics is not None:
            known = topics.route(route[2 + route[0] :])
            walked = topics.table.walked
            self.walked += walked - topics.walked
            topics.walked = walked
            if known is not None:
                return self._keep(vhost, route, known)
        exchange, key = split_route(route)
        if not exchange:
            found = self._by_name(QueueKey(vhost, key))
            return self._keep(vhost, route, sorted_out(found, False, True))
        source = QueueKey(vhost, exchange)
        table = self._tables.get(source)
        if table is None:
            return None
        if topics is None and isinstance(table, TopicTable):
            kept.topics[route[: 1 + route[0]]] = TopicRoutes(
                table,
                tuple(self._everything.get(source, ())),
                source in self._delaying,
                source in self._alternates,
            )
        found, delayed, by_key_alone = self._walk(source, (key,), properties)
        answer = sorted_out(found, delayed, by_key_alone)
        return self._keep(vhost, route, answer) if by_key_alone else answer

    def private_of(self, source: QueueKey) -> list[int]:
        """The private queues of this node that are bound to an exchange."""
        table = self._tables.get(source)
        if table is None:
            return []
        return [each for each in dict.fromkeys(table.destinations()) if isinstance(each, int)]

    def route_keys(
        self, vhost: str, exchange: str, keys: Sequence[str], properties: Properties
    ) -> Route | None:
        """The destinations of one publish with several routing keys (RabbitMQ's CC and BCC).

        An exchange finds what any of the keys finds, each destination once; it passes on to its
        alternate exchange only if none finds anything; one that hashes keys hashes them together.
        """
        source = QueueKey(vhost, exchange)
        if exchange:
            if source not in self._tables:
                return None
            found, delayed, _ = self._walk(source, keys, properties)
            return sorted_out(found, delayed)
        found = {}
        self.walked += len(keys)
        for key in keys:
            found.update(self._by_name(QueueKey(vhost, key)))
        return sorted_out(found)

    def route_private(self, vhost: str, route: bytes, properties: Properties) -> tuple[int, ...]:
        """The private queues of this node for a publish that another node has relayed.

        That node has decided by the same rules which queue or node an exchange that hashes
        chooses. If the two disagree, for one has heard of a binding that the other has not, a
        publish to such an exchange goes to the private queue that its keys choose here.
        """
        answer = self.route(vhost, route, properties)
        if answer is None:
            return ()
        if not answer.private:
            exchange, key = split_route(route)
            table = self._tables.get(QueueKey(vhost, exchange))
            if isinstance(table, HashTable):
                chosen = table.match_private((key,), properties)
                return () if chosen is None else (chosen,)
        return answer.private

    def _by_name(self, name: QueueKey) -> Found:
        destination = self._named.get(name)
        if destination is None:
            node = node_of(name.name)
            if node is None or node == self._me:
                return {}
            destination = node
        return {destination: 1}

    def _walk(
        self, source: QueueKey, keys: Sequence[str], properties: Properties
    ) -> tuple[Found, bool, bool]:
        """The destinations bound to an exchange, and two facts about the way to them.

        First, whether an exchange that delays was passed; second, whether all of that depends on
        the routing keys alone.
        """
        found: Found = {}
        visited = {source: None}
        left = [source]
        by_keys_alone, delayed = True, False
        properties = _once(properties)
        while left:
            exchange = left.pop()
            table = self._tables.get(exchange)
            if table is None:
                continue
            by_keys_alone = by_keys_alone and table.by_key_alone
            delayed = delayed or exchange in self._delaying
            matched: Found = {}
            self.walked += 1 + table.match(keys, properties, matched)
            following = [each.key for each in matched if isinstance(each, ToExchange)]
            if not matched and exchange in self._alternates:
                following = [self._alternates[exchange]]
            for key in following:
                if key not in visited:
                    visited[key] = None
                    left.append(key)
            found.update(matched)
            if not isinstance(table, HashTable):
                for node in self._everything.get(exchange, ()):
                    found[node] = 1
        return found, delayed, by_keys_alone

    # --- the cache ---

    def _keep(self, vhost: str, route: bytes, answer: Route) -> Route:
        destinations = len(answer.queues) + len(answer.private) + len(answer.nodes)
        size = _ROUTE_BYTES + len(route) + _DESTINATION_BYTES * destinations
        while self._cache_bytes and self._cache_bytes + size > self._cache_bytes_max:
            # Who has kept the most pays for it, not all others.
            self._forget_routes(max(self._kept, key=self._size_of))
        kept = self._kept[vhost]
        kept.routes[route] = answer
        kept.size += size
        self._cache_bytes += size
        return answer

    def _size_of(self, vhost: str) -> int:
        return self._kept[vhost].size

    def _forget_all(self, vhost: str) -> None:
        """Forgets all routes: an exchange changed, or what is beyond its bindings."""
        self._cache_bytes -= self._kept[vhost].size if vhost in self._kept else 0
        self._kept.pop(vhost, None)

    def _forget_topics(self, vhost: str) -> None:
        if vhost in self._kept:
            self._kept[vhost].topics = {}

    def _forget_routes(self, vhost: str) -> None:
        kept = self._kept.get(vhost)
        if kept is not None:
            self._cache_bytes -= kept.size
            kept.routes, kept.size = {}, 0

    def _forget_key(self, source: QueueKey, table: Table, routing_key: str) -> None:
        """Forgets routes as a binding changed: only one can be wrong now, or any."""
        passed_on = ToExchange(source) in self._bound or source in self._stand_ins
        if table.by_exact_key and not passed_on:
            self._forget_route(source.vhost, source.name, routing_key)
        else:
            self._forget_routes(source.vhost)

    def _forget_route(self, vhost: str, exchange: str, routing_key: str) -> None:
        kept = self._kept.get(vhost)
        if kept is None or not kept.routes:
            return
        name = exchange.encode("utf-8", "surrogateescape")
        key = routing_key.encode("utf-8", "surrogateescape")
        named = b"%c%b%c%b" % (len(name), name, len(key), key)
        gone = kept.routes.pop(named, None)
        if gone is not None:
            destinations = len(gone.queues) + len(gone.private) + len(gone.nodes)
            size = _ROUTE_BYTES + len(named) + _DESTINATION_BYTES * destinations
            self._cache_bytes -= size
            kept.size -= size


class _Kept:
    """The answers that are kept in one virtual host."""

    __slots__ = ("routes", "size", "topics")

    def __init__(self) -> None:
        #: By route, and what all of these take.
        self.routes: dict[bytes, Route] = {}
        self.size = 0
        #: Topic exchanges by the part of a route that names them, as met.
        self.topics: dict[bytes, TopicRoutes] = {}


def _once(properties: Properties) -> Properties:
    """`properties`, called when first needed and never again."""
    decoded: list[Mapping[str, Any]] = []

    def first() -> Mapping[str, Any]:
        if not decoded:
            decoded.append(properties())
        return decoded[0]

    return first


def _alternate_of(key: QueueKey, arguments: Mapping[str, Any]) -> QueueKey | None:
    """The alternate exchange that arguments name; the default one leads nowhere, as in RabbitMQ."""
    alternate = arguments.get(ALTERNATE)
    return QueueKey(key.vhost, alternate) if isinstance(alternate, str) and alternate else None
