"""Streams of a node as tools outside see them (docs/adr/0076): where they are, who may read them.

Reads only, between two turns. Offsets are those of `x-stream-offset`, and never negative.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.ranges import Range
from fedq.fragments.streams.stream_runs import StreamRuns
from fedq.node.node import Node
from fedq.node.records.roles import Primary
from fedq.node.streams.scanning import first_kept
from fedq.node.streams.serving import base_of
from fedq.wiring.cluster_map.state import FragmentInfo, GrantKey
from fedq.wiring.cluster_map.stream_arguments import TIME, Beginning

#: Ranges of a fragment that are told; of more, the oldest ones become one.
RANGES_MAX: Final = 1_024


class ServedFragment(NamedTuple):
    """What is committed of a fragment that the node serves, in offsets."""

    #: The one before which messages were, or may have been, removed; and the one that the next
    #: message gets at the earliest.
    first: int
    next: int
    #: From where to where messages go, both inclusive; few may lack in between.
    ranges: list[Range]
    #: For each time that was asked for: from where on messages came then or later.
    since: list[int]


class StreamFragment(NamedTuple):
    """A fragment of a stream."""

    #: Its number in the stream, from 0 on.
    number: int
    #: Who serves it; None: nobody does.
    home: NodeId | None
    #: What is there; None: another node serves it, or this one does not at present.
    served: ServedFragment | None


class StreamOverview(Protocol):
    """The questions of the admin floor about streams."""

    @property
    def me(self) -> NodeId:
        """The node that is asked."""

    def password_record(self, user: str) -> str | None:
        """The record of a user's password; None: no such user."""

    def has_vhost(self, user: str, vhost: str) -> bool:
        """Whether there is such a virtual host that the user has permissions in."""

    def may_read(self, user: str, key: QueueKey) -> bool:
        """Whether the user has read permission on the queue."""

    def has_queue(self, key: QueueKey) -> bool:
        """Whether there is such a shared queue."""

    def fragments(self, key: QueueKey, times: Sequence[int]) -> list[StreamFragment] | None:
        """The fragments of a stream; None: it is none, or there is no such queue."""

    def fragment(self, key: QueueKey, number: int) -> tuple[FragmentId, int] | None:
        """The fragment of that number, and the position of its offset 0; None: there is none."""

    def home(self, fragment: FragmentId) -> NodeId | None:
        """The node that serves the fragment; None: nobody does."""


class StreamView:
    """The `StreamOverview` of one node; every call reads the present state."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def me(self) -> NodeId:
        """The node itself."""
        return self._node.state.me

    def password_record(self, user: str) -> str | None:
        """The record of a user's password."""
        known = self._node.state.map.users.get(user)
        return None if known is None else known.password

    def has_vhost(self, user: str, vhost: str) -> bool:
        """Whether the user has permissions in the virtual host."""
        known = self._node.state.map
        return vhost in known.vhosts and GrantKey(user, vhost) in known.grants

    def may_read(self, user: str, key: QueueKey) -> bool:
        """Whether the user may read the queue."""
        return self._node.permissions.may_read(user, key.vhost, key.name)

    def has_queue(self, key: QueueKey) -> bool:
        """Whether the map has the queue."""
        return key in self._node.state.map.queues

    def fragments(self, key: QueueKey, times: Sequence[int]) -> list[StreamFragment] | None:
        """The fragments of a stream, in order."""
        state = self._node.state
        if not state.is_stream(key):
            return None
        found: list[StreamFragment] = []
        for number, fragment in enumerate(state.map.queues[key].fragments):
            info, primary = state.map.fragments[fragment], state.primaries.get(fragment)
            served = None
            if primary is not None and state.serving:
                served = self._served(info, primary, times)
            found.append(StreamFragment(number, state.primary_of(fragment), served))
        return found

    def _served(self, info: FragmentInfo, primary: Primary, times: Sequence[int]) -> ServedFragment:
        fragment, base, commit = primary.fragment, base_of(info), primary.replication.commit
        fresh, seek = fragment.fresh, self._node.streams.serving.seek
        assert isinstance(fresh, StreamRuns), "the fragment is one of a stream"
        ranges = [(low, min(high, commit)) for low, high in fresh.reigns() if low <= commit]
        if len(ranges) > RANGES_MAX:
            joined = len(ranges) - RANGES_MAX
            ranges = [(ranges[0][0], ranges[joined][1]), *ranges[joined + 1 :]]
        following = max(base, ranges[-1][1] + 1 if ranges else fragment.last + 1)
        found = [min(seek(primary, Beginning(TIME, each)), following) for each in times]
        since = [max(0, position - base) for position in found]
        offsets = [(max(0, low - base), max(0, high - base)) for low, high in ranges]
        first = min(max(base, first_kept(fragment)), following)
        return ServedFragment(first - base, following - base, offsets, since)

    def fragment(self, key: QueueKey, number: int) -> tuple[FragmentId, int] | None:
        """The fragment of that number, and where its offsets begin."""
        state = self._node.state
        if not state.is_stream(key):
            return None
        fragments = list(state.map.queues[key].fragments)
        if not 0 <= number < len(fragments):
            return None
        return fragments[number], base_of(state.map.fragments[fragments[number]])

    def home(self, fragment: FragmentId) -> NodeId | None:
        """The node that serves the fragment."""
        return self._node.state.primary_of(fragment)
