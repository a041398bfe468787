"""Looks into living nodes: the one place that knows where `Node` keeps what the checkers compare.

Inputs: hosts. Outputs: sentences about what does not fit, and whether a cluster is whole.
"""

from collections.abc import Mapping, Sequence

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.message import is_persistent
from fedq.core.policy import QUARANTINED
from fedq.core.ranges import from_ranges
from fedq.fragments.fragment import Fragment
from fedq.fragments.publishers.known_publishers import marks_of
from fedq.journal.bodies import messages_in
from fedq.journal.records import NOTE_CAME, NOTE_DEAD, NOTE_DUE, NOTES
from fedq.node.node import Node
from fedq.node.records.roles import Backup, Primary
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.state import FragmentInfo
from tests.sim.node_host import Host


def state_of(host: Host) -> NodeState:
    """The state of a running node."""
    assert isinstance(host.machine, Node)
    return host.machine.state


class OnDisk:
    """What a node has on its disk: in its journal, and in scratch files."""

    def __init__(self, host: Host) -> None:
        self.recovered = host.recover()
        self._scratch = {number: bytes(data) for number, data in host.disk.scratch.items()}
        self._index = state_of(host).scratch

    def bodies_of(self, fragment: FragmentId) -> Mapping[int, bytes]:
        """The messages of a fragment that can be read, by position."""
        found = self.recovered.fragments.get(fragment)
        bodies = dict(found.messages) if found is not None else {}
        for place in self._index.all_of(fragment):
            data = self._scratch[place.segment][place.offset : place.offset + place.length]
            bodies |= messages_in(data, fragment, place.first, place.last)[0]
        return bodies


def why_not_whole(hosts: Sequence[Host]) -> str:
    """Why not everything runs, serves and is in sync; "" when it does.

    Whole means: every node up in every map, of its era, and serving, all maps at the same version,
    every fragment with as many copies in sync as it can have. Who is not of the era yet does not
    keep what is not durable when all others go (ADR 0010).
    """
    for host in hosts:
        if not host.alive:
            return f"{host.name} is down"
        if host.paused:
            return f"{host.name} hangs"
    states = [state_of(host) for host in hosts]
    versions = {state.map.version for state in states}
    if len(versions) > 1:
        return f"map versions {sorted(versions)}"
    for state in states:
        if not state.serving:
            return f"{state.me} does not serve"
    cluster_map = states[0].map
    for host in hosts:
        member = cluster_map.members.get(host.name)
        if member is None or not member.up or member.incarnation != host.incarnation:
            return f"{host.name} is not up in the map"
        if cluster_map.era.get(host.name) != host.incarnation:
            return f"{host.name} is not of the era yet"
    for info in cluster_map.fragments.values():
        wanted = min(cluster_map.queues[info.queue].replicas, len(hosts))
        if len(info.in_sync) < wanted or set(info.in_sync) != set(info.copies):
            return f"fragment {info.id} of {info.queue.name}: {info}, wants {wanted} copies"
        for node in info.in_sync:
            why = _why_no_copy(states, info, node)
            if why:
                return f"fragment {info.id} of {info.queue.name}: the copy of {node} {why}"
    return ""


def _why_no_copy(states: Sequence[NodeState], info: FragmentInfo, node: NodeId) -> str:
    """Why a copy in sync is none; "" if it is.

    One that failed at a record has acknowledged nothing since, and may have on disk what that
    record ended: so it is, whatever the map has heard of it.
    """
    state = next(each for each in states if each.me == node)
    if state.map.members[node].incarnation != info.in_sync[node]:
        return "is cold"
    backup = state.backups.get(info.id)
    return "has failed" if backup is not None and backup.failed else ""


def has_unserved(host: Host, queue: str) -> bool:
    """Whether a fragment of the queue waits for its node to come back, as this host knows it."""
    if host.machine is None:
        return True
    state = state_of(host)
    return any(
        state.primary_of(info.id) is None
        or info.in_sync[info.primary] != state.map.members[info.primary].incarnation
        for info in state.map.fragments.values()
        if info.queue.name == queue
    )


