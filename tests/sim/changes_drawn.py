"""What changes a run's cluster: an operator who drains and moves, nodes that join or are replaced.

And, beside these, a client that declares and deletes many queues at once.

Input: the plan of a seed. Output: the same with changes, drawn with dice of their own, so that what
else the seed is made of stays.
"""

from dataclasses import replace
from typing import Final

from fedq.core.seeds import derive
from tests.sim.actors_drawn import chance
from tests.sim.plan import Plan
from tests.sim.world import MS

#: The share of the usual seeds in which a cluster changes, and of these those in which a node dies
#: for good: until it is missed, and replaced, takes a while.
_SHARE: Final = 0.35
_REPLACED_SHARE: Final = 0.15
#: How much longer such a run is.
_MISSED_US: Final = 8_000 * MS


def with_moves(plan: Plan) -> Plan:
    """The plan, of several nodes, with an operator who drains and moves."""
    dice = derive(plan.seed, "moves")
    nodes = plan.nodes if plan.nodes > 1 else 3
    every_us = dice.choice((100, 400, 1_000)) * MS
    return _draw_hosts(replace(plan, nodes=nodes, moves_every_us=every_us))


def with_joins(plan: Plan, lite: bool) -> Plan:
    """The plan, in which nodes join, and in some are taken out and replaced."""
    dice = derive(plan.seed, "joins")
    # What a directory of before has forgotten is tried without changes of who elects.
    faults = replace(plan.faults, restore=0.0, rot=0.0)
    replaced, joins = 0 if lite else dice.choice((0, 1, 1)), dice.choice((1, 2, 3))
    # Whoever is to be replaced needs time to be missed.
    safety_us = plan.safety_us + (_MISSED_US if replaced else 0)
    # Beyond five they observe, and take the places of those who are away.
    away = derive(plan.seed, "voters")
    plan = replace(
        plan, faults=faults, safety_us=safety_us, joins=joins, replaced=replaced,
        replace_voter_ms=away.choice((0, 200, 1_000, 3_000)),
    )  # fmt: skip
    return _draw_hosts(plan)


def draw_changes(plan: Plan, lite: bool) -> Plan:
    """The usual plan of a seed, whose cluster grows, shrinks or is rearranged in some runs."""
    dice = derive(plan.seed, "changes")
    if not chance(dice, _SHARE):
        return plan
    kind = dice.choice(("moves", "joins", "both"))
    changed = plan
    if kind != "joins" and plan.nodes > 1:
        # Lengths and orders of queues with policies are judged in one place.
        changed = replace(with_moves(changed), shapes=plan.policies is None and chance(dice, 0.5))
    # Directories of before, and who elects, are tried apart.
    if kind != "moves" and not (plan.faults.restore or plan.faults.rot):
        changed = with_joins(changed, lite)
        if changed.replaced and not chance(dice, _REPLACED_SHARE):
            changed = replace(changed, replaced=0, safety_us=plan.safety_us)
    return replace(changed, trains=derive(plan.seed, "trains").choice((0, 4, 12)))


def _draw_hosts(plan: Plan) -> Plan:
    """Hosts with several nodes, with dice of their own."""
    dice = derive(plan.seed, "hosts")
    return replace(plan, hosts=dice.choice((2, 3))) if chance(dice, 0.5) else plan
