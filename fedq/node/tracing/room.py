"""Tracing as a whole: begins and ends as the cluster map says, and does its part of a turn."""

from fedq.core.trace_records import STARTED, STOPPED
from fedq.node.publishing.room import Publishing
from fedq.node.records.chores import Each
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.records.tracing.trace_lines import TraceLines
from fedq.node.records.tracing.tracer import Tracer
from fedq.node.tracing.firehose import Firehose
from fedq.node.tracing.writing import TraceWriting

#: How often it is said what fragments hold in which something has happened since.
STANDING_EVERY_MS = 30_000
#: What it costs to look through a fragment, in units of work.
_STANDING_WORK = 50


class Tracing:
    """Begins, writes and ends the traces of this node."""

    __slots__ = ("_firehose", "_seen", "_standing_ms", "_writing", "state")

    def __init__(self, state: NodeState, publishing: Publishing) -> None:
        self.state = state
        self._writing = TraceWriting(state, publishing.outlets)
        self._firehose = Firehose(state, publishing.outlets)
        self._standing_ms = 0
        #: What each fragment was at when it was said what it holds.
        self._seen: dict[int, tuple[int, int, int]] = {}

    # --- beginning and end -------------------------------------------------------------------

    def refresh(self) -> None:
        """Does as the map says: its traces have changed.

        What it said before this process was let in is no concern of it.
        """
        state = self.state
        if not state.joined:
            return
        tracer, wanted = state.tracer, state.map.traces
        if tracer is None:
            if not wanted and not state.map.firehose:
                return
            tracer = Tracer(state.map, state.private_by_id, state.losses, state.unix_ms)
        known = {writing.name: writing for writing in tracer.writings}
        for name, writing in list(known.items()):
            if wanted.get(name) != writing.trace:
                self._end(tracer, writing)
                del known[name]
        begun = [TraceLines(name, wanted[name]) for name in wanted if name not in known]
        tracer.writings = [*known.values(), *begun]
        tracer.targets = {trace.target: None for trace in wanted.values()}
        tracer.taps.vhosts = dict(state.map.firehose)
        for writing in begun:
            writing.add(tracer.say_to(writing, STARTED), state.unix_ms)
        filters = any(trace.queue for trace in wanted.values())
        tracer.names_queues = filters or bool(tracer.taps.vhosts)
        state.losses.wanted = bool(tracer.writings)
        is_on = bool(tracer.writings or tracer.taps.vhosts)
        state.tracer = tracer if is_on else None
        if begun:
            self._seen = {}
            self._begin_standing()

    def _end(self, tracer: Tracer, writing: TraceLines) -> None:
        tracer.drain_losses()
        writing.add(tracer.say_to(writing, STOPPED), self.state.unix_ms)
        self._writing.write(tracer, writing)

    # --- a turn ------------------------------------------------------------------------------

    def end_turn(self, tracer: Tracer) -> None:
        """Writes what is due. What this turn still hands out is for the next one."""
        self._writing.end_turn(tracer)
        if tracer.taps.vhosts:
            self._firehose.end_turn(tracer)

    def tick(self) -> None:
        """Forgets channels that are gone; says from time to time what fragments hold."""
        state, tracer = self.state, self.state.tracer
        if tracer is None:
            return
        for channel in [each for each in tracer.published if each.closed or each.client.gone]:
            del tracer.published[channel]
        if tracer.writings and state.now_ms - self._standing_ms >= STANDING_EVERY_MS:
            self._begin_standing()

    def _begin_standing(self) -> None:
        state = self.state
        self._standing_ms = state.now_ms
        self._seen = {
            number: seen for number, seen in self._seen.items() if number in state.primaries
        }
        if not state.chores.are_under_way(self):
            primaries = list(state.primaries.values())
            state.chores.add(self, Each(state.work, primaries, self._stand, _STANDING_WORK))

    def _stand(self, primary: Primary) -> None:
        """Says what a fragment holds, if anything has happened to it."""
        fragment, tracer = primary.fragment, self.state.tracer
        number = fragment.fragment_id
        if tracer is None or self.state.primaries.get(number) is not primary:
            return
        now = fragment.last, fragment.handed_out, len(fragment.messages)
        if self._seen.get(number) != now:
            self._seen[number] = now
            tracer.on_standing(fragment)
