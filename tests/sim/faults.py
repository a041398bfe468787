"""What goes wrong in the safety phase of a run, and how all of it is healed.

Inputs: a `FaultPlan` and a cluster. Outputs: crashes, restarts, cuts and stalls, each told to the
ledger. Kill plans keep the promise's own terms: `single` kills only when every fragment has all
its copies in sync, `all_stop` tells the ledger that memory was lost, `reckless` that only disks
count.
"""

from collections.abc import Callable, Sequence
from functools import partial

from fedq.core.ids import NodeId
from tests.sim import inspect_node
from tests.sim.alarms import FullNodes
from tests.sim.checkers import Ledger
from tests.sim.disk import EMPTY, DirectoryCopy
from tests.sim.net import Net
from tests.sim.node_host import Host
from tests.sim.plan import FaultPlan
from tests.sim.world import MS, SECOND, World, between

#: A process that is paused for so long may be taken for dead.
LONG_PAUSE_US = 1 * SECOND


class Faults:
    """Plays a fault plan until `heal`."""

    def __init__(
        self,
        world: World,
        plan: FaultPlan,
        hosts: Sequence[Host],
        net: Net,
        ledger: Ledger,
        is_whole: Callable[[], bool],
        raft_lost: Callable[[NodeId], None] = lambda _: None,
    ) -> None:
        """`raft_lost`: what a node stored of the log is gone with its directory."""
        self.world = world
        self.plan = plan
        self.hosts = hosts
        self.net = net
        self.ledger = ledger
        self.is_whole = is_whole
        self.raft_lost = raft_lost
        self.kills = 0
        #: Who is still to end of a stop of all.
        self.stopping: dict[str, None] = {}
        self._random = world.generator("faults")
        self._active = False
        #: Hosts that nobody starts again.
        self.gone: dict[str, None] = {}
        #: Hosts that start from an older copy of their data directory next time.
        self._restoring: dict[str, list[str]] = {}
        #: Hosts whose disks give back something else than what was written. Of both: the queues
        #: that are nowhere else.
        self._rotting: dict[str, list[str]] = {}
        #: Copies of data directories, made while their processes ran, of which lives, and when.
        self.moments: dict[str, tuple[int, int, DirectoryCopy]] = {
            host.name: (0, 0, EMPTY) for host in hosts
        }
        self._rot_dice = world.generator("rot")
        self.full = FullNodes(world, hosts, ledger)
        #: Copies of data directories, made when their processes ended.
        self.copies: dict[str, list[DirectoryCopy]] = {host.name: [] for host in hosts}
        self._directory_dice = world.generator("directories")
        #: How often the last exception that was put in is to be raised again.
        self._repeats = 0
        #: Faults under way, by what they are, to be ended by `heal`.
        self._open: dict[str, int] = {}

    def start(self) -> None:
        """From now on things go wrong."""
        plan = self.plan
        self._active = True
        kinds: tuple[tuple[int, Callable[[], None]], ...] = (
            (plan.kill_every_us if plan.kills != "none" else 0, self._kill),
            (plan.partition_every_us, self._partition),
            (plan.clog_every_us, self._clog),
            (plan.break_every_us, self._break),
            (plan.pause_every_us, self._pause),
            (plan.pause_in_turn_every_us, self._pause_in_turn),
            (plan.stop_every_us, self._stop),
            (plan.stop_all_every_us, self._stop_all),
            (plan.disk_stall_every_us, partial(self._stall_disk, 50 * MS, 3 * SECOND)),
            (plan.disk_hang_every_us, partial(self._stall_disk, 2 * SECOND, 8 * SECOND)),
            (plan.disk_fail_every_us, self._fail_disk),
            (300 * MS if plan.rot else 0, self._copy_directories),
            (plan.exception_every_us, self._fail_at_a_call),
            (plan.full_every_us, self.full.strike),
        )
        for every_us, action in kinds:
            if every_us:
                self.world.after(between(self._random, 0, every_us), partial(self._again, every_us,
                                                                             action))  # fmt: skip

    def heal(self) -> None:
        """The liveness phase begins: everything runs and is reachable from now on."""
        self._active = False
        self.full.heal()
        self.ledger.on_confirm = None
        self.net.calm()
        for host in self.hosts:
            host.disk.calm()
            if host.alive and host.disk.failing:
                host.crash("its disk was repaired")
            if host.stopping:
                self._cut_short(host)
            host.resume()
            if not host.alive:
                self.world.after(between(self._random, 0, 300 * MS), partial(self.revive, host))
        for number in self._open.values():
            self.ledger.fault_ends(number)
        self._open = {}

    def _cut_short(self, host: Host) -> None:
        """Nobody waits for the end of its stop."""
        self._goes_last(host)
        host.crash("killed while it stopped")

    def _goes_last(self, host: Host) -> None:
        """Stops it, so that it ends.

        Where it waited for a second copy, since the other one has gone meanwhile, two are lost at
        once: of such only disks are to be trusted.
        """
        copies_go, era_goes = inspect_node.is_last(host, self.hosts)
        self.ledger.copies_lost = self.ledger.copies_lost or copies_go
        self.ledger.memory_lost = self.ledger.memory_lost or era_goes

    def _again(self, every_us: int, action: Callable[[], None]) -> None:
        if self._active:
            action()
            delay_us = between(self._random, every_us // 2, every_us * 3 // 2)
            self.world.after(delay_us, partial(self._again, every_us, action))

    # --- the ledger's view -----------------------------------------------------------------------

    def begin(self, what: str) -> None:
        if what not in self._open:
            self._open[what] = self.ledger.fault_begins()

    def end(self, what: str) -> None:
        """A fault is over, if it is under way."""
        number = self._open.pop(what, None)
        if number is not None:
            self.ledger.fault_ends(number)

    # --- processes -------------------------------------------------------------------------------

    def _kill(self) -> None:
        kind, alive = self.plan.kills, [host for host in self.hosts if host.alive]
        if not alive:
            return
        if self.ledger.on_confirm is not None:
            return
        if kind == "single":
            # A long pause is a loss, too.
            paused = any(host.paused for host in self.hosts)
            if self.is_whole() and not paused and not self.stops_one():
                if len(self.hosts) == 1:
                    self.ledger.memory_lost = True
                self._down([self._prey(alive)])
        elif kind == "all_stop":
            if len(alive) == len(self.hosts):
                self.ledger.memory_lost = True
                self._down(alive)
        else:
            if not self.is_whole() or self.stops_one() or len(self.hosts) == 1:
                # Who else is alive may not have been let in again: no memory is to be trusted.
                self.ledger.copies_lost = True
                self.ledger.memory_lost = True
            self._down([self._prey(alive)])

    def _prey(self, alive: Sequence[Host]) -> Host:
        """Half of the time the node whose loss leaves most deliveries in the air."""
        if self._random.random() < 0.5:
            return max(alive, key=inspect_node.deliveries_elsewhere)
        return self._random.choice(alive)

    def _down(self, hosts: Sequence[Host]) -> None:
        """Kills these: now, or half of the time at the next confirm, before it can be old news."""
        lives = [(host, host.life) for host in hosts]
        spread_us = self._random.choice((0, 200 * MS)) if len(hosts) > 1 else 0
        for host in hosts:
            self.kills += 1
            self.begin(f"down {host.name}")

        def strike() -> None:
            self.ledger.on_confirm = None
            restores = self.plan.restore and self._directory_dice.random() < self.plan.restore
            at_once = bool(restores) and self._plan_restoring(hosts, self._restoring)
            if self.plan.rot and not at_once and self._rot_dice.random() < self.plan.rot:
                at_once = self._plan_restoring(hosts, self._rotting)
            for host, life in lives:
                delay_us = 0 if at_once else between(self._random, 0, spread_us)
                self.world.after(delay_us, partial(self._crash, host, life))

        if self._random.random() < 0.5:
            strike()
        else:
            self.ledger.on_confirm = strike
            self.world.after(200 * MS, partial(self._strike_at_last, strike))

    def _strike_at_last(self, strike: Callable[[], None]) -> None:
        if self.ledger.on_confirm is strike:
            strike()

    def _crash(self, host: Host, life: int) -> None:
        if host.life == life and host.alive and self._active and self._may_strike():
            self.ledger.crashes_us.append(self.world.now_us)
            host.crash("killed")
            self.copies[host.name].append(host.disk.copy())
        else:
            self._restoring.pop(host.name, None)
            self._rotting.pop(host.name, None)
        delay_us = between(self._random, 100 * MS, self._random.choice((500 * MS, 4 * SECOND)))
        self.world.after(delay_us, partial(self.revive, host))

    def _may_strike(self) -> bool:
        """Judges anew what was planned.

        An in-sync set may have shrunk since, as the very confirm that was waited for says.
        """
        if self.plan.kills == "all_stop" or len(self.hosts) == 1:
            return True
        if self.is_whole() and not self.stops_one():
            return True
        if self.plan.kills == "reckless":
            self.ledger.copies_lost = True
            self.ledger.memory_lost = True
        return self.plan.kills == "reckless"

    def _plan_restoring(self, hosts: Sequence[Host], marked: dict[str, list[str]]) -> bool:
        """Lets one of those that go come back with another directory.

        It is some starts old, or empty; or it has rotted, or is some moments old. Only when every
        copy is in sync, and all go at once: then the others have everything.
        """
        if len(self.hosts) < 2 or not self.is_whole():
            return False
        host = self._directory_dice.choice(hosts)
        marked[host.name] = inspect_node.only_copies(host)
        self.ledger.restored = True
        return True

    def _restore(self, host: Host) -> None:
        self.ledger.damaged(self._restoring.pop(host.name))
        # The last one is what is there; older ones have not seen the last start.
        older = [EMPTY, *self.copies[host.name][:-1]]
        copy = self._directory_dice.choice(older)
        host.clock_behind = self._directory_dice.random() < 0.5
        self.world.note(host.name, f"gets back a directory of {len(copy.starts)} starts")
        host.disk.restore(copy)
        self.raft_lost(host.name)

    def _rot(self, host: Host) -> None:
        """What the disk gives back is not what was written, and its process cannot know."""
        queues = self._rotting.pop(host.name)
        life, since_us, copy = self.moments[host.name]
        if life == host.life and self._rot_dice.random() < 0.5:
            self.world.note(host.name, "gets back its directory of some moments before")
            self.ledger.damaged(queues, since_us)
            host.disk.restore(copy)
            self.raft_lost(host.name)
        else:
            self.world.note(host.name, "has a disk that rots")
            self.ledger.damaged(queues)
            host.disk.rot(self._rot_dice)

    def _copy_directories(self) -> None:
        """What somebody may put back later, within the same start."""
        for host in self.hosts:
            if host.alive and self._rot_dice.random() < 0.5:
                self.moments[host.name] = (host.life, self.world.now_us, host.disk.copy())

    def revive(self, host: Host) -> None:
        if host.name in self.gone:
            return
        if not host.alive:
            if host.name in self._restoring:
                self._restore(host)
            if host.name in self._rotting:
                self._rot(host)
            host.start()
        self.end(f"down {host.name}")

    def _stop(self) -> None:
        """An operator stops a node in order, and starts it again soon."""
        alive = [host for host in self.hosts if host.alive and not host.paused]
        if not alive or not self.is_whole() or self.stops_one():
            return
        if self.ledger.on_confirm is not None:
            return
        self.stop(self._prey(alive))

    def stop(self, host: Host) -> None:
        """Stops one node in order."""
        self.begin(f"down {host.name}")
        self.kills += 1
        self.ledger.crashes_us.append(self.world.now_us)

        def start_again() -> None:
            delay_us = between(self._random, 100 * MS, 2 * SECOND)
            self.world.after(delay_us, partial(self.revive, host))

        host.stop(start_again, partial(self._has_waited, host, self.world.now_us))

    def _has_waited(self, host: Host, asked_us: int) -> None:
        """Notes that its stop is over.

        Where it could not hand over in time, or may not serve any more, what it has goes with it.
        """
        state = inspect_node.state_of(host)
        over_us = asked_us + state.settings.stop_wait_ms * MS
        if not state.serving or self.world.now_us >= over_us:
            self._goes_last(host)

    def stops_one(self) -> bool:
        """Whether a node is being stopped: what it has in memory goes with it.

        So it does however whole the cluster is until then. (Of a stop of all the ledger knows that
        memory is lost.)
        """
        return not self.stopping and any(host.stopping for host in self.hosts)

    def _stop_all(self) -> None:
        """An operator stops all nodes in order, and starts them when the last one has ended."""
        alive = [host for host in self.hosts if host.alive and not host.paused]
        if len(alive) < len(self.hosts) or not self.is_whole():
            return
        if self.stopping or self.ledger.on_confirm is not None:
            return
        self.ledger.memory_lost = True
        spread_us = self._random.choice((0, 100 * MS, 3 * SECOND))
        for host in alive:
            self.stopping[host.name] = None
            self.begin(f"down {host.name}")
            self.kills += 1
            delay_us = between(self._random, 0, spread_us)
            self.world.after(delay_us, partial(self._stop_one, host, host.life))

    def _stop_one(self, host: Host, life: int) -> None:
        if host.life == life and host.alive and self._active:
            self.ledger.crashes_us.append(self.world.now_us)
            # What goes with a stop of all is known already.
            host.stop(partial(self._has_stopped, host))
        else:
            self._has_stopped(host)

    def _has_stopped(self, host: Host) -> None:
        del self.stopping[host.name]
        if not self.stopping:
            for each in self.hosts:
                delay_us = between(self._random, 0, 500 * MS)
                self.world.after(delay_us, partial(self.revive, each))

    def _fail_at_a_call(self) -> None:
        """Some call of some turn raises, once: the node contains that, or it stops and says why."""
        alive = [host for host in self.hosts if host.alive]
        if not alive or not self.is_whole():
            return
        # What is contained costs a client its connection.
        self.begin("an exception")
        self._repeats = self.plan.exception_repeats
        self._put_in(self._random.choice(alive), between(self._random, 1, 400), "")

    def _put_in(self, host: Host, call: int, only: str) -> None:
        def stops() -> None:
            self.kills += 1
            self.begin(f"down {host.name}")
            self.ledger.crashes_us.append(self.world.now_us)
            if len(self.hosts) == 1:
                self.ledger.memory_lost = True
            delay_us = between(self._random, 100 * MS, 2 * SECOND)
            self.world.after(delay_us, partial(self.revive, host))

        host.fail_at(call, lambda: self._active and self.is_whole(), stops, self._raise_again, only)

    def _raise_again(self, place: str) -> None:
        """A bug raises wherever its input comes: here again, or on the next node."""
        if self._repeats:
            self._repeats -= 1
            for host in self.hosts:
                self._put_in(host, 1, place)

    def _pause(self) -> None:
        host = self._random.choice(self.hosts)
        duration_us = between(self._random, 50 * MS, self._random.choice((500 * MS, 4 * SECOND)))
        if duration_us > LONG_PAUSE_US and self._loses_one():
            return
        if host.alive and not host.paused:
            what = f"pause {host.name}"
            self.begin(what)
            host.pause(duration_us)
            self.net.on_paused(host.name)
            self.world.after(duration_us, partial(self.end, what))

    def _pause_in_turn(self) -> None:
        """A process hangs where it hurts most: it has decided, and not said it yet."""
        host = self._random.choice(self.hosts)
        duration_us = between(self._random, 600 * MS, 4 * SECOND)
        if self._loses_one() or not host.alive or host.paused:
            return
        what = f"pause {host.name}"
        self.begin(what)

        def hangs() -> None:
            # It strikes now, however long ago it was planned.
            self.begin(f"{what} in its turn")
            self.world.after(duration_us, partial(self.end, f"{what} in its turn"))

        host.pause_in_turn(duration_us, hangs)
        # It begins with the next delivery; if that takes long, its end is not waited for.
        self.world.after(duration_us + 500 * MS, partial(self.end, what))

    def _loses_one(self) -> bool:
        """Whether the one node that a run may lose at a time is being lost, or has been."""
        pending = self.ledger.on_confirm is not None
        going = pending or self.stops_one() or not self.is_whole()
        return self.plan.kills == "single" and going

    # --- the network -----------------------------------------------------------------------------

    def _partition(self) -> None:
        names = [host.name for host in self.hosts]
        self._random.shuffle(names)
        size = between(self._random, 1, len(names) - 1)
        one, other = names[:size], names[size:]
        one_way = self._random.random() < self.plan.one_way
        cuts: list[tuple[NodeId, NodeId]] = []
        for source in one:
            for target in other:
                cuts.append((source, target))
                if not one_way:
                    cuts.append((target, source))
        what = f"cut {self.world.now_us}"
        self.begin(what)
        self.world.note("net", f"cuts {one} {'->' if one_way else '|'} {other}")
        for source, target in cuts:
            self.net.cut(source, target)
        duration_us = between(self._random, 50 * MS, self._random.choice((1 * SECOND, 4 * SECOND)))
        self.world.after(duration_us, partial(self._heal_cuts, cuts, what))

    def _heal_cuts(self, cuts: list[tuple[NodeId, NodeId]], what: str) -> None:
        self.world.note("net", f"heals {what}")
        for source, target in cuts:
            self.net.heal(source, target)
        self.end(what)

    def _pair(self) -> tuple[NodeId, NodeId]:
        source, target = self._random.sample([host.name for host in self.hosts], 2)
        return source, target

    def _clog(self) -> None:
        source, target = self._pair()
        duration_us = between(self._random, 10 * MS, 1 * SECOND)
        what = f"clog {self.world.now_us}"
        self.begin(what)
        self.net.clog(source, target, duration_us)
        self.world.after(duration_us, partial(self.end, what))

    def _break(self) -> None:
        self.begin("break")
        self.net.break_stream(*self._pair())
        self.end("break")

    # --- disks -----------------------------------------------------------------------------------

    def _stall_disk(self, least_us: int, most_us: int) -> None:
        host = self._random.choice(self.hosts)
        duration_us = between(self._random, least_us, most_us)
        what = f"stall {self.world.now_us}"
        self.begin(what)
        self.world.note(host.name, f"disk stalls for {duration_us // MS} ms")
        host.disk.stall(duration_us)
        self.ledger.disk_stalls(self.world.now_us + duration_us)
        self.world.after(duration_us, partial(self.end, what))

    def _fail_disk(self) -> None:
        """The next sync fails; the node stops itself, and its operator starts it again."""
        host = self._random.choice(self.hosts)
        if host.alive:
            self.ledger.copies_lost = True
            self.ledger.memory_lost = True
            self.begin(f"down {host.name}")
            self.world.note(host.name, "disk fails")
            host.disk.fail()
            self.world.after(3 * SECOND, partial(self._replace_disk, host, host.life))

    def _replace_disk(self, host: Host, life: int) -> None:
        if host.life == life and host.alive:
            host.crash("its disk was repaired")
        self.revive(host)
