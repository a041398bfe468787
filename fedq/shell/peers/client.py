"""The dialing end towards all peers: a channel, a link stream and a Raft stream for each.

In: frames from the driver and from the Raft log. Out: frames on the streams, and the inputs
`on_link_up` and `on_link_down` of the node. Whenever the link to a peer breaks or cannot be
opened, a plain connection to its address finds out whether anybody listens there: a refused one
proves that the process is gone.

Invariants: frames to one peer go out in the order handed over; frames to a peer whose stream is
down are discarded (the node's links send them again).
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import grpc.aio

from fedq.core.addresses import split_address
from fedq.core.ids import Incarnation, NodeId
from fedq.core.limits import LAST_WORDS_MS
from fedq.core.peer_messages import PeerFrame
from fedq.shell.peers.certificates import NodeCertificates
from fedq.shell.peers.channel import LINK_METHOD, RAFT_METHOD, open_channel
from fedq.shell.peers.codec import encode_raft
from fedq.shell.peers.desk import PeerDesk
from fedq.shell.peers.hello import Process
from fedq.shell.peers.stream import PeerStream

_PROBE_S: Final = 0.5

logger = logging.getLogger(__name__)


#: Where a peer may be reached.
Addresses = tuple[str, ...]
#: Addresses of nodes of this host -> the Unix sockets of the same.
Near = Mapping[str, Path]


class LinkInputs(Protocol):
    """What the client calls of a node."""

    def on_link_up(self, peer: NodeId, process: Incarnation) -> None:
        """Takes note that a stream to the peer is open, and which process answered."""

    def on_link_down(self, peer: NodeId, refused: bool) -> None:
        """Takes note that the stream broke; `refused`: the peer's process is gone."""


class Feed(Protocol):
    """`Turn.input`, as far as it is needed here."""

    def __call__(self, method: Callable[..., None], *args: object) -> None:
        """Calls a method of the node inside the turn at hand."""


class RaftLinks(Protocol):
    """What the client calls of the Raft log."""

    def on_peer_connected(self, peer: NodeId) -> None:
        """Takes note that frames may be sent to the peer from now on."""

    def on_peer_disconnected(self, peer: NodeId) -> None:
        """Takes note that the stream to the peer broke."""


class _Dialing:
    """The channel to one peer; another one once certificates, or its address, are others."""

    __slots__ = (
        "_at", "_certificates", "_channel", "_closing", "_near", "_target", "_version", "addresses",
    )  # fmt: skip

    def __init__(
        self, addresses: Addresses, certificates: NodeCertificates | None, near: Near
    ) -> None:
        """`addresses`: where it may be, one at least; what is likely first."""
        self.addresses = addresses
        #: The one that is dialled, and what gRPC is told.
        self._at = addresses[0]
        self._target = ""
        self._near = near
        self._certificates = certificates
        self._version = 0
        self._channel = self._open()
        self._closing: dict[asyncio.Task[None], None] = {}

    def use(self, addresses: Addresses) -> bool:
        """Dials these from now on; true if what is dialled now is none of them."""
        self.addresses = addresses
        if self._at in addresses:
            return False
        self._dial(addresses[0])
        return True

    def turn(self) -> None:
        """Tries the next address, if there are several: this one has failed."""
        if len(self.addresses) > 1:
            following = self.addresses.index(self._at) + 1
            self._dial(self.addresses[following % len(self.addresses)])

    def _dial(self, address: str) -> None:
        self._at = address
        self._replace()

    def channel(self) -> grpc.aio.Channel:
        """The channel for an attempt to dial that begins now."""
        certificates = self._certificates
        is_old = certificates is not None and certificates.version != self._version
        if is_old or self._target != self._find_target():
            self._replace()
        return self._channel

    def _find_target(self) -> str:
        """The socket of a worker of this host, once it has one; else its address."""
        near = self._near.get(self._at)
        return self._at if near is None or not near.exists() else f"unix:{near}"

    def _replace(self) -> None:
        closing = asyncio.create_task(self._channel.close())
        self._closing[closing] = None
        closing.add_done_callback(self._closing.pop)
        self._channel = self._open()

    def _open(self) -> grpc.aio.Channel:
        self._target = self._find_target()
        if self._certificates is None:
            return open_channel(self._target, None)
        self._version = self._certificates.version
        host = "" if self._target == self._at else split_address(self._at)[0]
        return self._certificates.open_channel(self._target, host=host)

    async def close(self) -> None:
        """Closes the channel."""
        await asyncio.gather(self._channel.close(), *self._closing)


class _Peer(NamedTuple):
    dialing: _Dialing
    link: PeerStream
    raft: PeerStream
    #: Those that serve the two.
    tasks: tuple[asyncio.Task[None], asyncio.Task[None]]


