"""When a Raft voter acts: timeouts, and how long the log grows before it is compacted."""

from dataclasses import dataclass

from fedq.core import limits


@dataclass(frozen=True, slots=True)
class RaftTiming:
    """Times in milliseconds. The defaults fail over in 0.1-0.8 s between hosts of one site.

    Raises `ValueError` for times that cannot work together.
    """

    #: A voter that hears no leader for a time drawn between these two calls an election.
    election_min_ms: int = 500
    election_max_ms: int = 1_000
    heartbeat_ms: int = 100
    #: A leader that hears no majority for so long steps down.
    majority_lost_ms: int = 1_000
    #: After its stream to the leader broke, a voter waits at most so long for it to come back.
    leader_lost_ms: int = 150
    #: A voter that is alone, by its log or with an empty one, listens so long for a cluster that it
    #: may have been of before it leads (docs/adr/0090); 0: nobody can call it.
    listen_ms: int = 0
    #: Who was heard of counts for so long, unless it is heard of again.
    hearsay_ms: int = 5_000
    #: How often the log looks at the clock when nothing else wakes it.
    tick_ms: int = 50
    #: How long a proposal counts as in flight when nothing more is heard of it.
    proposal_ms: int = 2_000
    #: How long a stopping leader waits for another one to take over.
    hand_over_ms: int = 500
    #: The log is compacted to a snapshot beyond so many applied entries,
    compact_entries: int = 50_000
    #: or after its file grew by so many bytes.
    compact_bytes: int = 64 * limits.MIB
    #: A compaction that failed is tried again after so long, the next time after twice that, and
    #: so on up to the longest time.
    compact_retry_ms: int = 10_000
    compact_retry_max_ms: int = 600_000

    def __post_init__(self) -> None:
        if not 0 < 3 * self.heartbeat_ms < self.election_min_ms < self.election_max_ms:
            raise ValueError(
                "Raft needs heartbeats several times within the shortest election timeout, and "
                f"that below the longest: heartbeat_ms={self.heartbeat_ms}, "
                f"election_min_ms={self.election_min_ms}, election_max_ms={self.election_max_ms}"
            )
        if self.majority_lost_ms <= self.heartbeat_ms:
            raise ValueError(
                f"majority_lost_ms={self.majority_lost_ms} must exceed "
                f"heartbeat_ms={self.heartbeat_ms}"
            )
        others = (self.leader_lost_ms, self.tick_ms, self.proposal_ms, self.hand_over_ms)
        if (
            min(others) <= 0
            or min(self.compact_entries, self.compact_bytes, self.compact_retry_ms) <= 0
        ):
            raise ValueError("every time and bound of a Raft log is above 0")
