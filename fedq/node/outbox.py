"""What a node wants done, in lanes, and the contract of whoever does it.

The driver (the asyncio shell, the simulator) owns the world; the node owns every decision. In one
turn the driver

1. calls `node.begin_turn(now_ms)`, then any number of `node.on_…` inputs, then `node.end_turn()`;
   commands of the Raft log only as long as `node.takes_commands` is true, the rest in later turns;
2. hands `journal` to the disk in order, and the frames of `peers` to the streams (these two may
   run in parallel: what must wait for the disk is not in `peers` yet);
3. writes the parts of `writes` and the pieces of `fanned`, one write per connection, then closes
   those in `closes`; but if the clock has reached `valid_until_ms` by then, the process was stopped
   in between, and others may serve in its place: nothing is written, and the connections that were
   to get something end;
4. pauses and resumes reading as `reading` says; submits `proposals` to the Raft log; has
   `verifications` done;
5. empties every lane (`clear`), and begins another turn soon if `again` was set, input or not;
   within a few milliseconds (`fedq.proxy.links.LINGER_MS`) if `linger` was; and at `due_ms`, where
   that is not 0 and no other turn asks for a later time first.

When a journal chunk with `sync` and all before it are on disk, the driver calls
`node.on_synced(number)` in a later turn. What `reads` wants is read beside the turns, in any order;
each is answered once, in a later turn, by `node.on_read` with exactly the bytes asked for, or by
`node.on_read_failed` where the file is gone, or shorter, or the disk fails. So is what `scratch`
wants written: by `node.on_scratch_written`, once a read would find it, or `node.on_scratch_failed`;
none of it outlives the process. Order inside a lane is total. Nothing in `writes` promises more
than what is already safe: the node holds back what waits for disks and backups.
"""

from collections.abc import Iterator
from typing import NamedTuple

from fedq.amqp.content import Body
from fedq.core.ids import ConnectionId, NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.journal.segments import Chunk
from fedq.node.risk import Fault, SetAside


class Verification(NamedTuple):
    """A password to be verified against a record of the map, and the number of the question."""

    number: int
    record: str
    password: str


class ScratchPiece(NamedTuple):
    """A piece that is to be written to a scratch file, from `offset` on; the file may be new."""

    number: int
    segment: int
    offset: int
    data: bytes


class ReadWanted(NamedTuple):
    """A piece of a segment that is to be read: `length` bytes from `offset` on.

    A negative number of a segment is that of a scratch file.
    """

    number: int
    segment: int
    offset: int
    length: int
    #: The host's memory may have other bytes than the disk by now: these are to be the disk's.
    from_disk: bool = False


class NodeOut:
    """The lanes of one node. Data only."""

    __slots__ = (
        "again", "closes", "drop_segments", "due_ms", "fanned", "fanned_to", "fatal", "faults",
        "journal", "linger", "peers", "proposals", "reading", "reads", "scratch", "scratch_drops",
        "set_aside", "story", "urgent", "valid_until_ms", "verifications", "warnings", "writes",
    )  # fmt: skip

    def __init__(self) -> None:
        #: Parts for each client connection, in order.
        self.writes: dict[ConnectionId, list[Body]] = {}
        #: How many of them, from the first one on, should not wait behind the others: these are
        #: many, and get deliveries of a fan-out.
        self.urgent = 0
        #: Pieces for connections that get nothing else in this turn, and what the driver knows
        #: these connections by (`on_connected`), each of them once. An empty piece is void.
        self.fanned: list[bytes] = []
        self.fanned_to: list[object] = []
        #: Connections to close once their parts are written. True: the client was told that it may
        #: hang up, and is to do so first.
        self.closes: dict[ConnectionId, bool] = {}
        #: True: read on; False: stop reading (back-pressure).
        self.reading: dict[ConnectionId, bool] = {}
        self.peers: dict[NodeId, list[PeerFrame]] = {}
        self.journal: list[Chunk] = []
        #: Pieces of segments to be read.
        self.reads: list[ReadWanted] = []
        #: Pieces for scratch files, and scratch files that nobody needs any more.
        self.scratch: list[ScratchPiece] = []
        self.scratch_drops: list[int] = []
        #: Segments that hold nothing alive any more: delete the files.
        self.drop_segments: list[int] = []
        #: Commands for the Raft log. May be lost: the node repeats what was not committed.
        self.proposals: list[bytes] = []
        #: Passwords of clients that log in. The driver has
        #: `fedq.wiring.cluster_map.passwords.verify` look at them where that holds nobody up, and
        #: calls `node.on_verified` in a later turn.
        self.verifications: list[Verification] = []
        #: Control-plane events worth a log line (never one per message).
        self.story: list[str] = []
        #: The same, of what an operator should look at.
        self.warnings: list[str] = []
        #: Exceptions that were contained: a log line each, but not too many.
        self.faults: list[Fault] = []
        #: Messages that were set aside, to be written where an operator finds them.
        self.set_aside: list[SetAside] = []
        #: Set when the node cannot go on (see `NodeFailure`): stop the process.
        self.fatal: str | None = None
        #: There is more to do that this turn did not take on: run another one soon.
        self.again = False
        #: Something waits for others to travel with, but not for long.
        self.linger = False
        #: When messages expire or become due next, by the clock of `begin_turn`; 0: never.
        self.due_ms = 0
        #: From then on, by the clock of `begin_turn`, nothing of this turn may be written for
        #: clients; 0: whenever. The end of the lease, which whoever was stopped may have missed.
        self.valid_until_ms = 0

    def clear(self) -> None:
        """Empties the lanes after the driver has taken everything."""
        self.writes = {}
        self.urgent = 0
        if self.fanned:
            self.fanned, self.fanned_to = [], []
        self.closes = {}
        self.reading = {}
        self.peers = {}
        self.journal = []
        self.drop_segments = []
        self.reads = []
        if self.scratch:
            self.scratch = []
        if self.scratch_drops:
            self.scratch_drops = []
        self.proposals = []
        if self.verifications:
            self.verifications = []
        if self.story:
            self.story = []
        if self.warnings:
            self.warnings = []
        if self.faults:
            self.faults = []
        if self.set_aside:
            self.set_aside = []
        self.again = False
        self.linger = False
        self.due_ms = 0
        self.valid_until_ms = 0

    def everything_written(self) -> Iterator[tuple[ConnectionId, list[Body]]]:
        """All connections that get bytes, with these: for drivers that know them by number."""
        yield from self.writes.items()
        for known_as, piece in zip(self.fanned_to, self.fanned, strict=True):
            if piece:
                assert isinstance(known_as, int), "this driver knows them by something else"
                yield ConnectionId(known_as), [piece]
