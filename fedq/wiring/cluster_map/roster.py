"""The roster: the nodes that are of the cluster, where they are reached, and who should vote.

Inputs: the map and a committed `NameVoters`, `AdmitNode`, `PromoteNode`, `ForgetNode` or
`ReplaceVoter`, and the sets of voters that the log names (docs/adr/0084). Outputs: their results;
changes are appended to the map's. Until the cluster speaks `versions.MEMBERSHIP` there is no
roster, and the configurations say all this. Invariants (docs/adr/0085, 0101):

* at most `limits.VOTERS_MAX` should vote, and one at least; who joins does if there is room, and
  observes otherwise; voters are on different hosts first (docs/adr/0098): of three hosts and more
  each has one that joined, and a host whose first node comes up takes its vote from those that
  have several;
* a name belongs to one data directory until its node is forgotten; with what it held alone
  nobody is forgotten, and nobody who is up;
* an address is one that can be dialled: every node dials it, again at each start;
* whom the log still counts is not let in again under that name;
* a voter is replaced by an observer only if it is down and the log has carried out all that was
  wanted before, so one at a time, and a majority of who should vote then is up.
"""

from dataclasses import replace
from typing import Final, assert_never

from fedq.core.addresses import is_address
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, RESOURCE_ERROR, Refused
from fedq.core.ids import NodeId
from fedq.core.limits import FORGOTTEN_MAX, NODES_MAX, VOTERS_MAX
from fedq.core.versions import HOSTS, MEMBERSHIP, VOTERS_REPLACED
from fedq.wiring.cluster_map.copies import leave_copies, only_copies_of
from fedq.wiring.cluster_map.operations_members import (
    AdmitNode,
    ForgetNode,
    NameVoters,
    PromoteNode,
    ReplaceVoter,
    RosterOperation,
)
from fedq.wiring.cluster_map.operations_moves import DrainChanged
from fedq.wiring.cluster_map.placement import host_of
from fedq.wiring.cluster_map.processes import forget_process
from fedq.wiring.cluster_map.state import MapState, MemberChanged, Ok, Place, RosterChanged

#: Of so many hosts any one may be lost if each has a voter.
MANY_HOSTS: Final = 3


def apply(state: MapState, operation: RosterOperation) -> Ok | Refused:
    """Carries out one operation, or refuses it and changes nothing."""
    match operation:
        case NameVoters():
            return _name_voters(state, operation)
        case AdmitNode():
            return _admit(state, operation)
        case PromoteNode():
            return _promote(state, operation)
        case ForgetNode():
            return _forget(state, operation)
        case ReplaceVoter():
            return _replace(state, operation)
        case _:
            assert_never(operation)


def wanted_voters(state: MapState) -> tuple[NodeId, ...] | None:
    """The nodes that should vote, in ascending order; None: nobody has said so.

    Who joined should once it has come up: only then do others hear of it what their leases need.
    """
    if not state.roster:
        return None
    return tuple(
        sorted(
            node
            for node, place in state.roster.items()
            if place.votes and (node in state.members or not place.directory)
        )
    )


def _has_room(state: MapState) -> bool:
    """Whether one more may vote, of those who do or will once they are up."""
    return sum(place.votes for place in state.roster.values()) < VOTERS_MAX


def _voters_by_host(state: MapState) -> dict[str, list[NodeId]]:
    """The nodes that should vote, by host; hosts where nobody should are there, too."""
    found: dict[str, list[NodeId]] = {}
    for node, place in state.roster.items():
        here = found.setdefault(host_of(place.peer_address), [])
        if place.votes:
            here.append(node)
    return found


def _is_crowded(state: MapState, address: str) -> bool:
    """Whether one more voter there, beside one of the same host, would make the cluster no safer.

    With three hosts, one voter on each outlives any of them. With fewer none does that, and more
    voters outlive more processes.
    """
    if state.cluster_version < HOSTS:
        return False
    hosts = _voters_by_host(state)
    voters = hosts.setdefault(host_of(address), [])
    return len(hosts) >= MANY_HOSTS and len(voters) > 0


