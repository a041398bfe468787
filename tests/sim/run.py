"""One seed, from start to verdict: a safety phase with faults, a liveness phase without.

Input: a seed. Output: a `Result`. In the safety phase everything in the plan goes on at once and
the ledger judges each event as it happens. Then all is healed, and within fixed bounds of virtual
time the cluster must be whole, every owed confirm must arrive, every queue must count the same
from every node, run dry, and leave copies and journals that agree.
"""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fedq.core import limits
from fedq.core.versions import SEEN
from tests.sim import inspect_node, tracing
from tests.sim.actors import Actor
from tests.sim.alarms import Probe
from tests.sim.clients import Consumer, Getter, Publisher, Setup
from tests.sim.closing import UNREAD_IDLE_US, Counter, Drainer
from tests.sim.cluster import Cluster
from tests.sim.confirming import Numbers
from tests.sim.faults import Faults
from tests.sim.joiners import Joiner
from tests.sim.movers import Mover
from tests.sim.named_publishing import NamedParty
from tests.sim.party import Party
from tests.sim.plan import Plan
from tests.sim.rotting import messages_lost, rot_some, unreadable
from tests.sim.stream_party import StreamParty
from tests.sim.subscribers import Churn, Subscriber
from tests.sim.swarm import plan_of
from tests.sim.topology import Topology
from tests.sim.tracing import Operator
from tests.sim.train_clients import TrainClient
from tests.sim.world import MS, SECOND, Trace, World, between

