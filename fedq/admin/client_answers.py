"""Connections, channels and consumers of the whole cluster: listed, and connections ended.

Inputs: requests, this node's overview, the other members. Outputs: replies, or AdminError. A list
goes over the members in the order of their names; each page is of one of them. Its token says which
one is next, and where it goes on there. A member that is silent is named, and passed over.
"""

import binascii
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from fedq.admin import messages
from fedq.admin.bounds import CLOSE_REASON_BYTES_MAX
from fedq.admin.calls import heard
from fedq.admin.changes import telling
from fedq.admin.local_answers import local_fragments
from fedq.admin.members import MemberStub, OtherMembers
from fedq.admin.paging import bad_token, decode_token, encode_token, page_size, vhost_of
from fedq.admin.refusal import invalid, not_found, unavailable
from fedq.core.ids import ConnectionId, Incarnation, NodeId, QueueKey
from fedq.node.views.overview_types import (
    ChannelOverview,
    ClientPage,
    ClientPlace,
    ConnectionOverview,
    ConsumerOverview,
    MemberOverview,
    MemberState,
    Overview,
    SubscriberOverview,
)
from fedq.shell.pb import admin_pb2 as pb

#: Has the node end the connection with a number, or those of a user, or in a virtual host, with a
#: reason; the last argument hears how many that are, once, on this event loop.
AskClose: TypeAlias = Callable[
    [ConnectionId | None, str | None, str | None, str, Callable[[int], None]], None
]
_REASON: Final = "closed by an operator"


class _Reply(Protocol):
    """A page of a list, as it goes out."""

    next_page_token: str

    @property
    def silent_members(self) -> "_Names": ...


class _Names(Protocol):
    def append(self, value: str, /) -> None: ...


Item = TypeVar("Item")
Reply = TypeVar("Reply", bound=_Reply)
Process: TypeAlias = tuple[NodeId, Incarnation]


@dataclass(frozen=True, slots=True)
class _Listing(Generic[Item, Reply]):
    """A list that can be asked for: this node's page, its form, and how another member is asked."""

    page: Callable[[str | None, ClientPlace, int], ClientPage[Item]]
    form: Callable[[Process, Sequence[Item]], Reply]
    call: Callable[[MemberStub, pb.BrowseRequest, float], Awaitable[Reply]]


