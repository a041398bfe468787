"""Draws what a run is made of: cluster, faults and programs, all from the seed.

A run that uses every fault at once finds little, because each hides the others. So most faults are
absent from most runs, and the dice that decide come first.
"""

from dataclasses import replace
from typing import Final

from fedq.core import limits
from fedq.core.seeds import Rng, derive
from tests.sim.actors_drawn import (
    chance,
    draw_consumers,
    draw_exchanges,
    draw_getters,
    draw_publishers,
    draw_queues,
    draw_subscribers,
)
from tests.sim.changes_drawn import draw_changes, with_joins, with_moves
from tests.sim.clients import ConsumerPlan, PublisherPlan
from tests.sim.disk import DiskOptions
from tests.sim.named_plans import draw_publishers as draw_named_publishers
from tests.sim.net import NetOptions
from tests.sim.plan import FaultPlan, Plan
from tests.sim.policies import draw_policies
from tests.sim.raft import RaftOptions
from tests.sim.streams import draw_age, draw_askers, draw_fragments, draw_stream
from tests.sim.world import MS, SECOND

#: So many bytes a publisher has at most that is given more messages.
_BYTES_MORE_MAX: Final = 2_000_000


def draw(
    seed: int, lite: bool = False, copy_all: bool = False, no_streams: bool = False,
    no_changes: bool = False,
) -> Plan:  # fmt: skip
    """The plan of a seed. `lite`: no faults at all, and a smaller run.

    `copy_all`: no queue says what is copied; as it was before any could. `no_streams`: as it was
    before there were any. `no_changes`: as it was before clusters changed in usual runs, which is
    so of the former two, too.
    """
    plan = _draw_queues_alone(seed, lite, copy_all)
    plan = plan if copy_all or no_streams else _draw_stream(plan, lite)
    plan = _draw_retiring(_draw_alarms(plan, lite))
    return plan if copy_all or no_streams or no_changes else draw_changes(plan, lite)


def draw_moves(seed: int, lite: bool = False) -> Plan:
    """The usual plan of the seed, of several nodes, with an operator who drains and moves."""
    return with_moves(draw(seed, lite, no_changes=True))


def draw_joins(seed: int, lite: bool = False) -> Plan:
    """The usual plan of the seed, in which nodes join, and in some are taken out and replaced."""
    return with_joins(draw(seed, lite, no_changes=True), lite)


def draw_retiring(seed: int, lite: bool = False) -> Plan:
    """The usual plan of the seed, of several nodes, with publishers that come, pause and go.

    So fragments come, and are retired.
    """
    plan = draw(seed, lite, no_changes=True)
    if plan.policies is not None:
        # Most of those ask for one place.
        plan = _draw_alarms(_draw_stowing(_draw_plain(seed, lite)), lite)
    dice = derive(seed, "all retiring")
    publishers = tuple(
        replace(
            each, gap_us=dice.choice((each.gap_us, 60 * MS, 150 * MS, 300 * MS)),
            burst=max(each.burst, 6), messages=_more(each, dice.choice((60, 300))),
            session_bursts=dice.choice((0, 2, 4)),
            vanish=0.0 if lite else max(each.vanish, dice.choice((0.0, 0.3, 0.6))),
        )
        for each in plan.publishers
    )  # fmt: skip
    queues = tuple(replace(each, fragments=int(each.fragments == 1)) for each in plan.queues)
    return replace(
        plan, nodes=plan.nodes if plan.nodes > 1 else 3, fragment_threshold=dice.choice((1, 5)),
        retire_idle_ms=dice.choice((50, 100, 200)), publishers=publishers, queues=queues,
        safety_us=plan.safety_us + 2 * SECOND,
    )  # fmt: skip


