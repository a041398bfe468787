"""What is reserved for a dead reader goes back everywhere, or the answer says where not."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from fedq.admin.members import OtherMembers
from fedq.admin.refusal import AdminError
from fedq.admin.releasing import Releasing
from fedq.core.ids import NodeId, QueueKey
from fedq.node.views.overview_types import MemberState, Overview
from fedq.shell.pb import admin_pb2 as pb

REQUEST = pb.ReleaseReaderRequest(queue=pb.QueueName(vhost="/", name="q"), reader="nightly")


class Others:
    """Members of which one is silent, and all others put back so many messages each."""

    def __init__(self, silent: str, each: int) -> None:
        self.silent = silent
        self.each = each

    async def ask(self, members: list[Any], call: Any, timeout_s: float) -> dict[NodeId, Any]:
        reply = pb.ReleaseReaderReply(messages=self.each)
        return {each.node: reply for each in members if each.node != self.silent}


def releasing(here: int | None, silent: str = "") -> Releasing:
    """As of n1 of three nodes; `here`: what it has put back itself, None: not all of it."""
    members = [SimpleNamespace(node=f"n{n}", state=MemberState.UP) for n in (1, 2, 3)]
    overview = SimpleNamespace(
        queue=lambda key: key if key == QueueKey("/", "q") else None,
        process=lambda: ("n1",),
        members=lambda: members,
    )

    def ask(queue: QueueKey, reader: str, answer: Callable[[int | None], None]) -> None:
        answer(here)

    others = cast("OtherMembers", Others(silent, 5))
    return Releasing(cast("Overview", overview), others, ask)


def everywhere(one: Releasing, request: pb.ReleaseReaderRequest) -> tuple[int, list[str]]:
    reply = asyncio.run(one.everywhere(request, 5.0))
    return reply.messages, list(reply.silent_members)


def test_it_goes_back_on_all_members_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "fedq.changes"):
        assert everywhere(releasing(2), REQUEST) == (12, [])
    assert "release reader 'nightly' of queue 'q' in vhost '/'" in caplog.text


def test_who_is_silent_or_cannot_put_back_all_is_named_and_the_others_do_it() -> None:
    assert everywhere(releasing(2, silent="n3"), REQUEST) == (7, ["n3"])
    assert everywhere(releasing(None), REQUEST) == (10, ["n1"])
    # Asked by another member, it says so, and counts as one that has not.
    with pytest.raises(AdminError, match="stop the reader, and ask again") as refused:
        asyncio.run(releasing(None).local(REQUEST, 5.0))
    assert refused.value.code is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(("reader", "text"), [("", "a name of 1"), ("x" * 256, "a name of 1")])
def test_names_that_are_none(reader: str, text: str) -> None:
    request = pb.ReleaseReaderRequest(queue=REQUEST.queue, reader=reader)
    with pytest.raises(AdminError, match=text):
        everywhere(releasing(2), request)


def test_a_queue_that_is_not_there() -> None:
    request = pb.ReleaseReaderRequest(queue=pb.QueueName(vhost="/", name="none"), reader="r")
    with pytest.raises(AdminError, match="no shared queue"):
        everywhere(releasing(2), request)