def only_copies(host: Host) -> list[str]:
    """The queues of which some fragment is on this running node alone."""
    fragments = state_of(host).map.fragments.values()
    found = {info.queue.name: None for info in fragments if info.copies == (host.name,)}
    return list(found)


def is_last(host: Host, hosts: Sequence[Host]) -> tuple[bool, bool]:
    """Whether this process has the only living copy in sync of what should have several.

    And whether no other process of the era lives, with which goes what is not durable.
    """
    others = {each.name: each.incarnation for each in hosts if each.alive and each is not host}
    maps = [state_of(each).map for each in hosts if each.alive]
    newest = max(maps, key=lambda found: found.version)

    def lacks(processes: Mapping[NodeId, Incarnation]) -> bool:
        return not any(others.get(node) == life for node, life in processes.items())

    copies = any(
        lacks(info.in_sync)
        for info in newest.fragments.values()
        if newest.queues[info.queue].replicas > 1
    )
    return copies, lacks(newest.era)


def ready_in(host: Host, queue: str) -> int:
    """Messages of this queue that wait in the fragments that this host serves."""
    return sum(
        primary.fragment.ready_count
        for primary in state_of(host).primaries.values()
        if primary.queue.name == queue
    )


def deliveries_elsewhere(host: Host) -> int:
    """Messages of this host's fragments that consumers of other nodes hold: losing it matters."""
    state = state_of(host)
    return sum(
        taker != state.me
        for primary in state.primaries.values()
        for taker in primary.fragment.unacked.values()
    )


def lie_apart(hosts: Sequence[Host]) -> bool:
    """Whether no fragment has two copies on one host while another one could take one."""
    known = state_of(hosts[0]).map
    sites, free = known.sites(), {*known.open_sites().values()}
    return not any(
        len({sites[node] for node in info.copies}) < len(info.copies)
        and not free <= {sites[node] for node in info.copies}
        for info in known.fragments.values()
    )


def copies_that_differ(hosts: Sequence[Host]) -> list[str]:
    """At rest: backups equal their primaries, and journals say what memories say."""
    problems: list[str] = []
    states = {host.name: state_of(host) for host in hosts}
    disks = {host.name: OnDisk(host) for host in hosts}
    cluster_map = next(iter(states.values())).map
    for info in cluster_map.fragments.values():
        name = f"fragment {info.id} of {info.queue.name}"
        primary = states[info.primary].primaries.get(info.id)
        if primary is None:
            problems.append(f"{name}: {info.primary} does not serve it")
            continue
        primary.fragment.check()
        reasons = primary.fragment.notes.get(NOTE_DEAD, {}).values()
        dying = sum(reason != QUARANTINED for reason in reasons)
        if dying:
            problems.append(f"{name}: {dying} dead letters are on their way yet")
        for node in info.backups:
            backup = states[node].backups.get(info.id)
            if backup is None:
                problems.append(f"{name}: {node} has no copy")
                continue
            wanted = _to_be_copied(primary, disks[info.primary])
            copy = f"{name}: the copy on {node}"
            problems += _difference(copy, wanted, _bodies_of(backup, disks[node]))
            problems += _notes_differ(copy, primary.fragment, wanted, backup.replica.known_notes)
            # What the primary has refused is no event: other copies would refuse it anew.
            taken = _living(primary.fragment.origins, cluster_map)
            known = _living(backup.replica.origins, cluster_map)
            publishers = marks_of(primary.fragment.publishers)
            heard = dict(backup.replica.publishing.sure)
            if not primary.replication.sparing and publishers != heard:
                problems.append(f"{name}: of {publishers} {node} knows {heard}")
            if primary.replication.sparing or publishers:
                # It need not have heard of the last publishes, nor of those that were known.
                taken = {each: min(n, known.get(each, n)) for each, n in taken.items()}
                known = {**taken, **known}
            if not primary.fragment.refuses and taken != known:
                problems.append(f"{name}: {info.primary} has taken {taken}, {node} knows {known}")
    for host in hosts:
        problems += _journal_differs(host, states[host.name])
    return problems


