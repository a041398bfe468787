"""Permissions of topics: set, cleared and listed.

Inputs: this node's view of the map, a way to have it changed, requests. Outputs: replies, or
AdminError. What is wrong with a pattern is said before anything is asked for.
"""

from fedq.admin.access_answers import AccessAnswers, name_of
from fedq.admin.paging import page_of
from fedq.admin.refusal import invalid
from fedq.admin.rows import Row
from fedq.core.limits import NAME_BYTES_MAX, PATTERN_BYTES_MAX
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.operations_topics import (
    ClearTopicPermissions,
    SetTopicPermissions,
    TopicGrant,
    TopicKey,
)
from fedq.wiring.cluster_map.topic_permissions import refuse_topic_permissions


class TopicAnswers:
    """Answers about permissions of topics. Belongs to one event loop."""

    __slots__ = ("_access",)

    def __init__(self, access: AccessAnswers) -> None:
        self._access = access

    async def set(
        self, request: pb.SetTopicPermissionsRequest, timeout_s: float
    ) -> pb.SetTopicPermissionsReply:
        """Limits a user to topics of an exchange."""
        said = request.permissions
        wanted = SetTopicPermissions(
            name_of("user", said.user), name_of("vhost", said.vhost), said.exchange, said.write,
            said.read,
        )  # fmt: skip
        wrong = refuse_wanted(wanted)
        if wrong is not None:
            raise invalid(wrong)
        await self._access.change(wanted, timeout_s)
        return pb.SetTopicPermissionsReply()

    async def clear(
        self, request: pb.ClearTopicPermissionsRequest, timeout_s: float
    ) -> pb.ClearTopicPermissionsReply:
        """Lets a user use all topics again."""
        user, vhost = name_of("user", request.user), name_of("vhost", request.vhost)
        everywhere = not request.HasField("exchange")
        operation = ClearTopicPermissions(user, vhost, request.exchange, everywhere)
        await self._access.change(operation, timeout_s)
        return pb.ClearTopicPermissionsReply()

    async def list(self, request: pb.ListTopicPermissionsRequest) -> pb.ListTopicPermissionsReply:
        """A page of permissions of topics."""
        known = {
            key: grant
            for key, grant in self._access.overview.topic_permissions()
            if (not request.HasField("user") or key.user == request.user)
            and (not request.HasField("vhost") or key.vhost == request.vhost)
        }
        page = page_of(list(known), request.page_size, request.page_token)
        return pb.ListTopicPermissionsReply(
            permissions=[pb.TopicPermissions(**topic_row(key, known[key])) for key in page.keys],
            next_page_token=page.next_token,
        )


def refuse_wanted(wanted: SetTopicPermissions) -> str | None:
    """What is wrong with such permissions; None: nothing."""
    if len(wanted.exchange.encode()) > NAME_BYTES_MAX:
        return f"exchange is longer than {NAME_BYTES_MAX} bytes"
    for what, text in (("write", wanted.write), ("read", wanted.read)):
        if len(text.encode()) > PATTERN_BYTES_MAX:
            return f"the {what} pattern is longer than {PATTERN_BYTES_MAX} bytes"
    refused = refuse_topic_permissions(wanted)
    return None if refused is None else refused.text


def topic_row(key: TopicKey, grant: TopicGrant) -> Row:
    """Permissions of topics, in RabbitMQ's words."""
    return {**key._asdict(), **grant._asdict()}