def spread_votes(state: MapState, node: NodeId) -> None:
    """Has a node that comes up vote, if it observes and nobody of its host votes.

    Where a host has several voters that joined, those beyond the first that is up give their votes
    up: one for this node if there is no room, and all of them once voters are on three hosts.
    """
    place = state.roster.get(node)
    if place is None or state.cluster_version < HOSTS:
        return
    hosts = _voters_by_host(state)
    here = hosts[host_of(place.peer_address)]
    if here and here != [node]:
        return
    spare = [
        other
        for voters in sorted(hosts.values(), key=len, reverse=True)
        for other in _up_first(state, voters)[:0:-1]
        if state.roster[other].directory
    ]
    if not here:
        if not _has_room(state):
            if not spare:
                return
            _take_vote(state, spare.pop(0))
        _let_vote(state, node, place)
    if sum(bool(voters) for voters in hosts.values()) + (not here) >= MANY_HOSTS:
        for other in spare:
            _take_vote(state, other)


def _up_first(state: MapState, nodes: list[NodeId]) -> list[NodeId]:
    """The nodes, those that are up before the others."""
    up = [node for node in nodes if _is_up(state, node)]
    return up + [node for node in nodes if not _is_up(state, node)]


def _take_vote(state: MapState, node: NodeId) -> None:
    state.roster[node] = replace(state.roster[node], votes=False)
    state.changes.append(RosterChanged("roster", node))


def take_voters(state: MapState, voters: tuple[NodeId, ...]) -> None:
    """Takes note who votes by the log."""
    state.voters = voters
    state.changes += [RosterChanged("roster", node) for node in voters]


def note_address(state: MapState, node: NodeId, address: str) -> None:
    """Takes note where a node's process says that it is reached, if that can be dialled."""
    place = state.roster.get(node)
    if place is not None and place.peer_address != address and is_address(address):
        state.roster[node] = replace(place, peer_address=address)
        state.changes.append(RosterChanged("roster", node))


def _name_voters(state: MapState, operation: NameVoters) -> Ok | Refused:
    if state.roster:
        return Ok()
    if state.cluster_version < MEMBERSHIP:
        return _refuse_early(state)
    for _, address in operation.voters:
        if not is_address(address):
            return _refuse_address(address)
    for node, address in operation.voters:
        state.roster[node] = Place(address, "", True)
        state.changes.append(RosterChanged("roster", node))
    return Ok(1)


def _refuse_address(address: str) -> Refused:
    """Every node would dial it, at each of its starts."""
    return Refused(PRECONDITION_FAILED, f"{address!r} is no address of a node; give host:port")


def _refuse_early(state: MapState) -> Refused:
    return Refused(
        PRECONDITION_FAILED,
        f"the cluster speaks version {state.cluster_version} of what nodes say to each other, and "
        f"nodes join and leave from version {MEMBERSHIP} on: update all of its nodes first",
    )


def _admit(state: MapState, operation: AdmitNode) -> Ok | Refused:
    node, address = operation.node, operation.peer_address
    known = state.roster.get(node)
    refusal = why_not_admitted(state, operation)
    if refusal is not None:
        return refusal
    if known is not None:
        if known.peer_address == address:
            return Ok()
        state.roster[node] = replace(known, peer_address=address)
    else:
        votes = _has_room(state) and not _is_crowded(state, address)
        state.roster[node] = Place(address, operation.directory, votes)
        if state.forgotten.pop(node, None) is not None:
            state.changes.append(RosterChanged("forgotten", node))
    state.changes.append(RosterChanged("roster", node))
    return Ok(1)


