"""Questions to other members: a channel lives as long as its member has that address."""

from collections.abc import Coroutine
from dataclasses import replace

import grpc
import grpc.aio

from fedq.admin.members import MemberStub, OtherMembers
from fedq.core.ids import NodeId
from fedq.node.views.overview_types import MemberOverview
from tests.unit.admin.served import LoopThread, a_member


class Opened:
    """Channels that were opened; a call on one that is closed is cancelled, as gRPC does it."""

    def __init__(self) -> None:
        self.closed: list[NodeId] = []

    def connect(self, node: NodeId, address: str) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel("127.0.0.1:1")
        close, opened = channel.close, self

        async def closing(grace: float | None = None) -> None:
            opened.closed.append(node)
            await close(grace)

        channel.close = closing  # type: ignore[method-assign]
        return channel


def run(scenario: Coroutine[None, None, None]) -> None:
    with LoopThread.running():
        LoopThread.run(scenario)


async def answer(stub: MemberStub, timeout_s: float) -> str:
    return "here"


def test_a_question_to_one_member_leaves_the_others_their_channels() -> None:
    members = [a_member("n2"), a_member("n3"), a_member("n4")]
    opened = Opened()

    async def ask() -> None:
        others = OtherMembers(opened.connect, lambda: members)
        assert len(await others.ask(members, answer, 1.0)) == len(members)
        assert list(await others.ask(members[:1], answer, 1.0)) == [members[0].node]
        assert opened.closed == []
        await others.close()

    run(ask())


def test_one_that_moved_or_left_loses_its_channel_whoever_is_asked() -> None:
    members: list[MemberOverview] = [a_member("n2"), a_member("n3"), a_member("n4")]
    opened = Opened()

    async def ask() -> None:
        others = OtherMembers(opened.connect, lambda: members)
        await others.ask(members, answer, 1.0)
        gone, moved = members.pop().node, members[0].node
        members[0] = replace(members[0], peer_address="127.0.0.1:2")
        await others.ask(members[1:], answer, 1.0)
        assert sorted(opened.closed) == sorted([gone, moved])
        await others.close()

    run(ask())
