"""The driver of one node in virtual time: a second shell around the very same machine.

It keeps the contract in `fedq.node.outbox`: inputs gather in an inbox, a turn hands them all to
the machine, and the lanes are drained in the fixed order. Inputs: whatever the network, the log,
the disk, sockets and the clock submit; starts, crashes, pauses. Outputs: to those same parts.

Invariants: a machine is only ever entered from `_turn`; nothing submitted for one life of the
process reaches the next; each life has its own clock, as monotonic clocks do.
"""

import zlib
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol

from fedq.core.ids import ConnectionId, Incarnation, NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.core.suspects import Stopped
from fedq.journal.recovered import Recovered
from fedq.journal.recovery import salvage
from fedq.node.outbox import NodeOut, ReadWanted, Verification
from fedq.node.risk import SetAside
from fedq.proxy.links import LINGER_MS
from fedq.shell.last_act import farewell
from fedq.wiring.cluster_map.passwords import verify
from tests.sim.disk import Disk, Start
from tests.sim.sockets import Socket
from tests.sim.world import MS, World, between
from tests.unit.node.injection import ON_MESSAGES, Injected, Injector

TICK_US = 50 * MS
VERIFYING_US = 10 * MS


class Machine(Protocol):
    """`fedq.node.node.Node`, or a fake of it."""

    @property
    def out(self) -> NodeOut: ...

    #: A clean stop has done all that it can.
    stopped: bool

    def begin_turn(self, now_ms: int) -> None: ...
    def end_turn(self) -> None: ...
    def on_connected(self, connection: ConnectionId, address: str, is_loopback: bool) -> None: ...
    def on_bytes(self, connection: ConnectionId, data: bytes) -> None: ...
    def on_verified(self, number: int, is_right: bool | None) -> None: ...
    def on_writable(self, connection: ConnectionId, writable: bool) -> None: ...
    def on_disconnected(self, connection: ConnectionId) -> None: ...
    def on_link_up(self, peer: NodeId, process: Incarnation) -> None: ...
    def on_link_down(self, peer: NodeId, refused: bool) -> None: ...
    def on_peer(self, frame: PeerFrame) -> None: ...
    @property
    def takes_commands(self) -> bool: ...
    def on_committed(self, command: bytes) -> None: ...
    def on_leader(self, leader: NodeId | None) -> None: ...
    def snapshot(self) -> bytes: ...
    def on_snapshot(self, data: bytes) -> None: ...
    def on_synced(self, number: int) -> None: ...
    def on_read(self, number: int, data: bytes) -> None: ...
    def on_read_failed(self, number: int, reason: str) -> None: ...
    def on_scratch_written(self, number: int) -> None: ...
    def on_scratch_failed(self, number: int, reason: str) -> None: ...
    def on_journal_failed(self, reason: str) -> None: ...
    def on_tick(self) -> None: ...
    def on_resources(self, waiting: int, resident: int, disk_free: int) -> None: ...
    def stop(self) -> None: ...
    def post_mortem(self, error: Exception) -> Stopped: ...


#: Builds a machine for (node, its start, what the journal held).
Factory = Callable[[NodeId, Start, Recovered], Machine]
Input = Callable[[Any], None]


class Surroundings(Protocol):
    """The network and the log, as a host uses them."""

    def send_frames(self, source: NodeId, target: NodeId, frames: list[PeerFrame]) -> None: ...
    def propose(self, proposer: NodeId, command: bytes) -> None: ...
    def turn_ended(self, host: "Host") -> None: ...
    def host_started(self, name: NodeId) -> None: ...
    def host_stopped(self, name: NodeId) -> None: ...
    def host_paused(self, name: NodeId) -> None: ...
    def say_last(self, source: NodeId, frame: PeerFrame) -> None: ...
    def set_aside(self, name: NodeId, one: SetAside) -> None: ...