#: From so long a wait for better copies on, all are back that stopped together (ADR 0046: who did
#: not wait for a copy may not have heard what was seen).
WAITS_FOR_ALL_MS = 5_000
SETUP_LIMIT_US = 20 * SECOND
WHOLE_LIMIT_US = 25 * SECOND
REST_LIMIT_US = 20 * SECOND
CLOSING_LIMIT_US = 40 * SECOND
PROBE_LIMIT_US = 60 * SECOND
#: A pass of the scrub, a checkpoint, and a minute's pause where something could not be had at once.
MEND_LIMIT_US = 90 * SECOND


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on a seed."""

    seed: int
    #: What the run was made of, in a few lines.
    plan: str
    problems: tuple[str, ...]
    digest: str
    #: For the curious: what the run did.
    messages: int
    kills: int
    virtual_ms: int
    events: int


class Run:
    """One run. See the module's docstring."""

    def __init__(self, plan: Plan, trace: Trace, traced: bool = False) -> None:
        """`traced`: an operator traces everything."""
        self.plan = plan
        self.world = World(plan.seed, trace)
        self.cluster = Cluster(self.world, plan)
        self.ledger = self.cluster.ledger
        calm = not (plan.net.loss or plan.net.reorder or plan.net.duplicate)
        self.ledger.only_kills = (
            plan.faults.only_kills and plan.faults.kills in ("none", "single") and calm
        )
        #: Nothing happens but stops in order. Where frames are lost, publishes take their time, and
        #: are sent again, which marks them.
        self.only_stops = plan.faults.only_stops and calm
        self.topology = Topology(plan.queues, plan.exchanges)
        self.numbers = Numbers()
        hosts = self.cluster.hosts
        self.faults = Faults(
            self.world, plan.faults, hosts, self.cluster.net, self.ledger, self.is_whole,
            self.cluster.raft.on_directory_lost,
        )  # fmt: skip
        self.ledger.tells_alarms = plan.faults.full_every_us > 0
        self.faults.full.delays_matter = plan.policies is not None
        #: Where frames are lost, nothing is done within bounds.
        self.tries_alarms = self.ledger.tells_alarms and calm and plan.nodes > 1
        common = (self.world, self.ledger, hosts)
        self.setup = Setup(*common, self.topology)
        self.publishers = [
            Publisher(*common, f"p{number}", self.topology, each, self.numbers)
            for number, each in enumerate(plan.publishers)
        ]
        self.consumers = [
            Consumer(*common, f"c{number}", self.topology, each)
            for number, each in enumerate(plan.consumers)
        ]
        self.getters = [
            Getter(*common, f"g{number}", self.topology, each)
            for number, each in enumerate(plan.getters)
        ]
        self.subscribers = [
            Subscriber(*common, f"s{number}", self.topology, each)
            for number, each in enumerate(plan.subscribers)
        ]
        self.churn = Churn(*common, "churn", self.topology, self.numbers, plan.churn_rounds)
        self.party: Party | None = None
        if plan.policies is not None:
            strict = plan.faults.only_kills and calm
            slow_disks = plan.disk.slow > 0 or not plan.faults.only_kills
            self.party = Party(*common, plan.policies, self.numbers, strict, calm, slow_disks)
            self.party.book.registry.small_turns = plan.work_per_turn < limits.WORK_PER_TURN
        self.trains = TrainClient(*common, self.topology, plan.trains) if plan.trains else None
        self.operator = Operator(*common) if traced else None
        every_us = plan.moves_every_us
        self.mover = Mover(*common, every_us, plan.shapes) if every_us else None
        self.ledger.moves = every_us > 0
        self.joiner = Joiner(self.cluster, self.faults, self.is_whole) if plan.joins else None
        self.stream = StreamParty(*common, plan.stream, self.numbers) if plan.stream else None
        self.named: NamedParty | None = None
        if plan.named is not None:
            self.named = NamedParty(*common, plan.named, self.numbers)

    def go(self) -> None:
        """The whole run; problems gather in the ledger."""
        self._start()
        if not self._wait("set-up", SETUP_LIMIT_US, self._is_set_up):
            return
        if self.only_stops and not self._publish_all():
            return
        if self.tries_alarms and not self._try_alarms():
            return
        self.faults.start()
        if self.mover is not None:
            self.mover.start()
        if self.joiner is not None:
            self.joiner.start()
        self.world.run(self.world.now_us + self.plan.safety_us, self._has_problems)
        if self.ledger.problems:
            return
        if not self._wait("stops end", REST_LIMIT_US, lambda: not self.faults.stopping):
            return
        self._note("--- liveness ---")
        self.faults.heal()
        if self.stream is not None:
            self.stream.heal()
        for publisher in self._publishing():
            publisher.stopping = True
        if not self._wait("the cluster is whole", WHOLE_LIMIT_US, self.is_whole):
            return
        if not self._come_to_rest():
            return
        self._close()

    # --- phases ----------------------------------------------------------------------------------

    def _start(self) -> None:
        generator = self.world.generator("run")
        self.topology.declare_to(self.ledger, self.plan.nodes)
        for host in self.cluster.hosts:
            self.world.after(between(generator, 0, 300 * MS), host.start)
        for actor in self._actors():
            if actor in (self.mover, self.joiner):
                # What is tried before has to find queues where they are.
                continue
            actor.start(between(generator, 0, 500 * MS))

    def _actors(self) -> list[Actor]:
        return [
            self.setup, *self.publishers, *self.consumers, *self.getters, *self.subscribers,
            self.churn, *(self.party.actors if self.party is not None else ()),
            *(self.stream.actors if self.stream is not None else ()),
            *(self.named.actors if self.named is not None else ()),
            *((self.operator,) if self.operator is not None else ()),
            *((self.mover,) if self.mover is not None else ()),
            *((self.trains,) if self.trains is not None else ()),
            *((self.joiner,) if self.joiner is not None else ()),
        ]  # fmt: skip

    def _publishing(self) -> list[Actor]:
        return [
            *self.publishers, self.churn, *(self.party.senders if self.party else ()),
            *(self.stream.senders if self.stream else ()),
            *(self.named.senders if self.named else ()),
            *((self.operator,) if self.operator is not None else ()),
            *((self.mover,) if self.mover is not None else ()),
            *((self.trains,) if self.trains is not None else ()),
            *((self.joiner,) if self.joiner is not None else ()),
        ]  # fmt: skip

    def _is_set_up(self) -> bool:
        if self.stream is not None and not self.stream.setup.done:
            return False
        if self.named is not None and not self.named.setup.done:
            return False
        return self.topology.ready and (self.party is None or self.party.setup.done)

    def _try_alarms(self) -> bool:
        """One node is full, and nothing else is wrong."""
        hosts = self.cluster.hosts
        full, other = self.world.generator("probe").sample(hosts, 2)
        probe = Probe(self.world, self.ledger, hosts, full, other, self.numbers)
        if self.faults.full.delays_matter:
            number = self.ledger.fault_begins()
            probe.on_done = partial(self.ledger.fault_ends, number)
        probe.start()
        return self._wait("alarms are tried", PROBE_LIMIT_US, lambda: probe.done)

    def _publish_all(self) -> bool:
        """All is confirmed before the first stop: then it is known of each message who saw it."""
        if not self._wait(
            "all is published", REST_LIMIT_US,
            lambda: all(each.done for each in self.publishers) and self._says_what_was_seen(),
        ):  # fmt: skip
            return False
        touched = [each.queue for each in self.plan.consumers]
        touched += [each.queue for each in self.plan.getters]
        if self.plan.revive_wait_ms >= WAITS_FOR_ALL_MS:
            self.ledger.untouched = {
                queue.name: None for queue in self.plan.queues if queue.name not in touched
            }
        return True

    def _says_what_was_seen(self) -> bool:
        """Whether each node knows that all others can read it."""
        states = map(inspect_node.state_of, self.cluster.hosts)
        return all(state.map.cluster_version >= SEEN for state in states)

    def _come_to_rest(self) -> bool:
        finished = self._publishing()
        if not self._wait(
            "all confirms owed arrive", REST_LIMIT_US, lambda: all(each.done for each in finished)
        ):
            return False
        # Whoever waits for the last deliveries of these: they have this long to arrive.
        self.world.run(self.world.now_us + 500 * MS, self._has_problems)
        if self.stream is not None and not self.stream.rest(self._rests):
            return False
        if self.named is not None and not self.named.rest(self._rests):
            return False
        for actor in self._actors():
            if actor.is_blocked:
                self.ledger.broken(f"{actor.label} is blocked still, and no node is full")
        for subscriber in self.subscribers:
            subscriber.check()
        leaving: list[Actor] = [*self.consumers, *self.getters, *self.subscribers]
        if self.party is not None:
            self.party.check_served()
            leaving += self.party.workers
        for actor in leaving:
            actor.stopping = True
            actor.wake()
        return self._wait(
            "consumers leave", REST_LIMIT_US, lambda: all(each.done for each in leaving)
        )

    def _close(self) -> None:
        world, hosts = self.world, self.cluster.hosts
        # The last watches, credits and settlements cross the network.
        world.run(world.now_us + 500 * MS)
        if self.party is not None:
            self.party.rest(self._has_problems)
        apart = partial(inspect_node.lie_apart, hosts)
        if not self._wait(
            "whole, copies apart", WHOLE_LIMIT_US, lambda: self.is_whole() and apart()
        ):
            return
        self._wait("copies agree", REST_LIMIT_US, lambda: not self._differences())
        for problem in self._differences():
            self.ledger.broken(problem)
        if self.plan.scrub and not self._rot_and_mend():
            return
        queues = [name for name in self.topology.queues if self._still_there(name)]
        queues += self.churn.leftover
        policed = self.party.queues if self.party is not None else []
        counters = [
            Counter(world, self.ledger, host, [*queues, *policed], f"count-{host.name}")
            for host in hosts
        ]
        self._run_all("counting", counters)
        if self.ledger.problems:
            return
        counts = {
            name: [each.counts.get(name, -1) for each in counters] for name in (*queues, *policed)
        }
        for name, found in counts.items():
            least, most = (0, max(found)) if name in policed else self.ledger.remaining(name)
            if len(set(found)) > 1 or not least <= found[0] <= most:
                self.ledger.broken(
                    f"P5: nodes count {found} messages in {name}, wanted {least} to {most}"
                )
        self._drain(queues, policed, counts)
        if self.ledger.problems:
            return
        self.ledger.finish()
        if self.operator is not None:
            is_faultless = self.ledger.only_kills and self.plan.faults.kills == "none"
            tracing.check(self.ledger, hosts, is_faultless)
        if self.party is not None:
            self.party.finish()

    def _drain(
        self, queues: list[str], policed: Sequence[str], counts: dict[str, list[int]]
    ) -> None:
        """Drains all queues; what comes must be what was counted."""
        generator = self.world.generator("closing")
        drainers = [
            Drainer(
                self.world, self.ledger, generator.choice(self.cluster.hosts), name, f"drain-{name}"
            )
            for name in queues
        ]
        if self.party is not None:
            drainers += self.party.drainers(policed, generator)
        if self.plan.scrub:
            # What cannot be read is tried again after a while, and then fetched from other nodes.
            for drainer in drainers:
                drainer.idle_us = UNREAD_IDLE_US
        self._run_all("draining", drainers)
        if self.ledger.problems:
            return
        for drainer in drainers:
            if drainer.queue in policed and self._expires_on_disk():
                # Behind others, what has expired counts until it is read (docs/adr/0070).
                continue
            if drainer.received != counts[drainer.queue][0]:
                self.ledger.broken(
                    f"conservation: {drainer.queue} counted {counts[drainer.queue][0]} messages, "
                    f"{drainer.received} came"
                )

    def _expires_on_disk(self) -> bool:
        """Whether messages with times of their own may be on disk alone."""
        policies = self.plan.policies
        if not self.plan.stow_bytes or policies is None:
            return False
        return any(sender.expirations != (None,) for sender in policies.senders)

    def _rot_and_mend(self) -> bool:
        """What has rotted on one disk, and others have, is there again before long."""
        hosts = self.cluster.hosts
        for problem in unreadable(hosts):
            self.ledger.broken(problem)
        lost = messages_lost(hosts)
        where = rot_some(hosts, self.world.generator("rot at rest"))
        if where:
            self._note(f"rot on {where}")
            if self.stream is not None and not self.stream.read_again(self._mends):
                return False
            if not self._wait("rot is mended", MEND_LIMIT_US, lambda: not unreadable(hosts)):
                for problem in unreadable(hosts):
                    self.ledger.broken(problem)
                return False
            if messages_lost(hosts) > lost:
                self.ledger.broken(f"of what rotted on {where} some is lost, though others have it")
        return not self.ledger.problems

    def _still_there(self, name: str) -> bool:
        """A transient queue does not outlive a stop of everything (a new era)."""
        if self.plan.queues and not self.topology.queues[name].durable:
            state = inspect_node.state_of(self.cluster.hosts[0])
            there = any(key.name == name for key in state.map.queues)
            if not there and not self.ledger.memory_lost:
                self.ledger.broken(f"P6: queue {name} is gone from the map")
            return there
        return True

    # --- waiting ---------------------------------------------------------------------------------

    def is_whole(self) -> bool:
        """Everything runs, serves and is in sync."""
        return (
            self.cluster.raft.settled()
            and self.cluster.net.whole()
            and not inspect_node.why_not_whole(self.cluster.hosts)
        )

    def _differences(self) -> list[str]:
        return inspect_node.copies_that_differ(self.cluster.hosts)

    def _has_problems(self) -> bool:
        return bool(self.ledger.problems)

    def _run_all(self, what: str, actors: "list[Counter] | list[Drainer]") -> None:
        for actor in actors:
            actor.start()
        self._wait(what, CLOSING_LIMIT_US, lambda: all(each.done for each in actors))

    def _rests(self, what: str, condition: Callable[[], bool]) -> bool:
        return self._wait(what, REST_LIMIT_US, condition)

    def _mends(self, what: str, condition: Callable[[], bool]) -> bool:
        return self._wait(what, MEND_LIMIT_US, condition)

    def _wait(self, what: str, limit_us: int, condition: Callable[[], bool]) -> bool:
        """Lives until the condition holds; false, and a problem, when it does not in time."""

        def done() -> bool:
            return self._has_problems() or condition()

        deadline_us = self.world.now_us + limit_us
        reached = _run_in_steps(self.world, deadline_us, done)
        if self.ledger.problems:
            return False
        if not reached:
            why = inspect_node.why_not_whole(self.cluster.hosts)
            waiting = [each.name for each in self._actors() if not each.done]
            self.ledger.broken(
                f"liveness: after {limit_us // MS} ms not yet: {what} (cluster: "
                f"{why or 'whole'}; not finished: {waiting})"
            )
        return reached

    def _note(self, text: str) -> None:
        self.world.note("run", text)