class ClientAnswers:
    """Answers about the clients of the whole cluster. Belongs to one event loop."""

    __slots__ = ("_ask_close", "_others", "_overview")

    def __init__(self, overview: Overview, others: OtherMembers, ask_close: AskClose) -> None:
        self._overview = overview
        self._others = others
        self._ask_close = ask_close

    # --- lists ------------------------------------------------------------------------------------

    async def connections(
        self, request: pb.BrowseRequest, timeout_s: float
    ) -> pb.BrowseConnectionsReply:
        """A page of connections."""
        listing: _Listing[ConnectionOverview, pb.BrowseConnectionsReply] = _Listing(
            self._overview.connection_page,
            lambda process, found: pb.BrowseConnectionsReply(
                connections=[messages.connection(process, each) for each in found]
            ),
            lambda stub, asked, timeout: stub.BrowseConnections(asked, timeout=timeout),
        )
        return await self._page(listing, request, timeout_s)

    async def channels(self, request: pb.BrowseRequest, timeout_s: float) -> pb.BrowseChannelsReply:
        """A page of channels."""
        listing: _Listing[ChannelOverview, pb.BrowseChannelsReply] = _Listing(
            self._overview.channel_page,
            lambda process, found: pb.BrowseChannelsReply(
                channels=[messages.channel(process, each) for each in found]
            ),
            lambda stub, asked, timeout: stub.BrowseChannels(asked, timeout=timeout),
        )
        return await self._page(listing, request, timeout_s)

    async def consumers(
        self, request: pb.BrowseRequest, timeout_s: float
    ) -> pb.BrowseConsumersReply:
        """A page of consumers."""
        listing: _Listing[ConsumerOverview, pb.BrowseConsumersReply] = _Listing(
            self._overview.consumer_page,
            lambda process, found: pb.BrowseConsumersReply(
                consumers=[messages.consumer(process, each) for each in found]
            ),
            lambda stub, asked, timeout: stub.BrowseConsumers(asked, timeout=timeout),
        )
        if request.local:
            return await self._page(listing, request, timeout_s)
        # Another question may follow, and both have to fit in.
        reply = await self._page(listing, request, timeout_s / 2)
        await self._find_active(reply, timeout_s / 2)
        return reply

    async def subscribers(
        self, request: pb.BrowseRequest, timeout_s: float
    ) -> pb.BrowseSubscribersReply:
        """A page of exclusive queues."""
        listing: _Listing[SubscriberOverview, pb.BrowseSubscribersReply] = _Listing(
            partial(self._overview.subscriber_page, slow=request.slow),
            lambda process, found: pb.BrowseSubscribersReply(
                subscribers=[messages.subscriber(process, each) for each in found]
            ),
            lambda stub, asked, timeout: stub.BrowseSubscribers(asked, timeout=timeout),
        )
        return await self._page(listing, request, timeout_s)

    async def _page(
        self, listing: _Listing[Item, Reply], request: pb.BrowseRequest, timeout_s: float
    ) -> Reply:
        process = self._overview.process()
        own = process[0]
        size = page_size(request.page_size)
        vhost = vhost_of(request)
        first, place = _decode(request.page_token) if request.page_token else (NodeId(""), _BEGIN)
        if request.local:
            if first != own:
                raise unavailable(f"this is {own}, not {first}")
            later = [own]
        else:
            later = [member.node for member in self._up() if member.node >= first]
        if not later:
            return listing.form(process, [])
        node = later[0]
        begin = place if node == first else _BEGIN
        if node == own:
            page = listing.page(vhost, begin, size)
            reply = listing.form(process, page.items)
            reply.next_page_token = "" if page.next_place is None else _token(own, page.next_place)
        else:
            reply = await self._page_of(node, listing, request, begin, timeout_s)
        if not reply.next_page_token and len(later) > 1:
            reply.next_page_token = _token(later[1], _BEGIN)
        return reply

    async def _page_of(
        self, node: NodeId, listing: _Listing[Item, Reply], request: pb.BrowseRequest,
        begin: ClientPlace, timeout_s: float,
    ) -> Reply:  # fmt: skip
        """What another member says; if it is silent, a page that says so."""
        asked = pb.BrowseRequest(
            page_size=request.page_size, page_token=_token(node, begin), local=True,
            slow=request.slow,
        )  # fmt: skip
        if request.HasField("vhost"):
            asked.vhost = request.vhost
        members = [member for member in self._overview.members() if member.node == node]
        replies = await self._others.ask(
            members, lambda stub, timeout: listing.call(stub, asked, timeout), timeout_s
        )
        if node in replies:
            return replies[node]
        reply = listing.form(self._overview.process(), [])
        reply.silent_members.append(node)
        return reply

    def _up(self) -> list[MemberOverview]:
        """The members to ask, this one among them whatever its copy of the map says yet."""
        own = self._overview.process()[0]
        members = self._overview.members()
        return [each for each in members if each.state is MemberState.UP or each.node == own]

    async def _find_active(self, reply: pb.BrowseConsumersReply, timeout_s: float) -> None:
        """Finds the single active consumer of queues that have one: their primaries know."""
        unknown = [each for each in reply.consumers if not each.HasField("active")]
        keys = dict.fromkeys(QueueKey(each.queue.vhost, each.queue.name) for each in unknown)
        queues = {key: found for key in keys if (found := self._overview.queue(key)) is not None}
        if not queues:
            return
        request = pb.LocalFragmentsRequest(queues=messages.queue_names(list(queues)))
        own = self._overview.process()[0]
        others = [each for each in self._up() if each.node != own]
        replies = await self._others.ask(
            others,
            lambda stub, timeout: stub.LocalFragments(request, timeout=timeout),
            timeout_s,
        )
        told = [*replies.values(), local_fragments(self._overview, request)]
        by_fragment = {each.fragment: each for answer in told for each in answer.fragments}
        for each in unknown:
            queue = queues.get(QueueKey(each.queue.vhost, each.queue.name))
            local = by_fragment.get(queue.fragments[0].fragment) if queue is not None else None
            if local is not None:
                each.active = local.active_node == each.node
        known = {*reply.silent_members, *replies}
        reply.silent_members.extend(each.node for each in others if each.node not in known)

    # --- ends -------------------------------------------------------------------------------------

    async def close_connections(
        self, request: pb.CloseConnectionsRequest, timeout_s: float
    ) -> pb.CloseConnectionsReply:
        """Ends client connections, on whichever members they are."""
        if len(request.reason.encode()) > CLOSE_REASON_BYTES_MAX:
            raise invalid(f"reason is longer than {CLOSE_REASON_BYTES_MAX} bytes; say it shorter")
        whom = request.WhichOneof("whom")
        if whom is None or not getattr(request, whom):
            raise invalid("say whose connections to close: a connection's name, a user or a vhost")
        if request.local:
            # Another member was asked, and has told of it.
            if whom == "name":
                return await self._close_one(request, timeout_s)
            return await self._close_own(request, None, timeout_s)
        with telling(f"close connections of {whom} {str(getattr(request, whom))!r:.120}"):
            if whom == "name":
                return await self._close_one(request, timeout_s)
            return await self._close_everywhere(request, timeout_s)

    async def _close_everywhere(
        self, request: pb.CloseConnectionsRequest, timeout_s: float
    ) -> pb.CloseConnectionsReply:
        reply = await self._close_own(request, None, timeout_s)
        own = self._overview.process()[0]
        others = [each for each in self._up() if each.node != own]
        replies = await self._ask_to_close(others, request, timeout_s)
        for member in others:
            if member.node in replies:
                reply.closed += replies[member.node].closed
            else:
                reply.silent_members.append(member.node)
        return reply

    async def _close_one(
        self, request: pb.CloseConnectionsRequest, timeout_s: float
    ) -> pb.CloseConnectionsReply:
        node, incarnation, number = messages.read_connection_name(request.name)
        gone = not_found(
            f"no connection {messages.text(request.name)!r}; `fedq connection list` shows those "
            "there are"
        )
        process = self._overview.process()
        if node == process[0]:
            reply = pb.CloseConnectionsReply()
            if incarnation == process[1]:
                reply = await self._close_own(request, number, timeout_s)
        elif request.local:
            raise unavailable(f"this is {process[0]}, not {node}")
        else:
            members = [each for each in self._up() if each.node == node]
            if not members:
                raise gone
            replies = await self._ask_to_close(members, request, timeout_s)
            if node not in replies:
                raise unavailable(
                    f"{node} does not answer, and may have closed it or not: list again"
                )
            reply = replies[node]
        if not reply.closed and not request.local:
            raise gone
        return reply

    async def _ask_to_close(
        self, members: Sequence[MemberOverview], request: pb.CloseConnectionsRequest,
        timeout_s: float,
    ) -> dict[NodeId, pb.CloseConnectionsReply]:  # fmt: skip
        local = pb.CloseConnectionsRequest()
        local.CopyFrom(request)
        local.local = True
        replies = await self._others.ask(
            members,
            lambda stub, timeout: stub.CloseConnections(local, timeout=timeout),
            timeout_s,
        )
        return dict(replies)

    async def _close_own(
        self, request: pb.CloseConnectionsRequest, number: ConnectionId | None, timeout_s: float
    ) -> pb.CloseConnectionsReply:
        user = request.user if request.HasField("user") else None
        vhost = request.vhost if request.HasField("vhost") else None
        reason = request.reason or _REASON
        closed = await heard(partial(self._ask_close, number, user, vhost, reason), timeout_s)
        return pb.CloseConnectionsReply(closed=closed)


# --- tokens ---------------------------------------------------------------------------------------

_BEGIN: Final = ClientPlace()


def _token(node: NodeId, place: ClientPlace) -> str:
    tag = place.tag.encode("utf-8", "surrogatepass").hex()
    return encode_token(QueueKey(node, f"{place.connection}.{place.channel}.{tag}"))


def _decode(token: str) -> tuple[NodeId, ClientPlace]:
    node, place = decode_token(token)
    try:
        connection, channel, tag = place.split(".")
        text = bytes.fromhex(tag).decode("utf-8", "surrogatepass")
        return NodeId(node), ClientPlace(int(connection), int(channel), text)
    except (ValueError, binascii.Error) as error:
        raise bad_token() from error
