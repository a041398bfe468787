"""The part of a Raft voter that hears of its streams: they begin, break and lose frames.

A mixin of the voter in `fedq.shell.raft.log`, whose private names it uses. Inputs: what becomes of
the streams to other nodes. Outputs: where the log's way to each of them begins anew, and when an
election is due.
"""

import random
from typing import Any

from fedq.core.ids import NodeId
from fedq.shell.raft.electorate import Electorate
from fedq.shell.raft.journal import RaftJournal
from fedq.shell.raft.replication import Follower
from fedq.shell.raft.timing import RaftTiming


class Linking:
    """The part of a voter that hears of its streams."""

    _electorate: Electorate
    _followers: dict[NodeId, Follower]
    _log: RaftJournal
    _peers: dict[NodeId, Any]
    _timing: RaftTiming
    leader: Any
    introduce: Any
    _isLeader: Any  # noqa: N815
    _now_s: Any
    _SyncObj__connectedNodes: Any
    _SyncObj__newAppendEntriesTime: Any
    _SyncObj__onNodeConnected: Any
    _SyncObj__onNodeDisconnected: Any
    _SyncObj__raftElectionDeadline: Any
    _SyncObj__raftMatchIndex: Any
    _SyncObj__raftNextIndex: Any

    def is_connected(self, peer: NodeId) -> bool:
        """Whether frames may be sent to the peer."""
        return peer in self._peers and self._peers[peer] in self._SyncObj__connectedNodes

    def connected(self, peer: NodeId) -> None:
        """Takes note that frames may be sent to the peer from now on."""
        node = self._peers[peer]
        self._SyncObj__onNodeConnected(node)
        self._followers[peer].restart()
        self._electorate.connected(peer)
        self.introduce(peer)
        if self._isLeader():
            # It may come back without its disk: what it acknowledged before counts no more.
            self._SyncObj__raftMatchIndex[node] = 0
            self._SyncObj__raftNextIndex[node] = self._log.last_index + 1
            self._SyncObj__newAppendEntriesTime = 0.0

    def disconnected(self, peer: NodeId) -> None:
        """Takes note that the stream to the peer broke."""
        self._SyncObj__onNodeDisconnected(self._peers[peer])
        self._followers[peer].restart()
        if self.leader == peer:
            # A killed process resets its connections: no need to wait for the whole timeout.
            soon = self._timing.leader_lost_ms / 1_000 * random.uniform(0.5, 1.0)
            deadline = min(self._SyncObj__raftElectionDeadline, self._now_s() + soon)
            self._SyncObj__raftElectionDeadline = deadline

    def frame_lost(self, peer: NodeId) -> None:
        """Takes note that a frame to the peer was lost."""
        if peer not in self._peers:
            return
        self._followers[peer].restart()
        if self._isLeader():
            node = self._peers[peer]
            matched = self._SyncObj__raftMatchIndex[node]
            learned = self._electorate.has.get(peer, 1)
            self._SyncObj__raftNextIndex[node] = max(matched, learned) + 1
