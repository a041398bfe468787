"""What each node runs and speaks, and which of them may be stopped now: for a rolling update.

Input: a cluster's status. Output: for each member whether it may be stopped, and why not; what the
cluster would speak if all nodes ran the release of this command.

A member may be stopped if all that it serves goes on, and nothing confirmed depends on it alone:
its fragments have another copy in sync that is up, a majority of the voters is left, the others
have room for what it hands over, and all of them answer. Workers of one host stop together
(docs/adr/0098), and are judged so.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fedq import __version__
from fedq.cli.asking.forms import Form
from fedq.cli.cluster.hosts import by_host
from fedq.core.versions import FEATURES, MINE, NEWEST, shown
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.placement import host_of


class Judgement(NamedTuple):
    """Whether a member may be stopped now."""

    member: pb.Member
    #: Why not, in sentences; none: it may.
    reasons: Sequence[str]
    #: What happens while it is away.
    notes: Sequence[str]

    @property
    def is_safe(self) -> bool:
        """Whether it may be stopped."""
        return not self.reasons


def judge(status: pb.ClusterStatusReply) -> list[Judgement]:
    """What is so of each member that is up, in order."""
    found = []
    for leaving in _leaving_together(status):
        for member in leaving:
            if member.state != pb.MEMBER_STATE_UP:
                continue
            reasons = _reasons_of_others(status, leaving)
            for each in leaving:
                reasons += _reasons_of_copies(each, member)
            found.append(Judgement(member, reasons, _notes(member)))
    order = [member.node for member in status.members]
    return sorted(found, key=lambda judgement: order.index(judgement.member.node))


def _leaving_together(status: pb.ClusterStatusReply) -> list[list[pb.Member]]:
    """The members, workers of one host together."""
    known = {member.node: member for member in status.members}
    places = [
        {"node": member.node, "host": host_of(member.peer_address)} for member in status.members
    ]
    return [[known[each["node"]] for each in group] for group in by_host(places)]


def _reasons_of_others(status: pb.ClusterStatusReply, leaving: Sequence[pb.Member]) -> list[str]:
    names = [each.node for each in leaving]
    others = [each for each in status.members if each.node not in names]
    reasons = []
    if not status.leader:
        reasons.append("the cluster has no leader: nothing could be handed over")
    reasons += _reasons_of_voters(status, names)
    up = [each for each in others if each.state == pb.MEMBER_STATE_UP]
    silent = [each.node for each in up if not each.HasField("figures")]
    if silent:
        reasons.append(f"{', '.join(silent)} does not answer, and may not serve")
    for each in up:
        figures = each.figures
        if not each.HasField("figures"):
            continue
        if not figures.lease_held:
            reasons.append(f"{each.node} is fenced: it does not serve")
        if figures.stopping:
            reasons.append(f"{each.node} is stopping: wait until it is back")
        if figures.alarms.memory or figures.alarms.disk:
            short = "memory" if figures.alarms.memory else "disk"
            reasons.append(f"{each.node} is low on {short}, and would get more")
    if status.fragments_unavailable:
        reasons.append(f"{status.fragments_unavailable} fragments are not served already")
    return reasons


def _reasons_of_voters(status: pb.ClusterStatusReply, names: Sequence[str]) -> list[str]:
    voters = [each for each in status.members if each.role == pb.MEMBER_ROLE_VOTER]
    left = [
        each.node for each in voters
        if each.state == pb.MEMBER_STATE_UP and each.node not in names
    ]  # fmt: skip
    if any(each.node in names for each in voters) and 2 * len(left) <= len(voters):
        return [
            f"{len(left)} of {len(voters)} voters would be left, which is no majority: nobody "
            "would serve"
        ]
    return []


def _reasons_of_copies(member: pb.Member, judged: pb.Member) -> list[str]:
    if not member.only_copies:
        return []
    who = "it" if member.node == judged.node else f"{member.node}, which stops with it,"
    return [
        f"{who} has the only copy that is in sync and up of {member.only_copies} fragments: wait "
        "until they are copied"
    ]


def _notes(member: pb.Member) -> list[str]:
    notes = []
    if member.single_copies:
        notes.append(
            f"{member.single_copies} fragments of queues that want one copy (x-fedq-replicas: 1) "
            "are not served while it is away"
        )
    figures = member.figures
    if member.HasField("figures") and figures.private_queues:
        notes.append(f"{figures.private_queues} exclusive queues go with their clients")
    if member.leads and not member.HasField("drain"):
        notes.append(f"it leads {member.leads} fragments, and hands them over as it stops")
    return notes


def switched_on(status: pb.ClusterStatusReply) -> Form:
    """What the cluster speaks, what all could speak, and what that brings."""
    mine = {str(version): list(FEATURES[version]) for version in _news(status.cluster_version)}
    behind = [
        member.node for member in status.members
        if 0 < member.speaks_newest < NEWEST
    ]  # fmt: skip
    unknown = [member.node for member in status.members if not member.speaks_newest]
    unfit = [
        member.node for member in status.members
        if member.speaks_newest and member.speaks_newest < MINE[0]
    ]  # fmt: skip
    return {
        "speaks": status.cluster_version, "this_release": __version__,
        "this_release_speaks": list(MINE), "to_update": behind, "unknown": unknown,
        "too_old_for_this_release": unfit, "switched_on_then": mine,
        "fits": not unfit and status.cluster_version <= NEWEST
        and (not status.cluster_version or status.cluster_version >= MINE[0]),
    }  # fmt: skip


def _news(cluster: int) -> list[int]:
    return [version for version in FEATURES if version > cluster]


def speaks(member: pb.Member) -> str:
    """The versions that a member speaks, in words."""
    if not member.speaks_newest:
        return "?"
    return shown((member.speaks_oldest, member.speaks_newest))


#: What is shown of a member that did not say.
UNKNOWN: Final = "?"


def judgement_form(judgement: Judgement) -> Form:
    """What is so of a member."""
    member = judgement.member
    return {
        "node": member.node,
        "release": member.figures.version or None,
        "speaks": [member.speaks_oldest, member.speaks_newest] if member.speaks_newest else None,
        "safe_to_stop": judgement.is_safe,
        "reasons": list(judgement.reasons),
        "notes": list(judgement.notes),
    }
