"""Which copy leads when no process has a fragment in memory any more: the one that holds most.

Inputs: what the copies in sync hold, as their nodes say when asked (`Worth`), who is there, the
time. Output: the best of them, or that one has to wait; questions to ask. Rules
(docs/adr/0043-a-revival-compares-copies.md):

* every copy in sync had everything confirmed once. A disk may have lost the end of it since (rot
  that looks like a torn tail, a directory put back), never some of its middle unnoticed: so of two
  whole copies the one with the later event has at least what the other one has;
* a copy that is being made has gaps below its last event, so it comes after all whole ones;
* copies in sync that are not there are waited for, `wait_ms` from when the first one is. After
  that the best one that is there leads, and whoever asks is told whose was not compared.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from fedq.core.ids import Epoch, FragmentId, Incarnation, NodeId
from fedq.wiring.cluster_map.state import FragmentInfo

#: A question that was not answered, since its link broke, is asked again.
ASK_AGAIN_MS: Final = 500


class Worth(NamedTuple):
    """What a copy of a fragment holds on its disk."""

    #: It is not a copy that was still being made.
    whole: bool = True
    #: The last event in it.
    last: int = 0
    #: How many messages, and a checksum of their positions (`fedq.fragments.copy.positions`).
    live: int = 0
    digest: int = 0

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The rank of the copy: the one with the highest leads."""
        return self.whole, self.last, self.live


class Question(NamedTuple):
    """What a node is to be asked about its copy."""

    node: NodeId
    fragment: FragmentId
    epoch: Epoch


class _Wait:
    """A fragment that nobody has in memory, as long as its copies stay as they are."""

    __slots__ = ("asked_ms", "epoch", "known", "since_ms")

    def __init__(self, epoch: Epoch, now_ms: int) -> None:
        self.epoch = epoch
        self.since_ms = now_ms
        self.asked_ms: dict[NodeId, int] = {}
        #: What was answered, and by which process.
        self.known: dict[NodeId, tuple[Incarnation, Worth]] = {}


class Revivals:
    """What a leader knows of copies without a process that has them in memory."""

    __slots__ = ("_earlier", "_waits", "awaited", "questions", "unlike", "wait_ms", "without")

    def __init__(self, wait_ms: int) -> None:
        """`wait_ms`: how long copies in sync that are not there are waited for."""
        self.wait_ms = wait_ms
        self._waits: dict[FragmentId, _Wait] = {}
        self._earlier: dict[FragmentId, _Wait] = {}
        #: To be asked now; whoever asks takes them.
        self.questions: deque[Question] = deque()
        #: In this look: who is waited for, and for how many fragments.
        self.awaited: dict[NodeId, int] = {}
        #: Likewise: whose copies fragments go on without.
        self.without: dict[NodeId, int] = {}
        #: Likewise: whose copies end at the same event and yet differ.
        self.unlike: dict[NodeId, int] = {}

    def begin(self) -> None:
        """Begins a look at all fragments: what is not asked for in it is forgotten at its end.

        It may take a while, and be given up for another one.
        """
        self._earlier |= self._waits
        self._waits = {}
        self.awaited, self.without, self.unlike = {}, {}, {}

    def end(self) -> None:
        """Ends the look."""
        self._earlier = {}

    def on_answer(
        self, node: NodeId, incarnation: Incarnation, fragment: FragmentId, epoch: int, worth: Worth
    ) -> bool:
        """Takes a node's word on what its copy holds; whether that was wanted."""
        wait = self._waits.get(fragment) or self._earlier.get(fragment)
        if wait is None or wait.epoch != epoch or node not in wait.asked_ms:
            return False
        wait.known[node] = (incarnation, worth)
        return True

    def candidates(
        self, info: FragmentInfo, here: Mapping[NodeId, Incarnation], now_ms: int
    ) -> list[NodeId]:
        """The copies that hold most, if one may lead now; `here`: those in sync that are there."""
        wait = self._earlier.get(info.id)
        if wait is None or wait.epoch != info.epoch:
            wait = _Wait(info.epoch, now_ms)
        self._waits[info.id] = wait
        known = {
            node: wait.known[node][1]
            for node, incarnation in here.items()
            if node in wait.known and wait.known[node][0] == incarnation
        }
        missing = [node for node in info.in_sync if node not in known]
        for node in missing:
            asked_ms = wait.asked_ms.get(node)
            if node in here and (asked_ms is None or now_ms - asked_ms >= ASK_AGAIN_MS):
                wait.asked_ms[node] = now_ms
                self.questions.append(Question(node, info.id, info.epoch))
        if not known or (missing and now_ms - wait.since_ms < self.wait_ms):
            _count(self.awaited, missing)
            return []
        _count(self.without, missing)
        most = max(worth.rank for worth in known.values())
        _count(self.unlike, _unlike(known))
        return [node for node, worth in known.items() if worth.rank == most]


def _unlike(known: Mapping[NodeId, Worth]) -> list[NodeId]:
    """Whole copies that should be equal to a larger one, and are not."""
    largest: dict[int, Worth] = {}
    for worth in known.values():
        if worth.whole and worth.live >= largest.get(worth.last, worth).live:
            largest[worth.last] = worth
    return [
        node
        for node, worth in known.items()
        if worth.whole and worth.digest != largest[worth.last].digest
    ]


def _count(table: dict[NodeId, int], nodes: Iterable[NodeId]) -> None:
    for node in nodes:
        table[node] = table.get(node, 0) + 1
