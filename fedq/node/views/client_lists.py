"""Connections, channels, consumers and subscribers of a node's clients, a page at a time.

Inputs: the node's state, and where a page begins. Outputs: copies, and where the next page begins.
In order of connection, channel and consumer tag (or queue), so what comes and goes between two
pages neither repeats nor hides others.

Invariant: beside the connections' numbers a page looks at `LISTED_PER_PAGE_MAX` things at most. So
it may be shorter than what was asked for, or empty, without being the last one.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Generic

from fedq.core.ids import QueueKey
from fedq.core.limits import LISTED_PER_PAGE_MAX
from fedq.node.records.client_state import Channel, Client, Consumer
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.state import NodeState
from fedq.node.views.overview_types import (
    ChannelOverview,
    ClientPage,
    ClientPlace,
    ConnectionOverview,
    ConsumerOverview,
    Item,
    SubscriberOverview,
)


class _Page(Generic[Item]):
    """What a page has found so far, how much it may look at yet, and where the next one begins."""

    __slots__ = ("_looks", "_most", "_place", "found")

    def __init__(self, most: int) -> None:
        self.found: list[Item] = []
        self._most = most
        self._looks = LISTED_PER_PAGE_MAX
        self._place: ClientPlace | None = None

    def may_look(self, place: ClientPlace) -> bool:
        """Whether there is room for one thing more; if not, the next page begins at this place."""
        if len(self.found) == self._most or self._looks == 0:
            self._place = place
            return False
        self._looks -= 1
        return True

    def look_through(self, count: int) -> None:
        """Counts things that were looked at and get no place of their own."""
        self._looks = max(0, self._looks - count)

    def clients(self, state: NodeState, begin: ClientPlace) -> Iterator[Client]:
        """The clients in order of their numbers, in which they came."""
        numbers = list(state.clients)
        for at in range(bisect_left(numbers, begin.connection), len(numbers)):
            client = state.clients[numbers[at]]
            if not self.may_look(ClientPlace(client.connection)):
                return
            yield client

    def channels(
        self, state: NodeState, vhost: str | None, begin: ClientPlace
    ) -> Iterator[Channel]:
        """Channels of all clients, of one virtual host or of all."""
        for client in self.clients(state, begin):
            for channel in _channels_from(client, vhost, begin):
                if not self.may_look(ClientPlace(client.connection, channel.number)):
                    return
                yield channel

    def ended(self) -> ClientPage[Item]:
        """The page as it is."""
        return ClientPage(self.found, self._place)


def connection_page(
    state: NodeState, vhost: str | None, begin: ClientPlace, most: int
) -> ClientPage[ConnectionOverview]:
    """A page of connections; not of those that are only waited for to hang up."""
    page: _Page[ConnectionOverview] = _Page(most)
    for client in page.clients(state, begin):
        if not client.gone and vhost in (None, client.vhost):
            page.look_through(len(client.channels))
            page.found.append(connection_overview(client))
    return page.ended()


def channel_page(
    state: NodeState, vhost: str | None, begin: ClientPlace, most: int
) -> ClientPage[ChannelOverview]:
    """A page of channels."""
    page: _Page[ChannelOverview] = _Page(most)
    for channel in page.channels(state, vhost, begin):
        page.found.append(_channel_overview(channel))
    return page.ended()


def consumer_page(
    state: NodeState, vhost: str | None, begin: ClientPlace, most: int
) -> ClientPage[ConsumerOverview]:
    """A page of consumers."""
    page: _Page[ConsumerOverview] = _Page(most)
    for channel in page.channels(state, vhost, begin):
        connection = channel.client.connection
        is_first = connection == begin.connection and channel.number == begin.channel
        last = begin.tag if is_first else ""
        for tag in sorted(channel.consumers):
            if tag <= last:
                continue
            if not page.may_look(ClientPlace(connection, channel.number, last)):
                return page.ended()
            last = tag
            page.found.append(_consumer_overview(state, channel.consumers[tag]))
    return page.ended()


def subscriber_page(
    state: NodeState, vhost: str | None, begin: ClientPlace, most: int, slow: bool
) -> ClientPage[SubscriberOverview]:
    """A page of exclusive queues; `slow`: of those alone for which something waits, or was lost."""
    page: _Page[SubscriberOverview] = _Page(most)
    for client in page.clients(state, begin):
        if vhost not in (None, client.vhost):
            continue
        last = begin.tag if client.connection == begin.connection else ""
        for name in sorted(key.name for key in client.private):
            if name <= last:
                continue
            if not page.may_look(ClientPlace(client.connection, 0, last)):
                return page.ended()
            last = name
            found = _subscriber_overview(state.private[QueueKey(client.vhost, name)])
            if found.is_slow or not slow:
                page.found.append(found)
    return page.ended()


def _subscriber_overview(private: PrivateQueue) -> SubscriberOverview:
    owner, fragment = private.owner, private.fragment
    return SubscriberOverview(
        queue=private.key,
        connection=owner.connection,
        user=owner.user,
        ready=fragment.ready_count,
        bytes_held=fragment.bytes_held,
        dropped=private.dropped,
        consumers=private.hub.size,
        is_stuck=not owner.writable,
    )


def _channels_from(client: Client, vhost: str | None, begin: ClientPlace) -> list[Channel]:
    if vhost is not None and client.vhost != vhost:
        return []
    first = begin.channel if client.connection == begin.connection else 0
    return [client.channels[number] for number in sorted(client.channels) if number >= first]


def connection_overview(client: Client) -> ConnectionOverview:
    """One client connection, as it is shown."""
    properties = client.machine.client_properties
    name = properties.get("connection_name") or properties.get("product") or ""
    channels = client.channels.values()
    return ConnectionOverview(
        connection=client.connection,
        client_address=client.address,
        user=client.user,
        vhost=client.vhost,
        client_name=name if isinstance(name, str) else "",
        channels=len(client.channels),
        consumers=client.consumers,
        unacknowledged=sum(len(channel.unacked) for channel in channels),
        blocked=bool(client.read_blocks),
    )


def _channel_overview(channel: Channel) -> ChannelOverview:
    client, confirms, transaction = channel.client, channel.confirms, channel.transaction
    return ChannelOverview(
        connection=client.connection,
        number=channel.number,
        user=client.user,
        vhost=client.vhost,
        consumers=len(channel.consumers),
        unacknowledged=len(channel.unacked),
        uncommitted=len(transaction.publishes) if transaction is not None else 0,
        acks_uncommitted=transaction.settled if transaction is not None else 0,
        unconfirmed=confirms.last_tag - confirms.confirmed if confirms is not None else 0,
        prefetch=channel.prefetch,
        prefetch_global=channel.prefetch_global,
        confirms=confirms is not None,
        transacts=transaction is not None,
        flow=channel.flow,
    )


def _consumer_overview(state: NodeState, consumer: Consumer) -> ConsumerOverview:
    channel, hub = consumer.channel, consumer.hub
    active: bool | None = hub is not None
    if hub is not None and hub.single:
        active = consumer.ticket == hub.ticket
        if active and consumer.queue not in state.private:
            active = None
    return ConsumerOverview(
        queue=consumer.queue,
        connection=channel.client.connection,
        channel=channel.number,
        tag=consumer.tag,
        no_ack=consumer.no_ack,
        prefetch=consumer.limit,
        priority=consumer.priority,
        active=active,
    )
