"""An operator who traces everything while a run goes on, and what the traces must say.

Input: hosts. Output: a trace that begins, ends and begins again in the run; at its end what is in
the stream is read: every body is a batch, the batches of a process are numbered without holes, and
without faults every publish that set out for a fragment has entered it, or was refused.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from fedq.core.errors import Refused
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.message import split
from fedq.core.ranges import Range, from_ranges, join_overlapping, minus
from fedq.core.trace_records import Batch, decode
from fedq.node.cluster.proposals import Result
from fedq.wiring.cluster_map.operations import DeclareQueue, Operation
from fedq.wiring.cluster_map.operations_tracing import SetFirehose, StartTrace, StopTrace
from fedq.wiring.cluster_map.state import Ok
from tests.sim import inspect_node
from tests.sim.actors import Actor, Script
from tests.sim.checkers import Ledger
from tests.sim.node_host import Host
from tests.sim.world import MS, World, between

NAME = "sim"
STREAM = QueueKey("/", "fedq.trace.sim")
_ARGUMENTS = '{"x-queue-type":"stream"}'
#: How long the operator waits for an answer before another node is asked.
_PATIENCE_US = 4_000 * MS
#: What is under way between nodes takes no longer, without faults.
_MARGIN_MS = 300
_NUMBERS = tuple[str, int, FragmentId]


class Operator(Actor):
    """Starts and stops the trace, and the firehose, until the run is to end."""

    def __init__(self, world: World, ledger: Ledger, hosts: Sequence[Host]) -> None:
        super().__init__(world, ledger, hosts, "operator")

    def script(self) -> Script[None]:
        home = NodeId(self.hosts[0].name)
        yield from self._change(DeclareQueue("/", STREAM.name, True, False, _ARGUMENTS, home, 1, 2))
        yield from self._change(SetFirehose("/", True))
        while True:
            yield from self._change(StartTrace(NAME, "", "", "", 1, "/", STREAM.name))
            yield between(self.random, 500, 3_000) * MS
            if not self.goes_on():
                break
            if self.random.random() < 0.3:
                yield from self._change(StopTrace(NAME))
                yield between(self.random, 10, 300) * MS
        yield from self._change(StopTrace(NAME))
        yield from self._change(SetFirehose("/", False))

    def _change(self, operation: Operation) -> Script[None]:
        """Has the map changed, asking one node after the other until it says that it is so."""
        while True:
            alive = [host for host in self.hosts if host.alive]
            heard: list[Result] = []
            if alive:
                ask = partial(_ask, operation, heard)
                self.random.choice(alive).submit(ask)
            waited = 0
            while not heard and waited < _PATIENCE_US:
                yield 20 * MS
                waited += 20 * MS
            if heard and isinstance(heard[0], Ok):
                return
            if heard and isinstance(heard[0], Refused) and isinstance(operation, StopTrace):
                # It had stopped: the answer to that was lost.
                return


def _ask(operation: Operation, heard: list[Result], machine: Any) -> None:
    machine.on_change_asked(operation, heard.append)


def check(ledger: Ledger, hosts: Sequence[Host], is_faultless: bool) -> None:
    """Judges what is in the stream, once all is at rest."""
    batches, is_whole = _read(ledger, hosts)
    if not is_whole:
        # The rest has left memory; what is read back is the readers' matter.
        return
    if not batches:
        ledger.broken("the trace has written nothing")
    numbers: dict[tuple[str, int], int] = {}
    for batch in batches:
        process = batch.head.node, batch.head.incarnation
        known, number = numbers.get(process, 0), batch.head.batch
        # Its word at the beginning may be what had no room.
        begins = number == 1 and batch.events[0].kind in ("started", "gap")
        if number != known + 1 and not begins and known:
            ledger.broken(f"batch {number} of {process} comes after {known}: {batch.events[0]}")
        numbers[process] = number
    for problem in _unmarked(batches):
        ledger.broken(problem)
    if is_faultless:
        for problem in _unaccounted(batches):
            ledger.broken(problem)


def _read(ledger: Ledger, hosts: Sequence[Host]) -> tuple[list[Batch], bool]:
    """The batches that are in memory, in order, and whether these are all."""
    known = inspect_node.state_of(hosts[0]).map
    info = known.fragments[known.queues[STREAM].fragments[0]]
    home = next(host for host in hosts if host.name == info.primary)
    primary = inspect_node.state_of(home).primaries[info.id]
    found: list[Batch] = []
    for position, message in sorted(primary.fragment.messages.pairs()):
        try:
            found.append(decode(split(message)[2]))
        except ValueError as error:
            ledger.broken(f"what the trace wrote at {position} is no batch: {error}")
    return found, primary.fragment.stowed_count == 0


def _unmarked(batches: Sequence[Batch]) -> list[str]:
    """Messages that were delivered twice, and never with the mark (P2)."""
    seen: dict[tuple[int, int], str] = {}
    problems: list[str] = []
    for batch in batches:
        for event in batch.events:
            if event.kind != "delivered" or event.fragment < 0 or event.reason == "stream":
                continue
            marked = list(event.redelivered)
            for position in from_ranges(minus(event.positions, marked)):
                place = event.fragment, position
                if place in seen:
                    problems.append(f"{place} was delivered to {seen[place]} and {batch.head.node}")
                seen[place] = batch.head.node
    return problems


def _unaccounted(batches: Sequence[Batch]) -> list[str]:
    """Publishes that set out and did not arrive, of processes that missed nothing."""
    sent: dict[_NUMBERS, list[Range]] = {}
    came: dict[_NUMBERS, list[Range]] = {}
    events = [(batch.head, event) for batch in batches for event in batch.events]
    begun = [event.ms for _, event in events if event.kind == "started"]
    ended = [event.ms for _, event in events if event.kind == "stopped"]
    nodes = {head.node: None for head, _ in events}
    if any(event.kind == "gap" for _, event in events) or len(ended) != len(nodes):
        return []
    # Nodes begin and end it one after the other.
    first, last = max(begun) + _MARGIN_MS, min(ended) - _MARGIN_MS
    for head, event in events:
        if event.kind == "routed" and not first <= event.ms <= last:
            continue
        fragment = FragmentId(event.fragment)
        if event.kind == "routed" and event.numbers:
            sent.setdefault((head.node, head.incarnation, fragment), []).extend(event.numbers)
        elif event.kind in ("enqueued", "refused") and event.numbers:
            origin = event.origin, event.origin_incarnation, fragment
            came.setdefault(origin, []).extend(event.numbers)
    problems: list[str] = []
    for key, ranges in sent.items():
        missed = minus(join_overlapping(ranges), join_overlapping(came.get(key, [])))
        if missed:
            problems.append(f"publishes {missed} of {key} set out and did not arrive")
    return problems
