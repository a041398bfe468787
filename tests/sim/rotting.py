"""Rot at rest: bits of what disks were given long ago are others, and are to be mended.

Inputs: hosts whose copies agree. Outputs: which durable messages a node's own disk cannot produce;
flipped bits, and sectors that cannot be read, of one node, in messages that other nodes have, too.
Nothing else is touched, and no process is told.
"""

from collections.abc import Iterator, Sequence

from fedq.core.ids import FragmentId
from fedq.core.ranges import from_ranges
from fedq.core.seeds import Rng
from fedq.journal.bodies import messages_in
from fedq.journal.places import Place
from fedq.journal.rot import is_full, mark_of
from fedq.node.copies.held import Held, alive_in, is_in_journal
from tests.sim.inspect_node import state_of
from tests.sim.node_host import Host

#: So many messages of a disk rot at most.
_HITS_MAX = 3
#: How many of them are sectors.
_SECTORS = 0.4


def unreadable(hosts: Sequence[Host]) -> list[str]:
    """What should be on disks, and is at none of the places where it may be."""
    problems: list[str] = []
    for host in hosts:
        for fragment, held in _copies(host):
            gone = [
                position
                for position in _persistent(held)
                if _find(host, fragment, position) is None
            ]
            if gone:
                problems.append(f"fragment {fragment}: {host.name} cannot read {gone[:10]}")
    return problems


def messages_lost(hosts: Sequence[Host]) -> int:
    """How many messages nodes have given up as unreadable."""
    return sum(state_of(host).messages_lost for host in hosts)


def rot_some(hosts: Sequence[Host], dice: Rng) -> str:
    """Has bits of one disk flip, in full segments; returns whose and where, or nothing."""
    marks: dict[str, list[tuple[FragmentId, int, Place, bytes]]] = {}
    for host in hosts:
        state = state_of(host)
        for fragment, held in _copies(host):
            if len(state.map.fragments[fragment].in_sync) < 2:
                continue
            for position in _persistent(held):
                found = _find(host, fragment, position)
                if found is not None and is_full(state.plan, found[0].segment):
                    marks.setdefault(host.name, []).append((fragment, position, *found))
    if not marks:
        return ""
    name = dice.choice(sorted(marks))
    host = next(each for each in hosts if each.name == name)
    hits = [dice.choice(marks[name]) for _ in range(dice.randint(1, _HITS_MAX))]
    told = [
        f"{position} of fragment {fragment} in segment {place.segment}"
        for fragment, position, place, body in hits
        if (_spoil if dice.random() < _SECTORS else _flip)(
            host, fragment, position, place, body, dice
        )
    ]
    return f"{name}: {', '.join(told)}"


def _flip(
    host: Host, fragment: FragmentId, position: int, place: Place, body: bytes, dice: Rng
) -> bool:
    """Flips a bit in the very bytes of a message, if it has not rotted yet."""
    data = host.disk.segments[place.segment]
    offset, bit = dice.randint(0, len(body) - 1), 1 << dice.randint(0, 7)
    at = data.find(body, place.offset)
    while at >= 0:
        data[at + offset] ^= bit
        piece = bytes(data[place.offset : place.offset + place.length])
        if position not in messages_in(piece, fragment, position, position)[0]:
            return True
        # Another fragment has a message of the same bytes.
        data[at + offset] ^= bit
        at = data.find(body, at + 1)
    return False


def _spoil(
    host: Host, fragment: FragmentId, position: int, place: Place, body: bytes, dice: Rng
) -> bool:
    """Makes a sector with some of a message unreadable, if others have all that lies there."""
    at = host.disk.segments[place.segment].find(body, place.offset)
    if at < 0:
        return False
    first = at + dice.randint(0, len(body) - 1)
    host.disk.spoil(place.segment, first, first + 1)
    fragments = state_of(host).map.fragments
    for each, held in _copies(host):
        alone = len(fragments[each].in_sync) < 2
        if alone and any(_find(host, each, p) is None for p in _persistent(held)):
            host.disk.mend_last(place.segment)
            return False
    return _find(host, fragment, position) is None


def _copies(host: Host) -> Iterator[tuple[FragmentId, Held]]:
    state = state_of(host)
    held: dict[FragmentId, Held] = {**state.primaries, **state.backups}
    return ((fragment, each) for fragment, each in held.items() if is_in_journal(each))


def _persistent(held: Held) -> Iterator[int]:
    return (position for found in alive_in(held) for position in from_ranges(found.ranges))


def _find(host: Host, fragment: FragmentId, position: int) -> tuple[Place, bytes] | None:
    """Where the host's disk has a message, and the message."""
    plan = state_of(host).plan
    for place in plan.locate_all(fragment, position):
        piece = host.disk.piece(place.segment, place.offset, place.length)
        mark = mark_of(plan, fragment, place.segment)
        found = messages_in(piece, fragment, position, position, mark)[0]
        if position in found:
            return place, found[position]
    return None