def why_not_admitted(state: MapState, operation: AdmitNode) -> Refused | None:
    """Why a node is not to be let in, or moved, by this map; None: it is."""
    node, address = operation.node, operation.peer_address
    known = state.roster.get(node)
    if not state.roster:
        return _refuse_early(state)
    if not is_address(address):
        return _refuse_address(address)
    for other, place in state.roster.items():
        if other != node and place.peer_address == address:
            return Refused(
                PRECONDITION_FAILED,
                f"{address} is the address of node '{other}': give node '{node}' one of its own",
            )
    if known is None and node in state.voters:
        return Refused(
            PRECONDITION_FAILED,
            f"node '{node}' was forgotten and still counts as a voter: ask again in a moment",
        )
    if known is None:
        if len(state.roster) >= NODES_MAX:
            return Refused(RESOURCE_ERROR, f"a cluster has at most {NODES_MAX} nodes")
        return state.refuse_if_full(by_operator=True)
    if known.directory != operation.directory:
        return Refused(
            PRECONDITION_FAILED,
            f"there is a node '{node}' in the cluster, with another data directory: give this one "
            f"a name of its own, or, if that one is gone for good, `fedq cluster forget {node}`",
        )
    return None


def _promote(state: MapState, operation: PromoteNode) -> Ok | Refused:
    node = operation.node
    place = state.roster.get(node)
    if place is None:
        return _refuse_unknown(node)
    if place.votes:
        return Ok()
    member = state.members.get(node)
    if member is None or not member.up:
        return Refused(PRECONDITION_FAILED, f"node '{node}' is not up: start it first")
    if not _has_room(state):
        return Refused(
            PRECONDITION_FAILED, f"there are {VOTERS_MAX} voters, and more make nothing safer"
        )
    _let_vote(state, node, place)
    return Ok(1)


def _refuse_unknown(node: NodeId) -> Refused:
    return Refused(NOT_FOUND, f"no node '{node}' in this cluster: see `fedq cluster status`")


def _let_vote(state: MapState, node: NodeId, place: Place) -> None:
    state.roster[node] = replace(place, votes=True)
    state.changes.append(RosterChanged("roster", node))


def _forget(state: MapState, operation: ForgetNode) -> Ok | Refused:
    node = operation.node
    place = state.roster.get(node)
    if place is None:
        return Ok() if node in state.forgotten else _refuse_unknown(node)
    member = state.members.get(node)
    refusal = _why_not_forgotten(state, operation)
    if refusal is not None:
        return refusal
    leave_copies(state, node)
    if member is not None:
        forget_process(state, node)
        del state.members[node]
        state.era.pop(node, None)
        state.speaks.pop(node, None)
        state.changes.append(MemberChanged(node))
    if state.drained.pop(node, None) is not None:
        state.changes.append(DrainChanged(node))
    del state.roster[node]
    while len(state.forgotten) >= FORGOTTEN_MAX:
        oldest = next(iter(state.forgotten))
        del state.forgotten[oldest]
        state.changes.append(RosterChanged("forgotten", oldest))
    state.forgotten[node] = 0 if member is None else int(member.incarnation)
    state.changes += [RosterChanged("roster", node), RosterChanged("forgotten", node)]
    _raise_version(state)
    _replace_voter(state)
    return Ok(1)


def _why_not_forgotten(state: MapState, operation: ForgetNode) -> Refused | None:
    node = operation.node
    member = state.members.get(node)
    if member is not None and member.up:
        return Refused(
            PRECONDITION_FAILED,
            f"node '{node}' is up: stop it first (SIGTERM), so that it hands over what it has",
        )
    incarnation = 0 if member is None else int(member.incarnation)
    if incarnation != operation.incarnation:
        return Refused(
            PRECONDITION_FAILED,
            f"node '{node}' has started meanwhile (process {incarnation}): look at it again",
        )
    if wanted_voters(state) == (node,):
        return Refused(PRECONDITION_FAILED, f"node '{node}' is the only voter")
    alone = only_copies_of(state, node)
    if alone:
        key = state.fragments[alone[0]].queue
        return Refused(
            PRECONDITION_FAILED,
            f"node '{node}' has the only copy in sync of {len(alone)} fragments, the first one of "
            f"queue '{key.name}' in vhost '{key.vhost}': start it and drain it, have another copy "
            "count with `fedq queue adopt`, or delete the queue",
        )
    return None


