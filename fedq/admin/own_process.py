"""What the admin service knows, and may do, of the process that it is a part of."""

from collections.abc import Callable
from typing import NamedTuple

import grpc

from fedq.admin.changes import telling
from fedq.admin.refusal import AdminError
from fedq.core.ids import NodeId
from fedq.shell.pb import admin_pb2 as pb


class OwnProcess(NamedTuple):
    """The process of the node that is asked."""

    #: Where its admin port is reached, "host:port"; "": it has none.
    admin_address: Callable[[], str]
    #: Has it stop cleanly; called once.
    stop: Callable[[], None]
    #: The supervisor of a host's workers starts it again, however it ends.
    is_worker: bool = False


class Stopping:
    """Has this process stop, once."""

    __slots__ = ("_me", "_process", "_stops")

    def __init__(self, me: NodeId, process: OwnProcess) -> None:
        self._me = me
        self._process = process
        self._stops = False

    async def stop(self, request: pb.StopNodeRequest) -> pb.StopNodeReply:
        """Stops this node, if it is the one that is meant; raises AdminError."""
        if request.node != self._me:
            raise AdminError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"this is {self._me}: to stop another node ask that one",
            )
        if self._process.is_worker:
            raise AdminError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"{self._me} is a worker: its supervisor would start it again; stop that, with all "
                "workers of its host, on its own machine (SIGTERM)",
            )
        # A second word would end it at once, as a second signal does.
        changed, self._stops = not self._stops, True
        if changed:
            with telling(f"stop node {self._me}"):
                self._process.stop()
        return pb.StopNodeReply(changed=changed)