class Host:
    """One machine's host: its disk and, while it runs, its process."""

    def __init__(
        self, world: World, name: NodeId, disk: Disk, factory: Factory, around: Surroundings
    ) -> None:
        self.world = world
        self.name = name
        self.disk = disk
        self.machine: Machine | None = None
        #: Counts starts, for whoever must not take two processes for one.
        self.life = 0
        #: The number of the present process, as its data directory counts.
        self.incarnation = 0
        #: So many bytes of bodies a start takes into memory; None: all.
        self.body_bytes_max: int | None = None
        #: Its clock is so far behind that it does not raise the number.
        self.clock_behind = False
        self.paused = False
        #: It was asked to stop.
        self.stopping = False
        self.turns = 0
        #: Why the process ended by itself, for the report; None: it did not.
        self.fatal: str | None = None
        self.sockets: dict[ConnectionId, Socket] = {}
        self._factory = factory
        self._around = around
        self._random = world.generator(f"host/{name}")
        self._inbox: list[Input] = []
        self._turn_due = False
        #: The next turn stops for so long before it says what it decided; and what is then unsaid.
        self._stop_us = 0
        #: Told when it does.
        self._on_hang: Callable[[], None] = _nobody_minds
        #: What raises an exception, in turns in which it may; and who is told.
        self._injector: Injector | None = None
        self._may_fail: Callable[[], bool] = lambda: False
        self._on_failed: Callable[[], None] = _nobody_minds
        self._on_raised: Callable[[str], None] = _nobody_asks
        #: What the last process failed at, as its file says.
        self.stopped: Stopped | None = None
        #: For when a turn was asked for last, by the clock of the process.
        self._due_ms = 0
        self._unsaid: list[Callable[[], None]] = []
        self._clock_base_us = 0
        self._connections = 0
        #: When the last password will have been verified.
        self._verified_us = 0

    @property
    def alive(self) -> bool:
        """The process runs (it may be paused)."""
        return self.machine is not None

    @property
    def now_ms(self) -> int:
        """The process's own monotonic clock."""
        return (self.world.now_us + self._clock_base_us) // MS

    @property
    def unix_offset_ms(self) -> int:
        """From the process's clock to that on the wall, which is the world's."""
        return -self._clock_base_us // MS

    # --- the process -----------------------------------------------------------------------------

    def start(self) -> None:
        """A new process on the same data directory."""
        assert self.machine is None, f"{self.name} runs already"
        self.life += 1
        self.fatal = None
        self.paused = False
        self._due_ms = 0
        self._clock_base_us = between(self._random, 1, 100) * 1_000 * MS
        recovered = self.recover(self.body_bytes_max)
        clock = 0 if self.clock_behind else self.life
        start = self.disk.count_start(clock, f"{self.name}/{self.life}", bool(recovered.damages))
        self.incarnation = start.number
        self.world.note(self.name, f"starts, incarnation {start.number}")
        self.machine = self._factory(self.name, start, recovered)
        life = self.life
        self.disk.open(
            lambda number: self._from_disk(life, lambda machine: machine.on_synced(number)),
            lambda reason: self._from_disk(life, lambda machine: machine.on_journal_failed(reason)),
        )
        self._around.host_started(self.name)
        self.world.after(between(self._random, 0, TICK_US), lambda: self._tick(life))

    def recover(self, body_bytes_max: int | None = None) -> Recovered:
        """What the journal holds now; a torn tail is cut off, as the real start does."""
        recovered = salvage(self.disk.read_segments(), body_bytes_max)
        if recovered.damages:
            self.world.note(self.name, f"mends {recovered.damages}")
            self.disk.mend(recovered)
        elif recovered.torn_bytes:
            self.world.note(self.name, f"cuts a torn tail of {recovered.torn_bytes} bytes")
            self.disk.cut_tail(recovered.torn_bytes)
        return recovered

    def stop(self, done: Callable[[], None], ends: Callable[[], None] | None = None) -> None:
        """Asks the process to stop.

        `ends` is called as it ends in order, `done` when it has ended, in whatever way.
        """
        life = self.life
        self.stopping = True
        self.submit(lambda machine: machine.stop())

        def look() -> None:
            if self.life != life or self.machine is None:
                done()
            elif self.machine.stopped and not self.paused and not self._inbox:
                if ends is not None:
                    ends()
                self.disk.close()
                self.crash("stopped in order")
                done()
            else:
                self.world.after(10 * MS, look)

        look()

    def crash(self, reason: str) -> None:
        """The process ends without a word, and with it all that was not on disk."""
        if self.machine is None:
            return
        self.world.note(self.name, f"ends: {reason}")
        self.machine = None
        self.paused = self.stopping = False
        self._inbox = []
        self._unsaid = []
        self._stop_us = 0
        self.disk.crash()
        self._around.host_stopped(self.name)
        for socket in self.sockets.values():
            socket.reset()
        self.sockets = {}

    def pause(self, duration_us: int) -> None:
        """The process hangs (a debugger, a hypervisor): inputs gather until it goes on."""
        if self.machine is not None and not self.paused:
            self.world.note(self.name, f"hangs for {duration_us // MS} ms")
            self.paused = True
            life = self.life
            self.world.after(duration_us, lambda: self._go_on(life))

    def pause_in_turn(self, duration_us: int, on_hang: Callable[[], None]) -> None:
        """The process hangs in its next turn that delivers something, before it has said it."""
        self._stop_us, self._on_hang = duration_us, on_hang

    def resume(self) -> None:
        """Ends a pause early."""
        self._stop_us = 0
        self._go_on(self.life)

    def _go_on(self, life: int) -> None:
        if self.life != life or not self.paused:
            return
        self.paused = False
        unsaid, self._unsaid = self._unsaid, []
        for step in unsaid:
            step()
        if self._inbox and not self._turn_due and self.alive:
            self._plan_turn()

    # --- inputs ----------------------------------------------------------------------------------

    def submit(self, action: Input) -> None:
        """An input for the machine, handled in the next turn; void while no process runs."""
        if self.machine is None:
            return
        self._inbox.append(action)
        if not self._turn_due and not self.paused:
            self._plan_turn()

    def accept(self, socket: Socket) -> ConnectionId:
        """A client connects: numbers are never reused within a life."""
        self._connections += 1
        connection = ConnectionId(self._connections)
        self.sockets[connection] = socket
        return connection

    def forget(self, connection: ConnectionId) -> None:
        """The client is gone."""
        self.sockets.pop(connection, None)

    def _from_disk(self, life: int, action: Input) -> None:
        if self.life == life:
            self.submit(action)

    def _tick(self, life: int) -> None:
        if self.machine is not None and self.life == life:
            if not self.paused:
                self.submit(lambda machine: machine.on_tick())
            self.world.after(TICK_US, lambda: self._tick(life))

    # --- turns -----------------------------------------------------------------------------------

    def _plan_turn(self) -> None:
        self._turn_due = True
        self.world.after(between(self._random, 10, 120), self._turn)

    def _turn(self) -> None:
        self._turn_due = False
        machine = self.machine
        if machine is None or self.paused:
            return
        inbox, self._inbox = self._inbox, []
        if not inbox:
            return
        self.turns += 1
        injector = self._injector if self._injector is not None and self._may_fail() else None
        try:
            with injector.watching() if injector is not None else nullcontext():
                machine.begin_turn(self.now_ms)
                for action in inbox:
                    action(machine)
                machine.end_turn()
        except Injected as error:
            self._fail(machine, error)
            return
        if injector is not None and injector.place:
            # It was contained.
            self._injector = None
            self._on_raised(injector.place)
        self._around.turn_ended(self)
        out = machine.out
        if self.world.trace.on:
            self._note_lanes(out)
        for fault in out.faults:
            if not isinstance(fault.error, Injected):
                raise fault.error
        for one in out.set_aside:
            self._around.set_aside(self.name, one)
        if out.fatal is not None:
            self.fatal = out.fatal
            newer = getattr(machine, "overtaken_by", None)
            self.crash(f"fatal: {out.fatal}")
            if newer is not None:
                # Whoever watches over the process starts it again, with a higher number.
                self.disk.raise_number(newer)
                self.world.after(100 * MS, self._start_again)
            return
        steps = [partial(self._drain, out), partial(self._drain_clients, out),
                 partial(self._drain_rest, out)]  # fmt: skip
        duration_us = self._stop_us if self._stop_us and _delivers(out) else 0
        said = between(self._random, 0, 1) if duration_us else len(steps)
        for step in steps[:said]:
            step()
        if duration_us:
            self._stop_us = 0
            self._unsaid += steps[said:]
            self.pause(duration_us)
            self._on_hang()
            self._around.host_paused(self.name)

    def fail_at(
        self, call: int, may_fail: Callable[[], bool], on_failed: Callable[[], None],
        on_raised: Callable[[str], None], only: str = "",
    ) -> None:  # fmt: skip
        """An exception is raised at so many calls from now, in turns in which it may be.

        `on_failed` is told if the process ended of it, and `on_raised` of the place in any case.
        `only`: calls of one place count.
        """
        self._injector = Injector(call, ON_MESSAGES, only)
        self._may_fail, self._on_failed, self._on_raised = may_fail, on_failed, on_raised

    def _fail(self, machine: Machine, error: Injected) -> None:
        """Nothing of the turn leaves but what it was at."""
        self._injector = None
        self._on_raised(str(error))
        self.stopped = machine.post_mortem(error)
        self.world.note(self.name, f"fails in {error}: {self.stopped}")
        self._around.say_last(self.name, farewell(self.name, self.stopped))
        self.crash("an exception")
        self._on_failed()

    def _start_again(self) -> None:
        if self.machine is None:
            self.start()

    def _drain(self, out: NodeOut) -> None:
        if out.journal:
            self.disk.append(list(out.journal))
        if out.drop_segments:
            self.disk.drop(list(out.drop_segments))
        self.disk.use_scratch(out, partial(self._from_disk, self.life))
        for wanted in out.reads:
            self._read(wanted)
        for peer, frames in out.peers.items():
            self._around.send_frames(self.name, peer, frames)

    def _read(self, wanted: ReadWanted) -> None:
        """A piece of a segment is read; the process hears of it, if it lives."""
        life, number = self.life, wanted.number

        def tell(data: bytes | None) -> None:
            if data is None:
                self._from_disk(life, lambda machine: machine.on_read_failed(number, "simulated"))
            else:
                self._from_disk(life, lambda machine: machine.on_read(number, data))

        self.disk.read(wanted, tell)

    def _drain_rest(self, out: NodeOut) -> None:
        for command in out.proposals:
            self._around.propose(self.name, command)
        for wanted in out.verifications:
            self._verify(wanted)
        if out.again:
            self.submit(_nothing)
        if out.linger:
            life = self.life
            self.world.after(LINGER_MS * MS, lambda: self._from_disk(life, _nothing))
        if out.due_ms:
            self._expect(out.due_ms)
        out.clear()

    def _verify(self, wanted: Verification) -> None:
        """A password takes a while; the verdicts come in order, as from one thread."""
        self._verified_us = max(self._verified_us, self.world.now_us) + VERIFYING_US
        verdict, life = verify(wanted.record, wanted.password), self.life

        def tell() -> None:
            self._from_disk(life, lambda machine: machine.on_verified(wanted.number, verdict))

        self.world.after(self._verified_us - self.world.now_us, tell)

    def _expect(self, due_ms: int) -> None:
        """A turn is wanted then, by the clock of the process."""
        delay_us = (due_ms - self.now_ms) * MS
        if delay_us < TICK_US and not self.now_ms < self._due_ms <= due_ms:
            life = self.life
            self._due_ms = due_ms
            self.world.after(max(0, delay_us), lambda: self._from_disk(life, _nothing))

    def _drain_clients(self, out: NodeOut) -> None:
        sockets = self.sockets
        if 0 < out.valid_until_ms <= self.now_ms:
            written = [connection for connection, _ in out.everything_written()]
            self.world.note(self.name, f"says nothing to clients {written}: it is too late")
            self._end_connections(written)
            out.writes, out.fanned, out.fanned_to = {}, [], []
        for connection, parts in out.everything_written():
            socket = sockets.get(connection)
            if socket is not None and parts:
                socket.write(b"".join(parts))
        self._end_connections(out.closes)
        for connection, reading in out.reading.items():
            socket = sockets.get(connection)
            if socket is not None:
                socket.set_reading(reading)

    def _end_connections(self, connections: Iterable[ConnectionId]) -> None:
        for connection in connections:
            socket = self.sockets.pop(connection, None)
            if socket is not None:
                socket.close_by_node()
                # The real transport reports the loss of every connection, whoever closed it.
                self.submit(partial(_disconnected, connection))

    def _note_lanes(self, out: NodeOut) -> None:
        note = self.world.note
        for line in [*out.story, *out.warnings]:
            note(self.name, f"story: {line}")
        for chunk in out.journal:
            data = shorten(f"{chunk.data!r}", 200)
            note(self.name, f"journal {chunk.number} in {chunk.segment}: {data}")
        for peer, frames in out.peers.items():
            for frame in frames:
                note(self.name, f"-> {peer} {shorten(str(frame), 2_000)}")
        for connection, parts in out.everything_written():
            text = shorten(repr(b"".join(parts)), 200)
            note(self.name, f"=> client {connection} {text}")
        for connection in out.closes:
            note(self.name, f"closes client {connection}")
        for command in out.proposals:
            note(self.name, f"proposes {shorten(repr(command), 600)}")


def _delivers(out: NodeOut) -> bool:
    """Whether clients get deliveries (basic.deliver is method 60 of class 60)."""
    return any(b"\0\x3c\0\x3c" in b"".join(parts) for _, parts in out.everything_written())


def _nothing(_: Machine) -> None:
    """No input: the machine only goes on with what it has."""


def _disconnected(connection: ConnectionId, machine: Machine) -> None:
    machine.on_disconnected(connection)


def shorten(text: str, size: int) -> str:
    """At most about `size` characters; what is left out still counts in a digest."""
    if len(text) <= size:
        return text
    return f"{text[:size]}… ({len(text)}, {zlib.crc32(text.encode()):08x})"


def _nobody_asks(_: str) -> None:
    """Until an exception is put in."""


def _nobody_minds() -> None:
    """Nobody is to be told."""