def _to_be_copied(primary: Primary, disk: OnDisk) -> Mapping[int, bytes]:
    """What every copy of it is to have, exactly."""
    messages = _bodies_in(primary, disk)
    if not primary.replication.sparing:
        return messages
    return {position: each for position, each in messages.items() if is_persistent(each)}


def _bodies_in(primary: Primary, disk: OnDisk) -> dict[int, bytes]:
    """The messages of a primary; what is on disk alone is looked up there."""
    known = disk.bodies_of(primary.fragment.fragment_id)
    messages = primary.fragment.messages
    return {p: message or known.get(p, b"") for p, message in messages.items()}


def _bodies_of(backup: Backup, disk: OnDisk) -> dict[int, bytes]:
    """The messages of a copy; what is on disk alone is looked up there."""
    known = disk.bodies_of(backup.replication.fragment_id)
    replica = backup.replica
    stowed = [*from_ranges(replica.stowed.ranges()), *from_ranges(replica.scratched.ranges())]
    messages = {**replica.in_order(), **{p: known.get(p, b"") for p in stowed}}
    return dict(sorted(messages.items()))


def _living(origins: dict[Origin, int], cluster_map: ClusterMap) -> dict[Origin, int]:
    """Those that may publish again; earlier processes are forgotten one copy at a time."""
    members = cluster_map.members
    return {
        origin: number
        for origin, number in origins.items()
        if origin.node in members and origin.incarnation >= members[origin.node].incarnation
    }


def _notes_differ(
    what: str,
    fragment: Fragment,
    messages: Mapping[int, bytes],
    found: Mapping[int, Mapping[int, int]],
) -> list[str]:
    """Notes of these messages; when one is due is of no interest once it is."""
    problems = []
    for note in NOTES:
        noted, known = fragment.notes.get(note, {}), found.get(note, {})
        wanted = {position: value for position, value in noted.items() if position in messages}
        if note == NOTE_DUE:
            known = {position: when for position, when in known.items() if position in wanted}
        if note == NOTE_CAME:
            # Each reign has times ascend by itself, whatever clocks say.
            wanted, known = dict.fromkeys(wanted, 0), dict.fromkeys(sorted(known), 0)
        if wanted != known:
            problems.append(f"{what} has notes {note} {known}, the primary has {wanted}")
    return problems


def _journal_differs(host: Host, state: NodeState) -> list[str]:
    problems: list[str] = []
    disk = OnDisk(host)
    recovered = disk.recovered
    live: dict[FragmentId, Mapping[int, bytes]] = {
        fragment: _bodies_in(primary, disk)
        for fragment, primary in state.primaries.items()
        if primary.fragment.recorder.durable
    }
    for fragment, backup in state.backups.items():
        if backup.replica.durable:
            live[fragment] = _bodies_of(backup, disk)
    for fragment, messages in live.items():
        found = recovered.fragments.get(fragment)
        problems += _difference(
            f"fragment {fragment}: the journal of {host.name}",
            {position: each for position, each in messages.items() if is_persistent(each)},
            found.messages if found is not None else {},
        )
        primary, copy = state.primaries.get(fragment), state.backups.get(fragment)
        marks = marks_of(primary.fragment.publishers) if primary is not None else {}
        marks = dict(copy.replica.publishing.sure) if copy is not None else marks
        if marks and (found is None or marks != found.publishers):
            problems.append(f"fragment {fragment}: the journal of {host.name} lacks {marks}")
    return problems


def _difference(what: str, wanted: Mapping[int, bytes], found: Mapping[int, bytes]) -> list[str]:
    problems = []
    missing = [position for position in wanted if position not in found]
    extra = [position for position in found if position not in wanted]
    if missing:
        problems.append(f"{what} lacks positions {missing[:10]}")
    if extra:
        problems.append(f"{what} still has positions {extra[:10]}")
    if not missing and not extra:
        changed = [position for position in wanted if wanted[position] != found[position]]
        if changed:
            problems.append(f"{what} differs at positions {changed[:10]}")
        elif list(wanted) != list(found):
            problems.append(f"{what} is in another order")
    return problems
