"""One follower and hand-written frames: what it applies, keeps and answers, frame by frame."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson

from fedq.core.ids import NodeId
from fedq.shell.raft.log import RaftLog, RaftTiming
from fedq.shell.raft.snapshot import Snapshot, SnapshotSender, encode_snapshot
from fedq.shell.raft.wire import (
    NO_OP,
    Ack,
    Append,
    LogEntry,
    RaftMessage,
    SnapshotChunk,
    Standing,
    Vote,
    VoteRequest,
    decode,
    encode,
)
from tests.contract.raft.cluster import Machine, make_voter

OWN, SECOND, THIRD = NodeId("own"), NodeId("second"), NodeId("third")
#: Longer than any of these tests: nothing happens by itself.
PATIENT = RaftTiming(election_min_ms=60_000, election_max_ms=61_000, leader_lost_ms=60_000)


class Bench:
    """A voter that never campaigns, and what it sent."""

    def __init__(self, directory: Path) -> None:
        make_voter(directory / "raft")
        self.machine = Machine()
        self.sent: list[tuple[NodeId, RaftMessage]] = []
        self.failures: list[str] = []
        self.log = RaftLog(
            OWN,
            [OWN, SECOND, THIRD],
            directory / "raft",
            send=self._send,
            machine=self.machine,
            failed=self.failures.append,
            timing=PATIENT,
        )
        self.log.start()
        self.log.on_peer_connected(SECOND)
        self.log.on_peer_connected(THIRD)

    def _send(self, peer: NodeId, frame: bytes) -> bool:
        self.sent.append((peer, decode(frame)))
        return True

    async def gives(self, peer: NodeId, *messages: RaftMessage) -> list[RaftMessage]:
        """Hands frames in and returns what the peer is sent in the turn they cause."""
        self.sent.clear()
        for message in messages:
            self.log.receive(peer, encode(message))
        is_read = any(isinstance(message, SnapshotChunk) for message in messages)
        for _ in range(5):
            await asyncio.sleep(0)
            while is_read and not self.sent:  # noqa: ASYNC110 - nor has that of a thread's reading
                await asyncio.sleep(0)
            while self.log.is_syncing:  # noqa: ASYNC110 - the end of a sync has no event
                await asyncio.sleep(0)
        return [
            message
            for receiver, message in self.sent
            if receiver == peer and not isinstance(message, Standing)
        ]


def on_bench(directory: Path, scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench(directory)
        try:
            await scenario(bench)
        finally:
            await bench.log.stop()

    asyncio.run(main())


def entries(term: int, *commands: bytes) -> list[LogEntry]:
    return [LogEntry(term, b"\x00" + command) for command in commands]


def chunk_of(term: int, number: int, snapshot: Snapshot) -> SnapshotChunk:
    chunk = SnapshotSender(encode_snapshot(snapshot)).next_chunk(term, number)
    assert chunk is not None
    return chunk


def test_only_what_was_compared_with_the_leader_s_log_is_committed(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        old = Append(1, 1, 1, 1, 0, entries(1, b"a", b"b", b"c"))
        assert await bench.gives(SECOND, old) == [Ack(1, 1, 5, True, False)]
        # The new leader shares entry 2 and has committed others than b and c.
        heartbeat = Append(2, 1, 4, 2, 1, [])
        assert await bench.gives(THIRD, heartbeat) == [Ack(2, 1, 3, True, False)]
        assert bench.machine.commands == [b"a"]
        assert bench.log.truncations == 0
        new = Append(2, 2, 4, 2, 1, entries(2, b"B", b"C"))
        assert await bench.gives(THIRD, new) == [Ack(2, 2, 5, True, False)]
        assert bench.machine.commands == [b"a", b"B", b"C"]
        assert bench.log.truncations == 1

    on_bench(tmp_path, scenario)


def test_an_older_snapshot_never_takes_anything_back(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.gives(SECOND, Append(1, 1, 4, 1, 0, entries(1, b"a", b"b", b"c", b"d")))
        assert bench.machine.commands == [b"a", b"b", b"c"]
        older = Snapshot(3, 1, orjson.dumps([b"a".hex(), b"b".hex()]))
        assert await bench.gives(SECOND, chunk_of(1, 2, older)) == [Ack(1, 2, 4, True, False)]
        assert bench.machine.commands == [b"a", b"b", b"c"]
        assert bench.machine.snapshots_installed == 0
        # Entry 5 was acknowledged and is still here.
        commit = Append(1, 3, 5, 5, 1, [])
        assert await bench.gives(SECOND, commit) == [Ack(1, 3, 6, True, False)]
        assert bench.machine.commands == [b"a", b"b", b"c", b"d"]

    on_bench(tmp_path, scenario)


def test_entries_under_a_snapshot_s_way_are_not_committed_by_its_chunks(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.gives(SECOND, Append(1, 1, 1, 1, 0, entries(1, b"mine", b"alone")))
        newer = Snapshot(9, 2, orjson.dumps([b"theirs".hex()]))
        waiting = Append(2, 1, 9, 0, 0, [])
        assert await bench.gives(THIRD, waiting) == [Ack(2, 1, 0, False, False)]
        assert bench.machine.commands == []
        assert await bench.gives(THIRD, chunk_of(2, 2, newer)) == [Ack(2, 2, 10, True, False)]
        assert bench.machine.commands == [b"theirs"]
        assert bench.log.applied_index == bench.log.committed_index == 9

    on_bench(tmp_path, scenario)


def test_a_leader_of_a_past_term_is_told_so_and_changes_nothing(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.gives(THIRD, Append(5, 1, 2, 1, 0, entries(5, b"new")))
        stale = Append(4, 7, 3, 1, 0, entries(4, b"old", b"old too"))
        assert await bench.gives(SECOND, stale) == [Ack(5, 7, 0, False, False)]
        assert bench.machine.commands == [b"new"]
        assert bench.log.leader == THIRD

    on_bench(tmp_path, scenario)


def test_one_vote_in_a_term_even_across_a_restart(tmp_path: Path) -> None:
    async def first(bench: Bench) -> None:
        assert await bench.gives(SECOND, VoteRequest(3, 1, 0, False)) == [Vote(3)]
        assert await bench.gives(THIRD, VoteRequest(3, 1, 0, False)) == []

    async def second(bench: Bench) -> None:
        assert bench.log.term == 3
        assert await bench.gives(THIRD, VoteRequest(3, 9, 2, False)) == []
        assert await bench.gives(THIRD, VoteRequest(4, 9, 2, False)) == [Vote(4)]

    on_bench(tmp_path, first)
    on_bench(tmp_path, second)


def test_no_vote_for_a_shorter_log_or_while_the_leader_is_heard(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.gives(SECOND, Append(2, 1, 2, 1, 0, [LogEntry(2, NO_OP)]))
        assert await bench.gives(THIRD, VoteRequest(3, 9, 2, False)) == []
        assert bench.log.term == 2
        bench.log.on_peer_disconnected(SECOND)
        assert await bench.gives(THIRD, VoteRequest(3, 1, 0, False)) == []
        assert bench.log.term == 3
        assert await bench.gives(THIRD, VoteRequest(4, 2, 2, False)) == [Vote(4)]

    on_bench(tmp_path, scenario)


def test_a_leader_that_contradicts_what_is_committed_stops_the_node(tmp_path: Path) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.gives(SECOND, Append(1, 1, 3, 1, 0, entries(1, b"a", b"b")))
        assert await bench.gives(THIRD, Append(2, 1, 3, 1, 0, entries(2, b"x"))) == []
        assert len(bench.failures) == 1
        assert "differs at entry 2, which is committed here" in bench.failures[0]

    on_bench(tmp_path, scenario)