def _raise_version(state: MapState) -> None:
    """Lets the cluster speak what all who are left speak, now that one less is waited for."""
    newest = [state.speaks.get(other, (0, 0))[1] for other in state.members]
    state.cluster_version = max(state.cluster_version, min(newest, default=0))


def _replace_voter(state: MapState) -> None:
    """Has an observer that is up vote, if there is room now; of a host without a voter first."""
    if not _has_room(state):
        return
    hosts = _voters_by_host(state)
    up = {node: state.roster[node] for node in state.members_up() if node in state.roster}
    left = {node: place for node, place in up.items() if not place.votes}
    if state.cluster_version >= HOSTS:
        alone = {n: place for n, place in left.items() if not hosts[host_of(place.peer_address)]}
        left = alone or {n: p for n, p in left.items() if not _is_crowded(state, p.peer_address)}
    for node in state.roster:
        if node in left:
            _let_vote(state, node, left[node])
            return


def _replace(state: MapState, operation: ReplaceVoter) -> Ok | Refused:
    refusal = why_not_replaced(state, operation)
    if refusal is not None:
        return refusal
    node, by = operation.node, operation.by
    state.roster[node] = replace(state.roster[node], votes=False)
    state.changes.append(RosterChanged("roster", node))
    _let_vote(state, by, state.roster[by])
    return Ok(1)


def why_not_replaced(state: MapState, operation: ReplaceVoter) -> Refused | None:
    """Why an observer does not take a voter's place, by this map; None: it does."""
    node, by = operation.node, operation.by
    if state.cluster_version < VOTERS_REPLACED:
        return Refused(
            PRECONDITION_FAILED,
            f"the cluster speaks version {state.cluster_version}, and voters are replaced from "
            f"version {VOTERS_REPLACED} on: update all of its nodes first",
        )
    for name in (node, by):
        if name not in state.roster:
            return _refuse_unknown(name)
    if not state.roster[node].votes:
        return Refused(PRECONDITION_FAILED, f"node '{node}' is no voter")
    if state.roster[by].votes:
        return Refused(PRECONDITION_FAILED, f"node '{by}' is a voter already")
    member = state.members.get(node)
    if member is not None and (member.up or member.incarnation != operation.incarnation):
        return Refused(PRECONDITION_FAILED, f"node '{node}' has come back: it goes on voting")
    if not _is_process_up(state, by, operation.by_incarnation):
        return Refused(PRECONDITION_FAILED, f"node '{by}' is not up as it was")
    wanted = wanted_voters(state) or ()
    if ({*_counted(state)} ^ {*wanted}) - {node}:
        return Refused(PRECONDITION_FAILED, "another change of who votes is under way")
    will = [*(voter for voter in wanted if voter != node), by]
    if 2 * len([voter for voter in will if _is_up(state, voter)]) <= len(will):
        return Refused(PRECONDITION_FAILED, "a majority of those who would vote then is not up")
    return None


def _counted(state: MapState) -> tuple[NodeId, ...]:
    """The voters by the log: while that names nobody, those with whom the cluster began."""
    if state.voters:
        return state.voters
    return tuple([node for node, place in state.roster.items() if not place.directory])


def _is_up(state: MapState, node: NodeId) -> bool:
    member = state.members.get(node)
    return member is not None and member.up


def _is_process_up(state: MapState, node: NodeId, incarnation: int) -> bool:
    member = state.members.get(node)
    return member is not None and member.up and member.incarnation == incarnation
