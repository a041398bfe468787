"""What a run is made of: cluster, faults and programs, as plain values.

They are drawn from a seed by `tests.sim.swarm`.
"""

from dataclasses import dataclass

from tests.sim.clients import ConsumerPlan, GetterPlan, PublisherPlan
from tests.sim.disk import DiskOptions
from tests.sim.named_plans import NamedPlan
from tests.sim.net import NetOptions
from tests.sim.policies import PolicyPlan
from tests.sim.raft import RaftOptions
from tests.sim.streams import StreamPlan
from tests.sim.subscribers import SubscriberPlan
from tests.sim.topology import ExchangePlan, QueuePlan
from tests.sim.world import MS

#: No process dies · one at a time, when the cluster is whole · all, in any order · any, any time.
KILLS = ("none", "single", "all_stop", "reckless")


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What goes wrong besides the network's and disks' own ways; times between two of a kind."""

    kills: str = "none"
    kill_every_us: int = 1_500 * MS
    partition_every_us: int = 0
    one_way: float = 0.0
    clog_every_us: int = 0
    break_every_us: int = 0
    pause_every_us: int = 0
    #: Pauses between what a turn decides and what it says.
    pause_in_turn_every_us: int = 0
    #: Stops in order, of a node at a time.
    stop_every_us: int = 0
    #: Stops in order of all nodes, which start again when the last one has ended.
    stop_all_every_us: int = 0
    disk_stall_every_us: int = 0
    #: Stalls that last longer than anybody waits for.
    disk_hang_every_us: int = 0
    disk_fail_every_us: int = 0
    #: Exceptions at any call of a turn.
    exception_every_us: int = 0
    #: How often each comes again, at the same place, wherever that is called first.
    exception_repeats: int = 0
    #: How often a kill of a whole cluster's node, or of all, gives one of them an older directory.
    restore: float = 0.0
    #: Likewise, one whose bytes have rotted, or that is some moments old.
    rot: float = 0.0
    #: Nodes whose memory or disk is full for a while.
    full_every_us: int = 0

    @property
    def only_kills(self) -> bool:
        """Nothing can make a living node look dead."""
        return not any(
            (
                self.partition_every_us, self.clog_every_us, self.break_every_us,
                self.pause_every_us, self.pause_in_turn_every_us, self.disk_stall_every_us,
                self.disk_hang_every_us, self.disk_fail_every_us,
            )
        )  # fmt: skip

    @property
    def only_stops(self) -> bool:
        """Nothing but stops in order of all nodes."""
        return self.stop_all_every_us > 0 and self == FaultPlan(
            stop_all_every_us=self.stop_all_every_us
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run is made of."""

    seed: int
    nodes: int
    zones: int
    safety_us: int
    fragment_threshold: int
    replace_backup_ms: int
    revive_wait_ms: int
    segment_bytes: int
    #: What a turn of a node may do: in some runs so little that jobs are cut wherever they can be.
    work_per_turn: int
    net: NetOptions
    disk: DiskOptions
    raft: RaftOptions
    faults: FaultPlan
    queues: tuple[QueuePlan, ...]
    exchanges: tuple[ExchangePlan, ...]
    publishers: tuple[PublisherPlan, ...]
    consumers: tuple[ConsumerPlan, ...]
    getters: tuple[GetterPlan, ...]
    subscribers: tuple[SubscriberPlan, ...]
    churn_rounds: int
    #: Queues with policies, in place of all the plain ones.
    policies: PolicyPlan | None = None
    #: With so much in messages bodies are on disk alone, and so much is read ahead; 0: as ever.
    stow_bytes: int = 0
    read_ahead_bytes: int = 0
    #: A stream beside the queues.
    stream: StreamPlan | None = None
    #: Publishers with names beside them.
    named: NamedPlan | None = None
    #: Journals are read again all the time, and at rest some of a disk rots.
    scrub: bool = False
    #: An operator wishes moves so often; 0: there is none.
    moves_every_us: int = 0
    #: The operator changes the numbers of fragments of queues, too.
    shapes: bool = False
    #: A client declares and deletes queues in so many trains.
    trains: int = 0
    #: So many nodes join the running cluster, and so many are replaced by others.
    joins: int = 0
    replaced: int = 0
    #: For how long a voter may be away before an observer, if there is one, votes instead; 0: ever.
    replace_voter_ms: int = 0
    #: A fragment without traffic for so long is retired; 0: none is.
    retire_idle_ms: int = 0
    #: Nodes are workers of so many hosts; 0: each has its own.
    hosts: int = 0
    #: They wait so many times longer for each other than by default.
    slower: int = 1

    def describe(self) -> str:
        """The run in a few lines, for a failure's report."""
        return "\n".join(
            (
                f"nodes {self.nodes}, zones {self.zones}, safety {self.safety_us // MS} ms, "
                f"fragment threshold {self.fragment_threshold}, idle {self.retire_idle_ms} ms, "
                f"work per turn {self.work_per_turn}",
                f"{self.faults}", f"{self.net}", f"{self.disk}", f"{self.raft}",
                *map(str, self.queues), *map(str, self.exchanges), *map(str, self.publishers),
                *map(str, self.consumers), *map(str, self.getters), *map(str, self.subscribers),
                f"churn rounds {self.churn_rounds}, bodies on disk above {self.stow_bytes} bytes, "
                f"{self.read_ahead_bytes} ahead, {'with' if self.scrub else 'without'} a scrub",
                *(self.policies.describe() if self.policies is not None else ()),
                *(self.stream.describe() if self.stream is not None else ()),
                *((str(self.named),) if self.named is not None else ()),
                *((f"a move every {self.moves_every_us // MS} ms",) if self.moves_every_us else ()),
                *(("numbers of fragments change",) if self.shapes else ()),
                *((f"{self.trains} trains of declarations",) if self.trains else ()),
                *((f"{self.joins} join, {self.replaced} are replaced",) if self.joins else ()),
                *((f"on {self.hosts} hosts",) if self.hosts else ()),
            )
        )  # fmt: skip
