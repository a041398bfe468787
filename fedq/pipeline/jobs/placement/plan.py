"""Which node should lead each fragment, so that fewer messages cross between nodes.

Input: of each fragment, how many messages each node published to it and delivered from it. Output:
moves, each with what it saves. A message *crosses* once from its publisher's node to the node that
leads its fragment, and once from there to its consumer's, where these are different nodes. What
copies take is not counted: they are made wherever the primary is.

At first each fragment goes where most is saved, since two that change places need no room. Then
whatever is too much for a node is taken back, what saves least first, and goes where there is room
for it, or stays. No node is to lead more than its share of all messages, by `slack`, or than the
busiest one does as it is. A move that saves less than `least` of its fragment's messages is not
worth it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

#: The version of the form of a plan that is written here and read by `fedq cluster rebalance`.
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Flow:
    """What went through a fragment: messages by node."""

    vhost: str
    queue: str
    fragment: int
    #: Who leads it.
    leads: str
    published: Mapping[str, int] = field(default_factory=dict)
    delivered: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All that could have crossed: each message on its way in, and on its way out."""
        return sum(self.published.values()) + sum(self.delivered.values())

    def crossing(self, node: str) -> int:
        """How many crossed, or would have, had this node led it."""
        return self.total - self.published.get(node, 0) - self.delivered.get(node, 0)


@dataclass(frozen=True, slots=True)
class Move:
    """A fragment that another node should lead."""

    vhost: str
    queue: str
    fragment: int
    source: str
    target: str
    #: Messages that crossed between nodes, and that would have had the target led it.
    crossing: int
    then: int

    @property
    def saving(self) -> int:
        """How many messages fewer cross."""
        return self.crossing - self.then


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves, and what all fragments together say."""

    nodes: tuple[str, ...]
    moves: tuple[Move, ...]
    #: Messages that could have crossed, that did, and that would have had the moves been made.
    total: int
    crossing: int
    then: int
    #: What went through the fragments that each node leads: as it is, and after the moves.
    led: Mapping[str, int]
    led_then: Mapping[str, int]

    def as_json(self, trace: str) -> dict[str, Any]:
        """The form for `fedq cluster rebalance --plan`, and for scripts."""
        moves = [
            {
                "vhost": each.vhost, "queue": each.queue, "fragment": each.fragment,
                "from": each.source, "to": each.target, "crossing": each.crossing,
                "then": each.then,
            }
            for each in self.moves
        ]  # fmt: skip
        rest = asdict(self)
        del rest["moves"]
        return {"fedq_plan": VERSION, "trace": trace, **rest, "moves": moves}


def plan(flows: Sequence[Flow], nodes: Iterable[str], slack: float, least: float) -> Plan:
    """The plan for these fragments on these nodes.

    `slack`: how much more than the mean a node may lead, as a part of that; `least`: what part of
    its fragment's messages a move has to save.
    """
    able = sorted(set(nodes))
    led = dict.fromkeys(able, 0)
    for flow in flows:
        if flow.leads in led:
            led[flow.leads] += flow.total
    limit = max((1 + slack) * sum(led.values()) / max(len(able), 1), *led.values(), 0)
    wishes = [
        _Wish(saving, flow, node)
        for flow in flows
        for node in able
        if flow.leads in led and (saving := flow.crossing(flow.leads) - flow.crossing(node)) > 0
        if saving >= least * flow.total
    ]
    wishes.sort(key=lambda each: (-each.saving, each.flow.fragment, each.node))
    then = dict(led)
    chosen = _chosen(wishes, then, limit)
    moves = [
        Move(
            flow.vhost, flow.queue, flow.fragment, flow.leads, node, flow.crossing(flow.leads),
            flow.crossing(node),
        )
        for _, flow, node in sorted(chosen.values(), key=lambda each: -each.saving)
    ]  # fmt: skip
    crossing = sum(flow.crossing(flow.leads) for flow in flows)
    saved = sum(each.saving for each in moves)
    return Plan(
        tuple(able), tuple(moves), sum(flow.total for flow in flows), crossing,
        crossing - saved, led, then,
    )  # fmt: skip


class _Wish(NamedTuple):
    """A fragment, where it could be led, and what that saves."""

    saving: int
    flow: Flow
    node: str


def _chosen(wishes: list[_Wish], led: dict[str, int], limit: float) -> dict[int, _Wish]:
    """The wishes that are granted, by fragment; `led` is what each node leads with them.

    `wishes`: the best ones first.
    """
    chosen: dict[int, _Wish] = {}
    for wish in wishes:
        if wish.flow.fragment not in chosen:
            _grant(chosen, led, wish)
    while over := [each for each in reversed(chosen.values()) if led[each.node] > limit]:
        for wish in over:
            # What is taken back may make its old node too busy for what came there.
            if led[wish.node] > limit:
                _grant(chosen, led, wish, back=True)
    for wish in wishes:
        if wish.flow.fragment not in chosen and led[wish.node] + wish.flow.total <= limit:
            _grant(chosen, led, wish)
    return chosen


def _grant(chosen: dict[int, _Wish], led: dict[str, int], wish: _Wish, back: bool = False) -> None:
    """Grants a wish, or takes it back."""
    total = -wish.flow.total if back else wish.flow.total
    led[wish.flow.leads] -= total
    led[wish.node] += total
    if back:
        del chosen[wish.flow.fragment]
    else:
        chosen[wish.flow.fragment] = wish
