"""Faults keep the terms of their plan at the moment they strike, not when they are planned."""

from dataclasses import replace

import pytest

from tests.sim import inspect_node
from tests.sim.checkers import Ledger
from tests.sim.faults import Faults
from tests.sim.net import NetOptions
from tests.sim.node_host import Host
from tests.sim.plan import FaultPlan
from tests.sim.run import Run
from tests.sim.swarm import draw, draw_stops
from tests.sim.test_world import Small
from tests.sim.world import MS, SECOND, Trace


def none_elsewhere(_: Host) -> int:
    return 0


@pytest.mark.parametrize(
    ("kills", "whole", "dies", "lost"),
    [
        ("single", [True], False, False),
        ("single", [True, True], True, False),
        ("reckless", [True], True, True),
        ("reckless", [True, True], True, False),
    ],
)
def test_a_kill_is_judged_anew_when_it_strikes(
    monkeypatch: pytest.MonkeyPatch, kills: str, whole: list[bool], dies: bool, lost: bool
) -> None:
    """Between the plan and the confirm that a kill waits for, an in-sync set may have shrunk."""
    monkeypatch.setattr(inspect_node, "deliveries_elsewhere", none_elsewhere)
    small = Small()
    small.live(300 * MS)
    ledger = Ledger(small.world)
    plan = FaultPlan(kills=kills, kill_every_us=30 * SECOND)
    hosts = list(small.hosts.values())
    answers = iter(whole)
    faults = Faults(small.world, plan, hosts, small.net, ledger, lambda: next(answers, False))
    faults.start()
    small.live(30 * SECOND)
    assert bool(ledger.crashes_us) is dies
    assert (ledger.copies_lost, ledger.memory_lost) == (lost, lost)
    # Spared or started again: all run, and the fault is over.
    small.live(5 * SECOND)
    assert all(host.alive for host in hosts)


def whole() -> bool:
    return True


def is_planned(ledger: Ledger) -> bool:
    """Whether a kill waits for the next confirm."""
    return ledger.on_confirm is not None


@pytest.mark.parametrize(
    ("plan", "dies", "lost"),
    [
        (FaultPlan("single", 30 * SECOND), False, False),
        (FaultPlan("reckless", 30 * SECOND), True, True),
        (FaultPlan(stop_every_us=30 * SECOND), False, False),
    ],
)
def test_a_node_that_is_being_stopped_is_the_one_that_goes(
    monkeypatch: pytest.MonkeyPatch, plan: FaultPlan, dies: bool, lost: bool
) -> None:
    """Until it has ended the cluster is whole; then its memory is gone, as that of a killed one."""
    monkeypatch.setattr(inspect_node, "deliveries_elsewhere", none_elsewhere)
    small = Small()
    small.live(300 * MS)
    ledger = Ledger(small.world)
    hosts = list(small.hosts.values())
    faults = Faults(small.world, plan, hosts, small.net, ledger, whole)
    hosts[0].stopping = True
    faults.start()
    small.live(30 * SECOND)
    assert bool(ledger.crashes_us) is dies
    assert (ledger.copies_lost, ledger.memory_lost) == (lost, lost)


def test_a_kill_that_was_planned_spares_a_cluster_of_which_a_node_is_stopped_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inspect_node, "deliveries_elsewhere", none_elsewhere)
    small = Small()
    small.live(300 * MS)
    ledger = Ledger(small.world)
    hosts = list(small.hosts.values())
    faults = Faults(small.world, FaultPlan("single", 1 * SECOND), hosts, small.net, ledger, whole)
    faults.start()
    while not is_planned(ledger):
        small.live(1 * MS)
    struck = len(ledger.crashes_us)
    next(host for host in hosts if host.alive).stopping = True
    small.live(5 * SECOND)
    assert not is_planned(ledger)
    assert len(ledger.crashes_us) == struck


def test_a_cluster_is_not_whole_before_all_are_of_the_era() -> None:
    """What is not durable ends with the last process of its era, however many are up."""
    run = Run(draw(1, lite=True), Trace())
    for host in run.cluster.hosts:
        host.start()
    run.world.run(10 * SECOND, run.is_whole)
    assert not inspect_node.why_not_whole(run.cluster.hosts)
    last = run.cluster.hosts[-1]
    for host in run.cluster.hosts:
        del inspect_node.state_of(host).map.era[last.name]
    assert inspect_node.why_not_whole(run.cluster.hosts) == f"{last.name} is not of the era yet"


def test_a_cluster_is_not_whole_while_a_copy_has_failed() -> None:
    """It has what was confirmed and no more, and the map names it in sync for some time yet."""
    run = Run(draw(1, lite=True), Trace())
    run.go()
    assert run.is_whole()
    states = [inspect_node.state_of(host) for host in run.cluster.hosts]
    backup = next(backup for state in states for backup in state.backups.values())
    backup.failed = True
    assert "has failed" in inspect_node.why_not_whole(run.cluster.hosts)


@pytest.mark.parametrize("others", [True, False])
def test_a_stop_that_is_cut_short_is_a_loss_where_it_has_the_last_copy(others: bool) -> None:
    """It waited for a second copy, as it should: to kill it then is to lose both at once."""
    run = Run(draw(1, lite=True), Trace())
    run.go()
    first, *rest = run.cluster.hosts
    assert rest
    assert run.is_whole()
    assert not run.ledger.copies_lost
    if not others:
        for host in rest:
            host.crash("killed")
    first.stopping = True
    run.faults.heal()
    assert (run.ledger.copies_lost, run.ledger.memory_lost) == (not others, not others)


@pytest.mark.parametrize("others", [True, False])
def test_a_stop_that_can_wait_for_no_other_copy_goes_with_the_last_one(others: bool) -> None:
    """It may not serve any more, and so does not wait: what it has in memory is in no other."""
    run = Run(draw(1, lite=True), Trace())
    run.go()
    first, *rest = run.cluster.hosts
    if not others:
        for host in rest:
            host.crash("killed")
        over_us = run.world.now_us + 20 * SECOND
        run.world.run(over_us, lambda: not inspect_node.state_of(first).serving)
    run.faults.stop(first)
    run.world.run(run.world.now_us + 20 * SECOND, lambda: not first.alive)
    assert not first.alive
    assert (run.ledger.copies_lost, run.ledger.memory_lost) == (not others, not others)


@pytest.mark.parametrize("net", [NetOptions(), NetOptions(loss=0.01), NetOptions(reorder=0.01)])
def test_where_frames_are_lost_stops_are_not_all_that_happens(net: NetOptions) -> None:
    """What is sent again is marked, though nobody saw it."""
    run = Run(replace(draw_stops(1), net=net), Trace())
    assert run.only_stops is (net == NetOptions())