class PeerClient:
    """The outgoing side of all links of one node."""

    __slots__ = (
        "_certificates", "_desk", "_endings", "_feed", "_is_stopped", "_near", "_node",
        "_on_failed", "_peers", "_raft",
    )  # fmt: skip

    def __init__(
        self,
        desk: PeerDesk,
        node: LinkInputs,
        feed: Feed,
        raft: RaftLinks,
        certificates: NodeCertificates | None,
        on_failed: Callable[[str], None],
        near: Near = MappingProxyType({}),
    ) -> None:
        """`on_failed` hears of a failure of this node's own that the streams cannot survive.

        `near`: of addresses of this host's workers, their Unix sockets, which are dialled instead
        while they are there. Whether a process is gone its port alone says.
        """
        self._near = near
        self._desk = desk
        self._node = node
        self._feed = feed
        self._raft = raft
        self._certificates = certificates
        self._on_failed = on_failed
        self._peers: dict[NodeId, _Peer] = {}
        self._endings: dict[asyncio.Task[None], None] = {}
        self._is_stopped = False

    def reach(self, peer: NodeId, addresses: Addresses) -> None:
        """Dials a peer from now on, or elsewhere if it is dialled; the own name is skipped."""
        known = self._peers.get(peer)
        if known is not None:
            if known.dialing.use(addresses):
                known.link.dial_anew()
                known.raft.dial_anew()
        elif peer != self._desk.hello.node and not self._is_stopped:
            self._peers[peer] = self._begin(
                peer, _Dialing(addresses, self._certificates, self._near)
            )

    def leave(self, peer: NodeId) -> None:
        """Ends the streams to a peer for good."""
        known = self._peers.pop(peer, None)
        if known is None:
            return
        self._feed(self._node.on_link_down, peer, False)
        self._raft.on_peer_disconnected(peer)
        ending = asyncio.create_task(_end(known))
        self._endings[ending] = None
        ending.add_done_callback(self._endings.pop)

    def _begin(self, peer: NodeId, dialing: _Dialing) -> _Peer:
        channel = dialing.channel

        async def on_link_down() -> None:
            # At once: whether it is proof that the process is gone may take a while to find out.
            self._feed(self._node.on_link_down, peer, False)
            addresses = dialing.addresses
            dialing.turn()
            for address in addresses:
                if not await refuses_connections(address):
                    return
            if dialing.addresses == addresses:
                # Otherwise it has moved meanwhile: nobody listens where it was before.
                self._feed(self._node.on_link_down, peer, True)

        async def on_raft_down() -> None:
            self._raft.on_peer_disconnected(peer)

        def on_link_up(process: Process) -> None:
            self._feed(self._node.on_link_up, peer, process.incarnation)

        def on_raft_up(_: Process) -> None:
            self._raft.on_peer_connected(peer)

        link = PeerStream(
            channel, LINK_METHOD, self._desk, peer, on_link_up, on_link_down, self._on_failed
        )
        raft = PeerStream(
            channel, RAFT_METHOD, self._desk, peer, on_raft_up, on_raft_down, self._on_failed
        )
        return _Peer(dialing, link, raft, (self._serve(link), self._serve(raft)))

    def _serve(self, stream: PeerStream) -> asyncio.Task[None]:
        task = asyncio.create_task(stream.serve())
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """A stream is served until it is cancelled; any other end is a bug."""
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a stream to a peer failed", exc_info=error)
            self._on_failed(f"{type(error).__name__}: {error}")

    async def stop(self) -> None:
        """Ends all streams; no input follows."""
        self._is_stopped = True
        await asyncio.gather(*map(_end, self._peers.values()), *self._endings)
        self._peers.clear()

    def is_up(self, peer: NodeId) -> bool:
        """Whether the link to the peer is up."""
        return peer in self._peers and self._peers[peer].link.is_up

    # --- outlets ---

    def send(self, peer: NodeId, frames: list[PeerFrame]) -> None:
        """Frames of a turn for a peer."""
        known = self._peers.get(peer)
        if known is None or not known.link.is_up:
            return
        if not known.link.send_frames(frames):
            # A hole in an ordered stream would go unnoticed until its peer is replaced.
            logger.warning("%s takes its frames too slowly; its link starts again", peer)
            known.link.break_off()

    def say_last(self, frame: PeerFrame) -> None:
        """Says the last frame to every peer; what waited before it is void."""
        for peer in self._peers.values():
            peer.link.say_last(frame)

    async def last_said(self) -> None:
        """Returns when the last frames have left, or after `limits.LAST_WORDS_MS`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_MS / 1_000):
                for peer in self._peers.values():
                    await peer.link.drained()

    def send_raft(self, peer: NodeId, data: bytes) -> bool:
        """A frame of the Raft log for a peer; False when it is lost."""
        known = self._peers.get(peer)
        return known is not None and known.raft.send(encode_raft(data))


async def _end(peer: _Peer) -> None:
    for task in peer.tasks:
        task.cancel()
    await asyncio.gather(*peer.tasks, return_exceptions=True)
    await peer.dialing.close()


async def refuses_connections(address: str) -> bool:
    """Whether the host at "host:port" answers, on each of its addresses, that nobody listens."""
    loop = asyncio.get_running_loop()
    try:
        host, port = split_address(address)
        async with asyncio.timeout(_PROBE_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            for place in {info[4][:2]: None for info in found}:
                if not await _refuses(str(place[0]), int(place[1])):
                    return False
    except (OSError, TimeoutError, ValueError):
        # No answer is no proof: the host may be slow, cut off or unknown for the moment. Nor is
        # what no resolver takes for a name.
        return False
    return bool(found)


async def _refuses(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return True
    writer.transport.abort()
    return False
