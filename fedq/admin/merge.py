"""One queue from its parts: what the cluster map says, and what each member answered.

Inputs: the asked node's view of the queue, the state of the members, their answers. Output: the
message a person reads. The one rule: a figure of which any part is unknown is left out, so that
nobody takes a part for the whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedq.admin.messages import CAUSES
from fedq.admin.policy_rows import definition_json
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.node.views.overview_types import (
    FragmentOverview,
    MemberOverview,
    MemberState,
    QueueOverview,
)
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.policy_book import Standing


@dataclass(frozen=True, slots=True)
class LocalAnswer:
    """What one member said about the queues it was asked for."""

    fragments: Mapping[FragmentId, pb.LocalFragment] = field(default_factory=dict)
    #: What it has of fragments, in whatever part.
    copies: Mapping[FragmentId, pb.Copy] = field(default_factory=dict)
    #: Only queues with consumers.
    consumers: Mapping[QueueKey, int] = field(default_factory=dict)


def read_answer(reply: pb.LocalFragmentsReply) -> LocalAnswer:
    """A member's reply, indexed."""
    return LocalAnswer(
        {FragmentId(item.fragment): item for item in reply.fragments},
        {FragmentId(item.fragment): item for item in reply.copies},
        {QueueKey(item.queue.vhost, item.queue.name): item.consumers for item in reply.consumers},
    )


class QueueMerger:
    """Puts queues together from one round of answers."""

    __slots__ = ("_answers", "_members", "_silent_up")

    def __init__(
        self, members: Sequence[MemberOverview], answers: Mapping[NodeId, LocalAnswer]
    ) -> None:
        """`answers` of the members that answered; the asked node's own among them."""
        self._members = {member.node: member.state for member in members}
        self._answers = answers
        #: Members that may have consumers and did not say so.
        self._silent_up = [
            member.node
            for member in members
            if member.state is MemberState.UP and member.node not in answers
        ]

    def merge(self, queue: QueueOverview, standing: Standing) -> pb.Queue:
        """The whole queue and its policies, with absent figures where a part is unknown."""
        fragments = [self._fragment(fragment) for fragment in queue.fragments]
        merged = pb.Queue(
            vhost=queue.key.vhost,
            name=queue.key.name,
            durable=queue.durable,
            auto_delete=queue.auto_delete,
            arguments_json="" if queue.arguments == "{}" else queue.arguments,
            replicas=queue.replicas,
            fragments=fragments,
            policy=standing.policy,
            operator_policy=standing.operator_policy,
            effective_policy_json=definition_json(standing.definition),
        )
        silent = dict.fromkeys(self._silent_up)
        if all(fragment.HasField("ready") for fragment in fragments):
            merged.ready = sum(fragment.ready for fragment in fragments)
            merged.unacknowledged = sum(fragment.unacknowledged for fragment in fragments)
        else:
            missing = [item.primary for item in fragments if not item.HasField("ready")]
            silent.update(dict.fromkeys(map(NodeId, missing)))
        if not self._silent_up:
            merged.consumers = sum(
                answer.consumers.get(queue.key, 0) for answer in self._answers.values()
            )
        merged.silent_members.extend(sorted(silent))
        return merged

    def _fragment(self, fragment: FragmentOverview) -> pb.Fragment:
        message = pb.Fragment(
            fragment=fragment.fragment,
            primary=fragment.primary,
            backups=fragment.backups,
            in_sync=fragment.in_sync,
            epoch=fragment.epoch,
            reign=fragment.reign,
            cause=CAUSES[fragment.cause],
            copies=self._copies(fragment),
            moves_to=fragment.moves_to or "",
        )
        if self._members.get(fragment.primary) is not MemberState.UP:
            message.state = pb.FRAGMENT_STATE_UNAVAILABLE
            return message
        answer = self._answers.get(fragment.primary)
        local = None if answer is None else answer.fragments.get(fragment.fragment)
        # A primary that has not heard of its present reign yet counts what an earlier one held.
        if local is None or local.reign < fragment.reign:
            message.state = pb.FRAGMENT_STATE_UNKNOWN
            return message
        message.ready = local.ready
        message.unacknowledged = local.unacknowledged
        message.bytes = local.bytes
        if local.HasField("traffic"):
            message.traffic.CopyFrom(local.traffic)
        message.readers.extend(local.readers)
        if not local.serving:
            message.state = pb.FRAGMENT_STATE_UNAVAILABLE
        elif self._is_catching_up(fragment):
            message.state = pb.FRAGMENT_STATE_CATCHING_UP
        else:
            message.state = pb.FRAGMENT_STATE_SERVING
        return message

    def _copies(self, fragment: FragmentOverview) -> list[pb.Copy]:
        """What members have of it, the primary first; under the names of those who said so."""
        found: list[pb.Copy] = []
        for node, answer in sorted(self._answers.items()):
            copy = answer.copies.get(fragment.fragment)
            if copy is not None:
                copy.node = node
                found.append(copy)
        return sorted(found, key=lambda copy: copy.node != fragment.primary)

    def _is_catching_up(self, fragment: FragmentOverview) -> bool:
        """Whether a backup that is up still lacks something confirmed."""
        return any(
            backup not in fragment.in_sync and self._members.get(backup) is MemberState.UP
            for backup in fragment.backups
        )