def _more(publisher: PublisherPlan, wanted: int) -> int:
    """So many messages, or fewer large ones: whole disks are looked through at the end."""
    return max(publisher.messages, min(wanted, _BYTES_MORE_MAX // max(publisher.body_bytes, 1)))


def draw_named(seed: int, lite: bool = False) -> Plan:
    """The usual plan of the seed, with publishers with names in place of a stream."""
    plan = draw(seed, lite, no_streams=True)
    # What a disk alone has lost nobody can recognise.
    rot = plan.faults.rot if plan.nodes > 1 else 0.0
    faults = replace(plan.faults, restore=0.0, disk_fail_every_us=0, rot=rot)
    if not lite and chance(derive(seed, "named kills"), 0.6):
        faults = FaultPlan(kills="single", kill_every_us=400 * MS)
    named = draw_named_publishers(seed, plan.nodes, plan.safety_us, lite)
    return replace(plan, faults=faults, named=named)


def _draw_stream(plan: Plan, lite: bool) -> Plan:
    """A stream in some runs, with dice of its own; not where disks fail, or come back old.

    Where they rot it has copies.
    """
    faults = plan.faults
    if plan.policies is not None or faults.restore or faults.disk_fail_every_us:
        return plan
    if faults.rot and plan.nodes == 1:
        return plan
    stream = draw_stream(plan.seed, lite, plan.safety_us)
    if stream is None:
        return plan
    dice = derive(plan.seed, "stowed stream")
    if not plan.stow_bytes and chance(dice, 0.8):
        ahead = dice.choice((1, 200, 2_000))
        plan = replace(plan, stow_bytes=1, read_ahead_bytes=ahead)
    stream = draw_fragments(draw_askers(stream, plan.seed), plan.seed)
    stream = draw_age(stream, plan.seed, lite, plan.safety_us)
    if faults.rot and stream.replicas == 1:
        stream = replace(stream, replicas=2)
    return replace(plan, stream=stream)


def _draw_queues_alone(seed: int, lite: bool, copy_all: bool) -> Plan:
    """The plan without a stream."""
    plan = _draw_plain(seed, lite)
    plan = plan if copy_all else _draw_stowing(_draw_modes(plan, lite))
    plan = _draw_scrub(_draw_rot(plan, lite))
    policies = draw_policies(seed, plan.nodes, plan.safety_us, lite, copy_all)
    if policies is None:
        dice = derive(seed, "restored")
        if not lite and plan.faults.kills in ("single", "all_stop") and chance(dice, 0.5):
            return replace(plan, faults=replace(plan.faults, restore=dice.choice((0.5, 0.9))))
        return plan
    if policies.kills is not None and not lite:
        faults = FaultPlan(policies.kills, 500 * MS)
        net = replace(plan.net, loss=0.0, duplicate=0.0, reorder=0.0)
        plan = replace(plan, faults=faults, net=net, disk=replace(plan.disk, power_cut=1.0))
    return replace(
        plan, policies=policies, queues=(), exchanges=(), publishers=(), consumers=(), getters=(),
        subscribers=(), churn_rounds=0,
    )  # fmt: skip


def _draw_modes(plan: Plan, lite: bool) -> Plan:
    """What of the queues is copied, with dice of its own."""
    dice = derive(plan.seed, "modes")
    if not chance(dice, 0.3):
        return plan
    queues = []
    for queue in plan.queues:
        mode = dice.choice(("", "all", "persistent", "persistent", "persistent", "none"))
        replicas = min(queue.replicas, 1) if mode == "none" else queue.replicas
        queues.append(replace(queue, mode=mode, replicas=replicas))
    publishers = tuple(
        replace(each, persistent=dice.choice((0.0, 0.5, 0.5, 0.9))) for each in plan.publishers
    )
    plan = replace(plan, queues=tuple(queues), publishers=publishers)
    if lite or plan.nodes == 1 or not chance(dice, 0.4):
        return plan
    # What waits while single processes die shows best what they took with them.
    faults = FaultPlan(kills="single", kill_every_us=dice.randint(800, 1_800) * MS)
    return replace(plan, faults=faults, consumers=(), getters=())


def _draw_stowing(plan: Plan) -> Plan:
    """Lines so long for their memory that bodies are on disk alone, with dice of their own."""
    dice = derive(plan.seed, "stowed")
    if not chance(dice, 0.5):
        return plan
    ahead = dice.choice((1, 200, 2_000))
    return replace(plan, stow_bytes=dice.choice((1, 1, 20_000)), read_ahead_bytes=ahead)


def _draw_alarms(plan: Plan, lite: bool) -> Plan:
    """Nodes that are full for a while, with dice of their own."""
    dice = derive(plan.seed, "alarms")
    if lite or not chance(dice, 0.25):
        return plan
    faults = replace(plan.faults, full_every_us=dice.randint(500, 1_500) * MS)
    return replace(plan, faults=faults)


def _draw_retiring(plan: Plan) -> Plan:
    """Fragments that are retired soon in a part of the runs, with dice of their own."""
    dice = derive(plan.seed, "retiring")
    if plan.nodes == 1 or not chance(dice, 0.5):
        return plan
    return replace(plan, retire_idle_ms=dice.choice((50, 200, 500)))


def _draw_rot(plan: Plan, lite: bool) -> Plan:
    """Disks that give back something else than what was written, with dice of their own."""
    dice = derive(plan.seed, "rot")
    if lite or plan.faults.kills not in ("single", "all_stop") or not chance(dice, 0.4):
        return plan
    # Whole copies are waited for as long as a run lasts: they all return.
    faults = replace(plan.faults, rot=dice.choice((0.5, 0.9)))
    plan = replace(plan, faults=faults, revive_wait_ms=120_000)
    if plan.nodes == 1 or not chance(dice, 0.6):
        return plan
    # Stops of all are rare enough for every copy to be in sync again, and find something to lose.
    every_us = dice.randint(1_500, 3_000) * MS
    safety_us = max(plan.safety_us, 3 * every_us)
    publishers = tuple(
        replace(each, messages=150, burst=1, gap_us=safety_us // 150, persistent=1.0, body_bytes=10)
        for each in plan.publishers
    )
    return replace(
        plan, faults=FaultPlan("all_stop", every_us, rot=1.0), consumers=(), getters=(),
        safety_us=safety_us, publishers=publishers,
    )  # fmt: skip


def _draw_scrub(plan: Plan) -> Plan:
    """Disks that rot at rest, where more than one node can be asked, with dice of their own."""
    dice = derive(plan.seed, "scrub")
    if plan.nodes == 1 or not chance(dice, 0.3):
        return plan
    return replace(plan, scrub=True, segment_bytes=dice.choice((1_000, 2_000, 2_000, 20_000)))


def draw_exceptions(seed: int) -> Plan:
    """The plan of a run in which nodes fail at what they work on, and nothing else goes wrong."""
    plan = _draw_stowing(_draw_plain(seed, True))
    return replace(plan, safety_us=6 * SECOND, faults=FaultPlan(exception_every_us=800 * MS))


def draw_repeated(seed: int) -> Plan:
    """Nodes fail again and again where they have failed, and processes and links fail besides."""
    plan = _draw_stowing(_draw_plain(seed, True))
    dice = derive(seed, "repeated exceptions")
    faults = FaultPlan(
        dice.choice(("none", "single", "single")), 1_500 * MS,
        partition_every_us=dice.choice((0, 1_500 * MS)),
        pause_every_us=dice.choice((0, 1_500 * MS)),
        exception_every_us=800 * MS, exception_repeats=dice.choice((0, 1, 3)),
    )  # fmt: skip
    return replace(plan, safety_us=6 * SECOND, faults=faults)


def draw_stops(seed: int) -> Plan:
    """The plan of a run in which all nodes are stopped in order, and nothing else goes wrong."""
    plan = _draw_stowing(_draw_plain(seed, True))
    consumers = tuple(replace(each, no_ack=False) for each in plan.consumers)
    faults = FaultPlan(stop_all_every_us=derive(seed, "stops").randint(2_000, 5_000) * MS)
    return replace(
        plan, safety_us=10 * SECOND, faults=faults, consumers=consumers, subscribers=(),
        churn_rounds=0, revive_wait_ms=5_000,
    )  # fmt: skip


def _draw_plain(seed: int, lite: bool) -> Plan:
    generator = derive(seed, "swarm")
    nodes = generator.choice((1, 2, 3, 3, 3, 3, 3, 5))
    faults = FaultPlan() if lite else _draw_faults(generator, nodes)
    if not lite:
        faults = _draw_rare_faults(derive(seed, "rare faults"), faults, nodes)
    queues = draw_queues(generator)
    exchanges = draw_exchanges(generator, queues)
    getters = draw_getters(generator, queues)
    safety_us = generator.randint(1_500, 2_500 if lite else 6_000) * MS
    got = [getter.queue for getter in getters if getter.alone]
    eaten = [q for q in queues if q.name not in got]
    return Plan(
        seed=seed,
        nodes=nodes,
        zones=generator.choice((1, 1, 2, 3)),
        safety_us=safety_us,
        fragment_threshold=generator.choice((5, 20, 1_000, 1_000)),
        replace_backup_ms=generator.choice((500, 2_000, 5_000)),
        revive_wait_ms=derive(seed, "revive").choice((0, 2_000, 5_000)),
        work_per_turn=derive(seed, "work").choice((1, 5, 30, 200, *[limits.WORK_PER_TURN] * 4)),
        segment_bytes=generator.choice((2_000, 20_000, 64 * 1024 * 1024)),
        net=_draw_net(generator, lite),
        disk=_draw_disk(generator, faults, lite),
        raft=_draw_raft(generator, lite),
        faults=faults,
        queues=queues,
        exchanges=exchanges,
        publishers=draw_publishers(generator, queues, exchanges, lite, safety_us),
        consumers=(
            *draw_consumers(generator, eaten, lite),
            # A pause between deciding and saying is felt where somebody else takes over at once.
            *(
                ConsumerPlan(queue.name, prefetch, no_ack=False, work_us=5 * MS)
                for queue in eaten
                for prefetch in (1, 10, 50)
                if faults.pause_in_turn_every_us
            ),
        ),
        getters=getters,
        subscribers=draw_subscribers(generator, exchanges, lite),
        churn_rounds=generator.choice((0, 0, 2, 4)),
    )


def _draw_faults(generator: Rng, nodes: int) -> FaultPlan:
    if chance(generator, 0.15):
        return FaultPlan()
    kills = generator.choice(("none", "single", "single", "all_stop", "reckless"))
    kill_every_us = generator.randint(300, 1_800) * MS
    if kills != "none" and chance(generator, 0.4):
        # Nothing but kills: then the ledger excuses least.
        return FaultPlan(kills=kills, kill_every_us=kill_every_us)

    def every(probability: float, low: int, high: int) -> int:
        return generator.randint(low, high) * MS if chance(generator, probability) else 0

    return FaultPlan(
        kills=kills,
        kill_every_us=kill_every_us,
        partition_every_us=every(0.3, 800, 3_000) if nodes > 1 else 0,
        one_way=generator.choice((0.0, 0.3)),
        clog_every_us=every(0.15, 300, 2_000) if nodes > 1 else 0,
        break_every_us=every(0.2, 200, 2_000) if nodes > 1 else 0,
        pause_every_us=every(0.15, 800, 3_000),
        disk_stall_every_us=every(0.15, 800, 3_000),
        disk_fail_every_us=every(0.1, 1_500, 4_000) if kills == "reckless" else 0,
    )


def _draw_rare_faults(generator: Rng, faults: FaultPlan, nodes: int) -> FaultPlan:
    """With dice of their own, so that all other seeds keep their histories."""
    if not chance(generator, 0.15):
        return faults
    kind = generator.choice(("pause in turn", "stop", "hang"))
    every_us = generator.randint(800, 2_500) * MS
    if kind == "stop" and (nodes == 1 or chance(generator, 0.5)):
        return replace(faults, stop_all_every_us=2 * every_us)
    if nodes == 1:
        return faults
    if kind == "pause in turn":
        return replace(faults, pause_in_turn_every_us=every_us)
    if kind == "stop":
        return replace(faults, stop_every_us=every_us)
    return replace(faults, disk_hang_every_us=every_us)


def _draw_net(generator: Rng, lite: bool) -> NetOptions:
    bad = not lite and chance(generator, 0.25)
    return NetOptions(
        delay_us_max=generator.choice((500, 1_500, 1_500, 10_000, 40_000)),
        loss=generator.choice((0.0, 0.01, 0.05)) if bad else 0.0,
        duplicate=generator.choice((0.0, 0.05)) if bad else 0.0,
        reorder=generator.choice((0.0, 0.05)) if bad else 0.0,
        encoded=chance(generator, 0.2),
    )


def _draw_disk(generator: Rng, faults: FaultPlan, lite: bool) -> DiskOptions:
    return DiskOptions(
        sync_us_max=generator.choice((500, 3_000, 3_000, 20_000)),
        slow=generator.choice((0.0, 0.0, 0.02)) if not lite else 0.0,
        slow_us=generator.randint(50, 500) * MS,
        power_cut=generator.choice((0.0, 0.5, 1.0)),
    )


def _draw_raft(generator: Rng, lite: bool) -> RaftOptions:
    return RaftOptions(
        commit_us_max=generator.choice((12, 12, 60)) * MS,
        loss=generator.choice((0.0, 0.0, 0.05)) if not lite else 0.0,
        duplicate=generator.choice((0.0, 0.0, 0.1)) if not lite else 0.0,
        snapshot_every_us=generator.choice((0, 300 * MS, 1 * SECOND)),
        snapshot_lag=generator.choice((3, 20)),
    )


def plan_of(
    seed: int, *, lite: bool = False, exceptions: bool = False, repeated: bool = False,
    stops: bool = False, copy_all: bool = False, no_streams: bool = False, named: bool = False,
    moves: bool = False, joins: bool = False, retiring: bool = False, no_changes: bool = False,
) -> Plan:  # fmt: skip
    """The seed's plan of one kind (see `tests.sim.run.run_seed`); the usual one by default."""
    if repeated:
        return draw_repeated(seed)
    if stops:
        return draw_stops(seed)
    if named:
        return draw_named(seed, lite)
    if moves:
        return draw_moves(seed, lite)
    if joins:
        return draw_joins(seed, lite)
    if retiring:
        return draw_retiring(seed, lite)
    if exceptions:
        return draw_exceptions(seed)
    return draw(seed, lite, copy_all, no_streams, no_changes)
