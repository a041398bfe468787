"""What is worth knowing of a cluster with which nothing is wrong: one sentence for each thing.

Inputs: the cluster as the asked node's map has it, and what its members say. Output: sentences, in
a fixed order. None of them makes `fedq cluster status` end with exit code 4.
"""

from collections.abc import Iterable, Sequence

from fedq.admin.messages import text
from fedq.admin.problems import names
from fedq.node.views.overview_types import ClusterOverview, MemberRole, MemberState
from fedq.shell.pb import admin_pb2 as pb


def find_notes(cluster: ClusterOverview, members: Sequence[pb.Member]) -> list[str]:
    """Sentences about the cluster as the asked node sees it; `members` with their own figures."""
    return [*_of_the_voters(cluster), *_of_drained_nodes(cluster), *_of_members(members)]


def _of_drained_nodes(cluster: ClusterOverview) -> Iterable[str]:
    for node, staying in sorted(cluster.staying.items()):
        of_them = "a copy" if staying.copies == 1 else f"{staying.copies} copies"
        yield (
            f"{node} keeps {of_them}, as of queue '{text(staying.queue.name)}' in vhost "
            f"'{text(staying.queue.vhost)}', which wants {staying.replicas}: each other node that "
            "is up and not drained has one already. They lead nothing; add a node, or stop this "
            "one with them"
        )


def _of_members(members: Sequence[pb.Member]) -> Iterable[str]:
    for member in members:
        for note in member.figures.notes if member.HasField("figures") else ():
            yield f"{member.node} {note}"


def _of_the_voters(cluster: ClusterOverview) -> Iterable[str]:
    voters = [member for member in cluster.members if member.role is MemberRole.VOTER]
    away = [member.node for member in voters if member.state is not MemberState.UP]
    count = len(voters)
    if count and count % 2 == 0:
        yield (
            f"{count} nodes vote, which is no safer than {count - 1}: {count // 2 + 1} of them "
            f"must be up, and no more than {(count - 1) // 2} may be lost"
        )
    observers = [
        member.node for member in cluster.members
        if member.role is MemberRole.OBSERVER and member.state is MemberState.UP
        and member.drained is None
    ]  # fmt: skip
    if away and observers:
        yield (
            f"{names(away)} would vote and {'is' if len(away) == 1 else 'are'} not up: after "
            f"`timing.replace_voter_ms` {names(observers)} may vote instead, one at a time"
        )
