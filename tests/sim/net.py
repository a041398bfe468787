"""The streams between nodes: what gRPC over a bad network may do to frames, and a little more.

Each node dials each other one and only sends on the streams that it dialled. A stream delivers in
order while it is up; what is in it when it breaks is gone. On top of that the options may lose,
repeat and overtake single frames, hold a pair back for a while (*clogging*), and cut pairs in one
or both directions. A cut that ends before the keep-alive gives up behaves like TCP: what was held
goes on. `refused` is only ever reported while the peer's process is dead, as the kernel of its
host would: from a host that cannot be reached nobody hears anything.

Inputs: frames of one node for another, starts and ends of processes, faults. Outputs: `on_peer`,
`on_link_up` and `on_link_down` of the machines.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from fedq.core.ids import Incarnation, NodeId
from fedq.core.peer_messages import PeerFrame
from tests.sim.world import MS, World, between

Pair = tuple[NodeId, NodeId]


class PeerMachine(Protocol):
    """What the network tells a node."""

    def on_link_up(self, peer: NodeId, process: Incarnation) -> None: ...
    def on_link_down(self, peer: NodeId, refused: bool) -> None: ...
    def on_peer(self, frame: PeerFrame) -> None: ...


class Station(Protocol):
    """A host as the network sees it."""

    @property
    def name(self) -> NodeId: ...

    @property
    def alive(self) -> bool:
        """Its process runs (it may be paused)."""

    @property
    def paused(self) -> bool:
        """Its process hangs: nothing it is given is handled for now."""

    @property
    def incarnation(self) -> int:
        """The number by which its process goes."""

    @property
    def life(self) -> int:
        """Grows with every start of the process."""

    def submit(self, action: Callable[[PeerMachine], None]) -> None:
        """Gives the process an input, to be handled in its next turn."""


@dataclass(frozen=True, slots=True)
class NetOptions:
    """How bad the network is. Probabilities are per frame, delays in microseconds."""

    delay_us_min: int = 100
    delay_us_max: int = 1_500
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    #: How long an unreachable peer goes unnoticed before the stream breaks.
    keepalive_us_min: int = 1_000 * MS
    keepalive_us_max: int = 2_500 * MS
    redial_us: int = 100 * MS
    #: Frames cross the wire encoding, so that it is exercised too.
    encoded: bool = False


class Stream:
    """One direction of a pair."""

    __slots__ = ("blocked", "clogged_until_us", "dialling", "held", "last_arrival_us", "life",
                 "number", "up")  # fmt: skip

    def __init__(self) -> None:
        self.up = False
        self.dialling = False
        self.blocked = False
        self.clogged_until_us = 0
        #: Which connection this is; frames of an earlier one never arrive.
        self.number = 0
        #: The process at its other end.
        self.life = 0
        self.last_arrival_us = 0
        #: Frames that a cut holds back until it heals or the stream breaks.
        self.held: list[PeerFrame] = []


class Net:
    """Every stream of the cluster. See the module's docstring."""

    def __init__(
        self,
        world: World,
        options: NetOptions,
        stations: Sequence[Station],
        codec: Callable[[PeerFrame], PeerFrame] | None = None,
        knows: Callable[[NodeId, NodeId], bool] = lambda _, __: True,
    ) -> None:
        """`codec`: encodes and decodes a frame, used when the options say `encoded`.

        `knows`: whether the process of the first one has heard of the second: it dials nobody else.
        """
        self.world = world
        self.options = options
        self.stations = {station.name: station for station in stations}
        self._knows = knows
        self.frames_sent = 0
        self._random = world.generator("net")
        self._codec = codec if options.encoded else None
        self._streams: dict[Pair, Stream] = {
            (source, target): Stream()
            for source in self.stations
            for target in self.stations
            if source != target
        }

    def add(self, station: Station) -> None:
        """One more station, of which nobody has heard yet."""
        for other in self.stations:
            self._streams[other, station.name] = Stream()
            self._streams[station.name, other] = Stream()
        self.stations[station.name] = station
        for other in self.stations:
            if other != station.name and self.stations[other].alive:
                self._redial((other, station.name), self.options.redial_us)

    # --- what others ask -------------------------------------------------------------------------

    def reachable(self, one: NodeId, other: NodeId) -> bool:
        """Both processes run and packets pass both ways."""
        if one == other:
            return self.stations[one].alive
        return (
            self.stations[one].alive
            and self.stations[other].alive
            and not self.stations[one].paused
            and not self.stations[other].paused
            and not self._streams[one, other].blocked
            and not self._streams[other, one].blocked
        )

    def whole(self) -> bool:
        """Every pair of running nodes has its streams up and nothing holds them back."""
        now_us = self.world.now_us
        return all(
            (stream.up and not stream.blocked and stream.clogged_until_us <= now_us)
            or not (self.stations[source].alive and self.stations[target].alive)
            for (source, target), stream in self._streams.items()
        )

    # --- processes -------------------------------------------------------------------------------

    def on_started(self, name: NodeId) -> None:
        """The process runs: it dials its peers, and they will find it."""
        for peer in self.stations:
            if peer != name:
                self._redial((name, peer), between(self._random, 100, 5 * MS))

    def on_stopped(self, name: NodeId) -> None:
        """The process is gone: its own streams break at once, its peers hear of it soon."""
        for (source, target), stream in self._streams.items():
            if source == name:
                # What it had handed to its kernel may still arrive: `number` stays.
                stream.up = False
                stream.dialling = False
                stream.held.clear()
            elif target == name and stream.up:
                number = stream.number
                delay_us = between(self._random, 500, 20 * MS)
                self.world.after(delay_us, partial(self._reset, (source, target), number))

    def on_paused(self, name: NodeId) -> None:
        """The process hangs: its kernel still answers, but keep-alives go unanswered."""
        for pair in self._streams:
            if pair[1] == name:
                self._watch(pair)

    # --- faults ----------------------------------------------------------------------------------

    def cut(self, source: NodeId, target: NodeId) -> None:
        """Packets from `source` no longer reach `target`."""
        stream = self._streams[source, target]
        if stream.blocked:
            return
        stream.blocked = True
        # A stream needs both directions: without acknowledgements it breaks as well.
        self._watch((source, target))
        self._watch((target, source))

    def heal(self, source: NodeId, target: NodeId) -> None:
        """Packets pass again; what TCP still holds goes on."""
        stream = self._streams[source, target]
        if not stream.blocked:
            return
        stream.blocked = False
        for pair in ((source, target), (target, source)):
            healed = self._streams[pair]
            if self._open(pair):
                held, healed.held = healed.held, []
                self._transmit(pair, held)

    def clog(self, source: NodeId, target: NodeId, duration_us: int) -> None:
        """Holds everything from `source` to `target` back for a while; nothing is lost."""
        stream = self._streams[source, target]
        stream.clogged_until_us = max(stream.clogged_until_us, self.world.now_us + duration_us)

    def break_stream(self, source: NodeId, target: NodeId) -> None:
        """The connection breaks by itself; the source notices at once and dials again."""
        stream = self._streams[source, target]
        if stream.up:
            self._break((source, target), refused=False)

    def heal_all(self) -> None:
        """Ends every cut and every clogging."""
        for source, target in self._streams:
            self.heal(source, target)
            self._streams[source, target].clogged_until_us = 0

    def calm(self) -> None:
        """From now on the network only delays."""
        self.options = replace(self.options, loss=0.0, duplicate=0.0, reorder=0.0)
        self.heal_all()

    # --- frames ----------------------------------------------------------------------------------

    def send(self, source: NodeId, target: NodeId, frames: list[PeerFrame]) -> None:
        """Takes a turn's frames; those for a stream that is not up are discarded."""
        stream = self._streams.get((source, target))
        assert stream is not None, f"{source} sent frames to {target}, which is no peer of it"
        if not stream.up:
            return
        self.frames_sent += len(frames)
        if self._codec is not None:
            frames = [self._codec(frame) for frame in frames]
        if self._open((source, target)):
            self._transmit((source, target), frames)
        else:
            stream.held.extend(frames)

    def _open(self, pair: Pair) -> bool:
        return not (self._streams[pair].blocked or self._streams[pair[1], pair[0]].blocked)

    def _transmit(self, pair: Pair, frames: list[PeerFrame]) -> None:
        stream, options, generator = self._streams[pair], self.options, self._random
        target = self.stations[pair[1]]
        now_us = self.world.now_us
        for frame in frames:
            if options.loss and generator.random() < options.loss:
                continue
            delay_us = between(generator, options.delay_us_min, options.delay_us_max)
            arrival_us = max(now_us + delay_us, stream.last_arrival_us)
            arrival_us = max(arrival_us, stream.clogged_until_us)
            if options.reorder and generator.random() < options.reorder:
                arrival_us += between(generator, 0, 4 * options.delay_us_max)
            else:
                stream.last_arrival_us = arrival_us
            self._arrive(pair, target, frame, arrival_us)
            if options.duplicate and generator.random() < options.duplicate:
                later_us = between(generator, 0, 40 * options.delay_us_max)
                self._arrive(pair, target, frame, arrival_us + later_us)

    def _arrive(self, pair: Pair, target: Station, frame: PeerFrame, arrival_us: int) -> None:
        stream = self._streams[pair]
        number, life = stream.number, stream.life

        def arrive() -> None:
            if target.alive and target.life == life:
                if stream.number == number:
                    target.submit(lambda machine: machine.on_peer(frame))
            else:
                # The process that the connection led to is gone: its kernel resets it.
                self._reset(pair, number)

        self.world.at(arrival_us, arrive)

    # --- the life of a stream --------------------------------------------------------------------

    def _redial(self, pair: Pair, delay_us: int) -> None:
        stream = self._streams[pair]
        if not stream.dialling and not stream.up:
            stream.dialling = True
            life = self.stations[pair[0]].life
            self.world.after(delay_us, lambda: self._dial(pair, life))

    def _dial(self, pair: Pair, life: int) -> None:
        source, target = self.stations[pair[0]], self.stations[pair[1]]
        stream = self._streams[pair]
        if not source.alive or source.life != life:
            return
        stream.dialling = False
        if not self._knows(*pair):
            self._redial(pair, self.options.redial_us)
        elif not self._open(pair) or (target.alive and target.paused):
            peer = target.name
            source.submit(lambda machine: machine.on_link_down(peer, False))
            self._redial(pair, between(self._random, 2, 6) * self.options.redial_us)
        elif not target.alive:
            peer = target.name
            source.submit(lambda machine: machine.on_link_down(peer, True))
            self._redial(pair, self.options.redial_us)
        else:
            stream.up = True
            stream.number += 1
            stream.life = target.life
            stream.last_arrival_us = self.world.now_us
            self.world.note("net", f"{pair[0]}->{pair[1]} up")
            peer = target.name
            process = Incarnation(target.incarnation)
            source.submit(lambda machine: machine.on_link_up(peer, process))

    def _reset(self, pair: Pair, number: int) -> None:
        """The peer's kernel answers the next packet with a reset, if it can be reached."""
        stream = self._streams[pair]
        if stream.up and stream.number == number and self._open(pair):
            self._break(pair, refused=not self.stations[pair[1]].alive)

    def _watch(self, pair: Pair) -> None:
        options, number = self.options, self._streams[pair].number
        delay_us = between(self._random, options.keepalive_us_min, options.keepalive_us_max)
        self.world.after(delay_us, partial(self._keepalive, pair, number))

    def _keepalive(self, pair: Pair, number: int) -> None:
        stream = self._streams[pair]
        silent = not self._open(pair) or self.stations[pair[1]].paused
        if stream.up and stream.number == number and silent:
            self._break(pair, refused=False)

    def _break(self, pair: Pair, refused: bool) -> None:
        source, stream = self.stations[pair[0]], self._streams[pair]
        stream.up = False
        stream.number += 1
        stream.held.clear()
        self.world.note("net", f"{pair[0]}->{pair[1]} down{' (refused)' if refused else ''}")
        if source.alive:
            peer = pair[1]
            source.submit(lambda machine: machine.on_link_down(peer, refused))
            self._redial(pair, self.options.redial_us)