def _run_in_steps(world: World, deadline_us: int, done: Callable[[], bool]) -> bool:
    """As `World.run`, asking every 20 ms: some conditions are costly."""
    while world.now_us < deadline_us:
        if done():
            return True
        world.run(min(world.now_us + 20 * MS, deadline_us))
    return done()


def run_seed(
    seed: int, *, lite: bool = False, echo: bool = False, digest: bool = False,
    exceptions: bool = False, repeated: bool = False, stops: bool = False, copy_all: bool = False,
    no_streams: bool = False, traced: bool = False, named: bool = False, moves: bool = False,
    joins: bool = False, retiring: bool = False, no_changes: bool = False,
) -> Result:  # fmt: skip
    """Runs one seed. An exception inside a node is a problem like any other, but for those put in.

    `exceptions`: another plan of the seed, in which they are; `repeated`: a third one, in which
    each comes again, beside kills, partitions and pauses; `stops`: one of stops in order alone;
    `copy_all`: the usual one, where no queue says what is copied; `no_streams`: without a stream;
    `no_changes`: without nodes that join, are replaced or drained, which some usual ones have;
    `named`: with publishers with names instead; `moves`: with planned moves; `joins`: with nodes
    that join; `retiring`: with fragments that come and go. `traced`: while an operator traces
    everything.
    """
    plan = plan_of(
        seed, lite=lite, exceptions=exceptions, repeated=repeated, stops=stops, copy_all=copy_all,
        no_streams=no_streams, named=named, moves=moves, joins=joins, retiring=retiring,
        no_changes=no_changes,
    )  # fmt: skip
    trace = Trace(echo=echo, digest=digest)
    run = Run(plan, trace, traced)
    try:
        run.go()
    except Exception:
        run.ledger.broken(traceback.format_exc())
    for host in run.cluster.hosts:
        if host.fatal is not None and not plan.faults.disk_fail_every_us:
            run.ledger.broken(f"{host.name} stopped itself: {host.fatal}")
    return Result(
        seed=seed,
        plan=plan.describe(),
        problems=tuple(run.ledger.problems),
        digest=trace.digest(),
        messages=run.numbers.last,
        kills=run.faults.kills,
        virtual_ms=run.world.now_us // MS,
        events=run.world.events,
    )


run_lite = partial(run_seed, lite=True)
