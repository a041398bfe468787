"""A whole run: processes, phases, measuring, and the result.

In: a `Plan`. Out: a `Result`, or a `BrokerFailure` with what is known so far in `Run.result`. The
parent declares what is shared, leads its processes through their phases, and takes all counters,
the broker's processor time and the generator's own at the same two moments.

    prepare → open → produce → go (warm-up, measured time) → stop → drain, or patience ends
    with a filling:  … → go (until all is stored) → consume (the measured time) → stop → drain

Every wait ends: each phase has a deadline, which moves only while something is still coming.
"""

import multiprocessing
import os
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, NamedTuple

from fedq.bench.board import Board, Cell
from fedq.bench.filling import Filling, Sample
from fedq.bench.histogram import Histogram
from fedq.bench.opening import BrokerFailure, Opener, Opening, Step, goodbye
from fedq.bench.plan import Plan
from fedq.bench.result import Broker, Result
from fedq.bench.scripts import binding_scripts, declaring_steps, deleting_steps
from fedq.bench.topology import Topology
from fedq.bench.usage import Usage, cpu_seconds, usage
from fedq.bench.worker import Report, work

#: Between *go* and the first publish, so that all processes begin together.
_HEAD_START_NS: Final = 50_000_000
_PROGRESS_S: Final = 0.25
#: How often the state of a filling is looked at.
_SAMPLE_NS: Final = 100_000_000
#: When everything has come: how long repeats may still come.
_QUIET_S: Final = 0.2
_END_S: Final = 5.0


class Progress(NamedTuple):
    """Where a run is, for whoever watches."""

    phase: str
    connected: int
    published: int
    confirmed: int
    delivered: int
    #: Per second since the last time.
    publish_per_second: float
    deliver_per_second: float


class Snapshot(NamedTuple):
    """The counts of a run at one moment."""

    time_ns: int
    published: int
    confirmed: int
    delivered: int
    brokers: list[Usage]
    generator_cpu_s: float
    busiest_cpu_s: list[float]


@dataclass(slots=True)
class _Child:
    process: BaseProcess
    pipe: Connection
    #: It has said all it will say.
    has_reported: bool = False


