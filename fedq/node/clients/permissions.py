"""What a user may do with which exchange and queue, as RabbitMQ's permissions have it.

Inputs: a channel's methods, the cluster map's grants. Output: nothing, or `ChannelViolation` 403.

    configure   declare and delete an exchange or a queue
    write       publish to an exchange; be the destination of a binding; be where a queue
                dead-letters to, or an exchange sends what it cannot route
    read        consume, get, purge a queue; be the source of a binding; have dead letters

A topic exchange may ask for more: `fedq.node.clients.topics` has the keys that a user may publish
with (write) and bind by (read). Passive declarations, and channels as such, ask for none. What is
wrong for everybody (a reserved name, an unknown type, the default exchange) is left to those who
say so, as in RabbitMQ. A declared name "" stands for the name that the node will make up. Patterns
are compiled once, and their verdicts on names are kept, until the map's users, virtual hosts or
grants change.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from fedq.amqp import method_types as m
from fedq.amqp.content import DIRECT_REPLY_TO
from fedq.amqp.methods import ids_of
from fedq.core.errors import ACCESS_REFUSED, ChannelViolation
from fedq.core.ids import MapVersion, QueueKey
from fedq.node.clients.topics import READ, WRITE, Topics
from fedq.node.records.client_state import Channel, Client
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.patterns import EVERYTHING, Pattern, compile_text
from fedq.wiring.cluster_map.state import Grant, GrantKey
from fedq.wiring.cluster_map.topic_permissions import refusal_text
from fedq.wiring.routing.exchange_kinds import EXCHANGE_TYPES
from fedq.wiring.routing.names import server_name

#: How the default exchange, whose name is empty, is called in patterns.
DEFAULT_EXCHANGE: Final = "amq.default"
#: Users and virtual hosts whose patterns are kept, and names whose verdicts are kept of each.
GRANTS_KEPT_MAX: Final = 4_096
VERDICTS_KEPT_MAX: Final = 1_024

_NOTHING: Final = Grant("", "", "")
_Binding: TypeAlias = m.QueueBind | m.QueueUnbind | m.ExchangeBind | m.ExchangeUnbind


class _Right:
    """A pattern of a grant (there are three), with its verdicts so far."""

    __slots__ = ("_pattern", "_verdicts")

    def __init__(self, text: str) -> None:
        self._pattern: Pattern = compile_text(text)
        self._verdicts: dict[str, bool] = {}

    def covers(self, name: str) -> bool:
        """Whether the name matches."""
        if self._pattern is EVERYTHING:
            return True
        verdict = self._verdicts.get(name)
        if verdict is None:
            if len(self._verdicts) >= VERDICTS_KEPT_MAX:
                self._verdicts = {}
            verdict = self._verdicts[name] = self._pattern.matches(name)
        return verdict


class _Nothing(_Right):
    """The right to nothing; an empty pattern would at least match an empty name."""

    __slots__ = ()

    def covers(self, name: str) -> bool:
        return False


class _Rights:
    """What one user may do in one virtual host."""

    __slots__ = ("configure", "read", "write")

    def __init__(self, grant: Grant | None) -> None:
        make, texts = (_Right, grant) if grant is not None else (_Nothing, _NOTHING)
        self.configure, self.write, self.read = (make(text) for text in texts)


class Permissions:
    """The permissions of all users in all virtual hosts, with what was found out so far."""

    __slots__ = ("_checks", "_rights", "_version", "state", "topics")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self.topics = Topics(state)
        self._version = MapVersion(0)
        self._rights: dict[GrantKey, _Rights] = {}
        self._checks: dict[type, Callable[[Channel, Any], None]] = {
            m.ExchangeDeclare: self._exchange_declare,
            m.ExchangeDelete: self._exchange_delete,
            m.ExchangeBind: self._exchange_bind,
            m.ExchangeUnbind: self._exchange_bind,
            m.QueueDeclare: self._queue_declare,
            m.QueueDelete: self._queue_delete,
            m.QueueBind: self._queue_bind,
            m.QueueUnbind: self._queue_bind,
            m.QueuePurge: self._queue_read,
            m.BasicConsume: self._queue_read,
            m.BasicGet: self._queue_read,
        }

    def check(self, channel: Channel, method: m.Method) -> None:
        """Raises `ChannelViolation` 403 if the channel's user may not do this."""
        check = self._checks.get(type(method))
        if check is not None:
            check(channel, method)

    def may_publish(self, client: Client, exchange: str) -> bool:
        """Whether the client's user may publish to the exchange ("": the default one)."""
        return self._rights_of(client).write.covers(exchange or DEFAULT_EXCHANGE)

    def may_publish_topic(self, client: Client, exchange: str, key: str) -> bool | None:
        """Whether the client's user may publish with that key; None: with any, to that exchange."""
        return self.topics.may_use(client.user, client.vhost, exchange, WRITE, key)

    def may_read(self, user: str, vhost: str, queue: str) -> bool:
        """Whether the user may read the queue, as a consumer of it would."""
        return self._look_up(GrantKey(user, vhost)).read.covers(queue)

    # --- the methods -------------------------------------------------------------------------

    def _exchange_declare(self, channel: Channel, method: m.ExchangeDeclare) -> None:
        if method.passive or method.type not in EXCHANGE_TYPES:
            return
        self._need_exchange(channel, "configure", method.exchange, method)
        alternate = method.arguments.get("alternate-exchange")
        key = QueueKey(channel.client.vhost, method.exchange)
        if isinstance(alternate, str) and key not in self.state.map.exchanges:
            self._need_exchange(channel, "read", method.exchange, method)
            self._need(channel.client, "write", "exchange", alternate, ids_of(method))

    def _exchange_delete(self, channel: Channel, method: m.ExchangeDelete) -> None:
        self._need_exchange(channel, "configure", method.exchange, method)

    def _exchange_bind(self, channel: Channel, method: m.ExchangeBind | m.ExchangeUnbind) -> None:
        self._need_exchange(channel, "write", method.destination, method)
        self._need_exchange(channel, "read", method.source, method)
        self._need_topic(channel, method.source, method.routing_key, method)

    def _queue_declare(self, channel: Channel, method: m.QueueDeclare) -> None:
        if method.passive:
            return
        key = QueueKey(channel.client.vhost, method.queue)
        is_new = key not in self.state.map.queues and key not in self.state.private
        if is_new and method.queue.startswith("amq."):
            return
        name = method.queue or server_name(self.state.me, self.state.private_made + 1, 0)
        self._need_queue(channel, "configure", name, method)
        letters = method.arguments.get("x-dead-letter-exchange")
        if isinstance(letters, str) and is_new:
            self._need_queue(channel, "read", name, method)
            self._need(channel.client, "write", "exchange", letters, ids_of(method))

    def _queue_delete(self, channel: Channel, method: m.QueueDelete) -> None:
        self._need_queue(channel, "configure", method.queue, method)

    def _queue_bind(self, channel: Channel, method: m.QueueBind | m.QueueUnbind) -> None:
        self._need_queue(channel, "write", method.queue, method)
        self._need_exchange(channel, "read", method.exchange, method)
        key = method.routing_key
        if not method.queue and not key:
            # Without queue and key the binding gets the queue's name for a key (1.7.2.3.3).
            key = channel.last_queue
        self._need_topic(channel, method.exchange, key, method)

    def _queue_read(
        self, channel: Channel, method: m.QueuePurge | m.BasicConsume | m.BasicGet
    ) -> None:
        if isinstance(method, m.BasicConsume) and method.queue == DIRECT_REPLY_TO:
            return  # Whoever may ask may hear the answer.
        self._need_queue(channel, "read", method.queue, method)

    # --- names and rights --------------------------------------------------------------------

    def _need_queue(self, channel: Channel, right: str, name: str, method: m.Method) -> None:
        self._need(channel.client, right, "queue", name or channel.last_queue, ids_of(method))

    def _need_exchange(self, channel: Channel, right: str, name: str, method: m.Method) -> None:
        # Whatever one wants of the default exchange itself is refused to everybody, later.
        if name:
            self._need(channel.client, right, "exchange", name, ids_of(method))

    def _need_topic(self, channel: Channel, exchange: str, key: str, method: _Binding) -> None:
        client = channel.client
        if self.topics.may_use(client.user, client.vhost, exchange, READ, key) is False:
            text = refusal_text(exchange, key, client.vhost, client.user)
            raise ChannelViolation(ACCESS_REFUSED, text, *ids_of(method))

    def _need(
        self, client: Client, right: str, kind: str, name: str, method: tuple[int, int]
    ) -> None:
        asked = name or DEFAULT_EXCHANGE if kind == "exchange" else name
        wanted: _Right = getattr(self._rights_of(client), right)
        if not wanted.covers(asked):
            raise _refusal(client, kind, name, method)

    def _rights_of(self, client: Client) -> _Rights:
        return self._look_up(GrantKey(client.user, client.vhost))

    def _look_up(self, key: GrantKey) -> _Rights:
        cluster = self.state.map
        if self._version != cluster.access_version:
            self._version = cluster.access_version
            self._rights = {}
        rights = self._rights.get(key)
        if rights is None:
            if len(self._rights) >= GRANTS_KEPT_MAX:
                self._rights = {}
            rights = self._rights[key] = _Rights(cluster.grants.get(key))
        return rights


def _refusal(client: Client, kind: str, name: str, method: tuple[int, int]) -> ChannelViolation:
    shown = name or (DEFAULT_EXCHANGE if kind == "exchange" else "")
    return ChannelViolation(
        ACCESS_REFUSED,
        f"access to {kind} '{shown}' in vhost '{client.vhost}' refused for user '{client.user}'",
        *method,
    )
