"""The question by which a process is asked to stop."""

import asyncio

import grpc
import pytest

from fedq.admin.own_process import OwnProcess, Stopping
from fedq.admin.refusal import AdminError
from fedq.core.ids import NodeId
from fedq.shell.pb import admin_pb2 as pb


def test_a_process_is_stopped_once_however_often_it_is_asked() -> None:
    stops: list[str] = []
    stopping = Stopping(NodeId("n1"), OwnProcess(lambda: "", lambda: stops.append("stop")))

    async def ask(node: str) -> bool:
        return (await stopping.stop(pb.StopNodeRequest(node=node))).changed

    for wrong in ("n2", ""):
        with pytest.raises(AdminError, match="this is n1: to stop another node") as caught:
            asyncio.run(ask(wrong))
        assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION
    assert stops == []
    # A second word would end it at once, as a second signal does.
    assert [asyncio.run(ask("n1")) for _ in range(3)] == [True, False, False]
    assert stops == ["stop"]


def test_a_worker_is_not_stopped_as_it_would_be_started_again() -> None:
    stops: list[str] = []
    process = OwnProcess(lambda: "", lambda: stops.append("stop"), is_worker=True)
    with pytest.raises(AdminError, match="its supervisor would start it again") as caught:
        asyncio.run(Stopping(NodeId("h"), process).stop(pb.StopNodeRequest(node="h")))
    assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION
    assert stops == []