class Run:
    """One run of the generator; `execute` does it."""

    def __init__(self, plan: Plan, on_progress: Callable[[Progress], None]) -> None:
        plan.check()
        self._plan = plan
        self._topology = Topology(plan, f"fedq-bench-{secrets.token_hex(3)}")
        self._board = Board(plan.processes)
        self._children: list[_Child] = []
        self._on_progress = on_progress
        self._shown = (0.0, 0, 0)
        self.result = Result(plan)

    def execute(self) -> Result:
        """Does everything. Raises `BrokerFailure`; whatever happens, no process is left."""
        is_declared = False
        self.result.brokers = [Broker(pid, usage(pid).rss_bytes) for pid in self._plan.pids]
        self._topology.prepare()
        try:
            self._start_children()
            self._phase("prepare", "preparing")
            started = time.monotonic()
            self._script([declaring_steps(self._topology)])
            is_declared = True
            self._script(binding_scripts(self._topology))
            self._phase("open", "connecting")
            self._phase("produce", "connecting")
            self.result.setup_seconds = time.monotonic() - started
            for broker, now in zip(self.result.brokers, self._usages(), strict=True):
                broker.rss_bytes_connected = now.rss_bytes
            if self._plan.fill:
                self._fill_and_drain()
            else:
                self._measure()
            filling = self.result.filling
            # Where nobody makes room, what waits would be awaited in vain.
            if filling is None or filling.is_whole or self._plan.consumers:
                self._finish()
        finally:
            self._take_counts()
            self._end_children()
            if is_declared and self._plan.is_kept:
                self.result.kept = self._topology.shared_queues
            elif is_declared:
                self._clean_up()
        return self.result

    # --- phases -----------------------------------------------------------------------------------

    def _start_children(self) -> None:
        context = multiprocessing.get_context("fork")
        for index in range(self._plan.processes):
            mine, theirs = context.Pipe()
            process = context.Process(
                target=work,
                args=(self._topology, index, self._board, theirs),
                kwargs={"others": [child.pipe for child in self._children] + [mine]},
                daemon=True,
            )
            process.start()
            theirs.close()
            self._children.append(_Child(process, mine))

    def _script(self, scripts: list[list[Step]]) -> None:
        """Plays each script on a connection to the first address, which is then closed."""
        target = self._plan.targets[0]
        openings = [Opening(target, "the control connection", steps, goodbye) for steps in scripts]
        Opener(openings, self._plan.patience_s).run()

    def _phase(self, command: str, name: str) -> None:
        """Tells all processes to do something and waits until all have."""
        for child in self._children:
            child.pipe.send((command,))
        self._collect("ready", name, None)

    def _collect(self, kind: str, phase: str, patience_s: float | None) -> list[Any]:
        """The answers of all processes; raises `BrokerFailure`.

        `patience_s`: how long nothing may happen; None: for ever, for the processes have deadlines
        of their own.
        """
        answers: dict[int, Any] = {}
        seen, deadline = self._happened(), time.monotonic() + (patience_s or 0.0)
        while len(answers) < len(self._children):
            for index, (name, value) in self._messages(_PROGRESS_S):
                assert name == kind, f"{name} instead of {kind}"
                answers[index] = value
            self._show(phase)
            if self._happened() > seen:
                seen, deadline = self._happened(), time.monotonic() + (patience_s or 0.0)
            elif patience_s is not None and time.monotonic() > deadline:
                break
        return [answers[index] for index in sorted(answers)]

    def _messages(self, timeout_s: float) -> Iterable[tuple[int, tuple[str, Any]]]:
        """What processes say within this time. Raises `BrokerFailure` for what one of them met."""
        by_pipe = {
            id(child.pipe): index
            for index, child in enumerate(self._children)
            if not child.has_reported
        }
        pipes = [child.pipe for child in self._children if not child.has_reported]
        for pipe in wait(pipes, timeout_s):
            assert isinstance(pipe, Connection)
            try:
                name, value = pipe.recv()
            except EOFError:
                raise BrokerFailure(
                    "a process of the generator ended; its last words are above"
                ) from None
            if name == "failed":
                raise BrokerFailure(str(value))
            index = by_pipe[id(pipe)]
            self._children[index].has_reported = name == "report"
            yield index, (name, value)

    def _happened(self) -> int:
        cells = (Cell.CONNECTED, Cell.PUBLISHED, Cell.CONFIRMED, Cell.REFUSED, Cell.DELIVERED)
        return sum(self._board.total(cell) for cell in cells)

    def _measure(self) -> None:
        start_ns = time.monotonic_ns() + _HEAD_START_NS
        from_ns = start_ns + int(self._plan.warm_up_s * 1e9)
        to_ns = from_ns + int(self._plan.seconds * 1e9)
        for child in self._children:
            child.pipe.send(("go", start_ns, from_ns, to_ns))
        self._let_pass(from_ns, "warming up")
        before = self._snapshot()
        self._let_pass(to_ns, "measuring")
        after = self._snapshot()
        self._fill(before, after)

    def _fill_and_drain(self) -> None:
        """Lets queues be filled, and measures how they are emptied; each has `seconds` at most.

        Where nobody consumes the filling itself is what is measured.
        """
        plan, board = self._plan, self._board
        filling = self.result.filling = Filling(plan.fill)
        start_ns = time.monotonic_ns() + _HEAD_START_NS
        limit_ns = int(plan.seconds * 1e9)
        before = self._snapshot()
        for child in self._children:
            child.pipe.send(("go", start_ns, start_ns, start_ns + 2 * limit_ns))
        rss_bytes = sum(now.rss_bytes for now in self._usages())
        filling.samples.append(Sample(start_ns, 0, rss_bytes))
        kind = Cell.PUBLISHED if plan.confirm_window is None else Cell.CONFIRMED
        while not filling.is_whole and time.monotonic_ns() < start_ns + limit_ns:
            self._let_pass(time.monotonic_ns() + _SAMPLE_NS, "filling")
            rss_bytes = sum(now.rss_bytes for now in self._usages())
            sample = Sample(time.monotonic_ns(), board.total(kind), rss_bytes)
            filling.samples.append(sample)
        if plan.consumers:
            before = self._snapshot()
            self._phase("consume", "connecting")
            end_ns = time.monotonic_ns() + limit_ns
            while time.monotonic_ns() < end_ns and (
                board.total(Cell.DELIVERED) < board.total(Cell.OWED)
            ):
                self._let_pass(time.monotonic_ns() + _SAMPLE_NS // 10, "emptying")
        self._fill(before, self._snapshot())

    def _let_pass(self, until_ns: int, phase: str) -> None:
        while (left_s := (until_ns - time.monotonic_ns()) / 1e9) > 0:
            for _, (name, _) in self._messages(min(left_s, _PROGRESS_S)):
                raise AssertionError(f"{name} while messages flow")
            self._show(phase)

    def _finish(self) -> None:
        """Stops producers, waits for what is owed, and takes the reports."""
        for child in self._children:
            child.pipe.send(("stop",))
        sent = self._collect("sent", "waiting for confirms", self._plan.patience_s)
        board = self._board
        if len(sent) < len(self._children):
            missing = board.total(Cell.PUBLISHED) - board.total(Cell.CONFIRMED)
            raise BrokerFailure(
                f"{missing} publishes were neither taken nor confirmed within "
                f"{self._plan.patience_s:g} s after the last sign of life"
            )
        totals = [0] * self._plan.producers
        for part in sent:
            for producer, count in part.items():
                totals[producer] = count
        self._drain()
        for child in self._children:
            child.pipe.send(("end", totals))
        self._report(self._collect("report", "reporting", _END_S))

    def _drain(self) -> None:
        """Waits until everything was delivered and nothing more comes, or patience ends."""
        seen, since = self._happened(), time.monotonic()
        while True:
            for _, (name, _) in self._messages(_QUIET_S / 4):
                raise AssertionError(f"{name} while messages are awaited")
            self._show("draining")
            quiet_s = time.monotonic() - since
            if self._happened() > seen:
                seen, since = self._happened(), time.monotonic()
            elif quiet_s > self._plan.patience_s or (
                quiet_s > _QUIET_S
                and (self._board.total(Cell.DELIVERED) >= self._board.total(Cell.OWED))
            ):
                return

    # --- figures ----------------------------------------------------------------------------------

    def _usages(self) -> list[Usage]:
        return [usage(pid) for pid in self._plan.pids]

    def _snapshot(self) -> Snapshot:
        own = [cpu_seconds(child.process.pid or 0) for child in self._children]
        board = self._board
        return Snapshot(
            time.monotonic_ns(), board.total(Cell.PUBLISHED), board.total(Cell.CONFIRMED),
            board.total(Cell.DELIVERED), self._usages(),
            sum(own) + cpu_seconds(os.getpid()), own,
        )  # fmt: skip

    def _fill(self, before: Snapshot, after: Snapshot) -> None:
        result = self.result
        result.seconds = (after.time_ns - before.time_ns) / 1e9
        result.measured_published = after.published - before.published
        result.measured_delivered = after.delivered - before.delivered
        for broker, earlier, later in zip(
            result.brokers, before.brokers, after.brokers, strict=True
        ):
            broker.cpu_seconds = later.cpu_seconds - earlier.cpu_seconds
            broker.rss_bytes_after = later.rss_bytes
        result.generator_cpu_seconds = after.generator_cpu_s - before.generator_cpu_s
        busiest = max(
            later - earlier
            for earlier, later in zip(before.busiest_cpu_s, after.busiest_cpu_s, strict=True)
        )
        result.generator_share = busiest / result.seconds

    def _take_counts(self) -> None:
        result, board = self.result, self._board
        result.published = board.total(Cell.PUBLISHED)
        result.confirmed = board.total(Cell.CONFIRMED)
        result.refused = board.total(Cell.REFUSED)
        result.delivered = board.total(Cell.DELIVERED)

    def _report(self, reports: list[Report]) -> None:
        if len(reports) < len(self._children):
            raise BrokerFailure("a process of the generator did not report in time")
        result = self.result
        last: dict[int, tuple[int, int]] = {}
        for report in reports:
            result.lost += report.lost
            result.repeated += report.repeated
            result.out_of_order += report.out_of_order
            result.latencies.add(report.latencies)
            result.confirms.add(report.confirms)
            for number, (sent_ns, seen_ns) in report.last_seen.items():
                last[number] = sent_ns, max(seen_ns, last.get(number, (0, 0))[1])
        result.last_subscriber = Histogram()
        for sent_ns, seen_ns in last.values():
            result.last_subscriber.record((seen_ns - sent_ns) // 1_000)

    def _show(self, phase: str) -> None:
        now, board = time.monotonic(), self._board
        published, delivered = board.total(Cell.PUBLISHED), board.total(Cell.DELIVERED)
        then, published_then, delivered_then = self._shown
        if now - then < _PROGRESS_S:
            return
        self._shown = now, published, delivered
        self._on_progress(
            Progress(
                phase, board.total(Cell.CONNECTED), published, board.total(Cell.CONFIRMED),
                delivered, (published - published_then) / (now - then),
                (delivered - delivered_then) / (now - then),
            )
        )  # fmt: skip

    # --- the end ----------------------------------------------------------------------------------

    def _end_children(self) -> None:
        for child in self._children:
            child.pipe.close()
        deadline = time.monotonic() + _END_S
        for child in self._children:
            child.process.join(max(deadline - time.monotonic(), 0.0))
            if child.process.is_alive():
                child.process.kill()
                child.process.join()

    def _clean_up(self) -> None:
        """Takes away queues and exchange; a broker that is gone has taken them with it."""
        try:
            self._script([deleting_steps(self._topology)])
        except BrokerFailure as failure:
            self.result.left_behind = str(failure)
