"""The other nodes of the cluster, and where they are: links and the log follow (docs/adr/0090).

In: the configuration, the roster on the disk, the map's. Out: links that open, move and close,
nodes that the log gives its entries to, the roster on the disk.

Invariants: until this process is up in the map, which may be an old one before that, nobody is left
out whom the configuration or the disk names; from then on only whom the roster has, or the log
counts, has a link. What is known of a node's address is tried in turn; what nobody can dial is left
out, with a warning.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from fedq.core.addresses import is_address
from fedq.core.ids import NodeId
from fedq.node.records.state import NodeState
from fedq.shell.identity import IdentityFile

_AGAIN_S: Final = 1.0

#: Where a node may be reached, what is likely first.
Addresses = tuple[str, ...]

logger = logging.getLogger("fedq.node")


class Links(Protocol):
    """What follows of the links to other nodes."""

    def reach(self, peer: NodeId, addresses: Addresses) -> None:
        """Has a link to a node, there, from now on."""

    def leave(self, peer: NodeId) -> None:
        """Has none to it any more."""


class Log(Protocol):
    """What follows of the Raft log."""

    @property
    def voters(self) -> tuple[NodeId, ...]:
        """The voters, by the newest entry of the log."""

    def know(self, peer: NodeId) -> None:
        """Has to do with one more node from now on."""

    def forget(self, peer: NodeId) -> bool:
        """Has nothing to do with a node any more; False: it votes, so it stays."""


class Neighbours:
    """The nodes that this one has to do with; a collection of their names."""

    __slots__ = (
        "_configured", "_due", "_hinted", "_links", "_log", "_loop", "_me", "_node", "_places",
        "_refuse", "_remember", "_remembered", "_unreadable",
    )  # fmt: skip

    def __init__(
        self, me: NodeId, configured: Mapping[NodeId, str], stored: Mapping[NodeId, str]
    ) -> None:
        """`configured` and `stored`: names and addresses, this node's own may be among them."""
        self._me = me
        self._configured = dict(configured)
        self._remembered = dict(stored)
        #: What was no address, so that it is said once.
        self._unreadable: dict[str, None] = {}
        self._places: dict[NodeId, Addresses] = {}
        for known in (configured, stored):
            for node, address in known.items():
                self._add(self._places, node, address)
        self._places.pop(me, None)
        #: Where each of them said last that it is.
        self._hinted: dict[NodeId, str] = {}
        self._due = False

    def __contains__(self, node: object) -> bool:
        return node in self._places

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def connect(
        self, node: NodeState, log: Log, links: Links, file: IdentityFile,
        refuse: Callable[[NodeId], None],
    ) -> None:  # fmt: skip
        """Says who follows; once. `refuse` ends what a node that is gone still sends."""
        self._node, self._log, self._links, self._refuse = node, log, links, refuse
        self._remember = file.remember_roster
        self._loop = asyncio.get_running_loop()
        for peer in self._places:
            log.know(peer)

    def start(self) -> None:
        """Begins to dial."""
        for peer, addresses in self._places.items():
            if addresses:
                self._links.reach(peer, addresses)

    def try_at(self, peer: NodeId, address: str) -> None:
        """Dials a node there, too: it says itself that it is there, and has proven its name."""
        if address not in self._places.get(peer, (address,)):
            self._hinted[peer] = address
            self.follow()

    def follow(self) -> None:
        """Takes note that the roster, or who votes, may have changed: soon, between all turns."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._follow)

    def _follow(self) -> None:
        self._due = False
        wanted, before = self._wanted(), self._places
        self._places = wanted
        for peer, addresses in wanted.items():
            if peer not in before:
                self._log.know(peer)
            if addresses and before.get(peer) != addresses:
                self._links.reach(peer, addresses)
        for peer in [peer for peer in before if peer not in wanted]:
            logger.info("%s is of this cluster no more", peer)
            self._links.leave(peer)
            self._refuse(peer)
            self._log.forget(peer)
        if self._is_up:
            self._note()

    @property
    def _is_up(self) -> bool:
        state = self._node
        return bool(state.map.roster) and state.map.is_up(state.me, state.settings.incarnation)

    def _wanted(self) -> dict[NodeId, Addresses]:
        roster = {node: place.peer_address for node, place in self._node.map.roster.items()}
        places: dict[NodeId, Addresses] = {}
        if not self._is_up:
            for known in (self._configured, self._remembered, roster):
                for node, address in known.items():
                    self._add(places, node, address)
        else:
            for node, address in roster.items():
                self._add(places, node, address)
            for node, address in self._configured.items():
                # The map has where its process was last, and the file perhaps where it will be.
                if node in roster:
                    self._add(places, node, address)
            for node in self._log.voters:
                if node in self._places:
                    places.setdefault(node, self._places[node])
        for node, address in self._hinted.items():
            if node in places:
                self._add(places, node, address)
        places.pop(self._me, None)
        return places

    def _note(self) -> None:
        """Notes the roster on the disk; again later if that does not take it."""
        roster = {node: place.peer_address for node, place in self._node.map.roster.items()}
        if roster == self._remembered:
            return
        try:
            self._remember(roster)
        except OSError as error:
            logger.warning(
                "who is of the cluster is not on the disk yet: %s", error.strerror or error
            )
            self._loop.call_later(_AGAIN_S, self.follow)
            return
        self._remembered = roster

    def _add(self, places: dict[NodeId, Addresses], node: NodeId, address: str) -> None:
        known = places.setdefault(node, ())
        if not is_address(address):
            if node != self._me and address not in self._unreadable:
                self._unreadable[address] = None
                logger.warning("%s is not dialled at %.80r, which is no address", node, address)
        elif address not in known:
            places[node] = (*known, address)
