"""How shovels fare: those that this node runs, and all of the cluster.

Inputs: this node's view of the map, what is known of its own shovels, the other members. Outputs:
replies without users and passwords. One that nobody tells of is `unknown`, and at the member that
has to run it; who has that member run it is `fedq.node.views.shovel_view`.
"""

from collections.abc import Sequence
from typing import Final

from fedq.admin.members import OtherMembers
from fedq.admin.paging import vhost_of
from fedq.core.ids import NodeId, QueueKey
from fedq.node.views.overview_types import Overview
from fedq.node.views.shovel_view import LocalShovels, PlacedShovels, ShovelState, places
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.shovel_definitions import Shovel, ends_shown, first_uris

UNKNOWN: Final = "unknown"


class ShovelAnswers:
    """Answers about shovels. Belongs to one event loop."""

    __slots__ = ("_others", "_overview", "_own", "_placed")

    def __init__(
        self, overview: Overview, placed: PlacedShovels, others: OtherMembers, own: LocalShovels
    ) -> None:
        self._overview = overview
        self._placed = placed
        self._others = others
        self._own = own

    async def local(self, request: pb.ListShovelsRequest) -> pb.ListShovelsReply:
        """The shovels that this node runs."""
        me, states = self._overview.process()[0], self._own()
        defined = self._defined(request)
        return pb.ListShovelsReply(
            shovels=[
                _message(key, defined[key], me, state)
                for key, state in states.items()
                if key in defined
            ]
        )

    async def everywhere(
        self, request: pb.ListShovelsRequest, timeout_s: float
    ) -> pb.ListShovelsReply:
        """All shovels of the map, in order."""
        me = self._overview.process()[0]
        others = [each for each in self._overview.members() if each.node != me]
        asked = await self._others.ask(
            others, lambda stub, timeout: stub.LocalShovels(request, timeout=timeout), timeout_s
        )
        found: dict[QueueKey, pb.Shovel] = {}
        for one in (await self.local(request), *asked.values()):
            for shovel in one.shovels:
                found.setdefault(QueueKey(shovel.vhost, shovel.name), shovel)
        defined, placed = self._defined(request), places(self._placed)
        shovels = [
            found.get(key)
            or _message(key, shovel, placed.get(key, NodeId("")), ShovelState(UNKNOWN))
            for key, shovel in sorted(defined.items())
        ]
        silent = sorted([each.node for each in others if each.node not in asked])
        return pb.ListShovelsReply(shovels=shovels, silent_members=silent)

    def _defined(self, request: pb.ListShovelsRequest) -> dict[QueueKey, Shovel]:
        vhost = vhost_of(request)
        return {
            key: shovel
            for key, shovel in self._placed.shovels().items()
            if vhost in (None, key.vhost)
        }


def _message(key: QueueKey, shovel: Shovel, node: NodeId, state: ShovelState) -> pb.Shovel:
    source, destination = ends_shown(shovel)
    source_uri, destination_uri = first_uris(shovel)
    return pb.Shovel(
        vhost=key.vhost, name=key.name, node=node, state=state.state, since_ms=state.since_ms,
        messages=state.messages, bytes=state.bytes, unsettled=state.unsettled, error=state.error,
        restarts=state.restarts, source=source, destination=destination, source_uri=source_uri,
        destination_uri=destination_uri,
    )  # fmt: skip


def rows_of(shovels: Sequence[pb.Shovel]) -> list[dict[str, object]]:
    """Shovels as rows in RabbitMQ's words, and fedq's own where it has none."""
    return [
        {
            "name": each.name, "vhost": each.vhost, "type": "dynamic", "node": each.node,
            "state": each.state, "messages_moved": each.messages, "bytes_moved": each.bytes,
            "messages_unsettled": each.unsettled, "restarts": each.restarts,
            "src_uri": each.source_uri, "dest_uri": each.destination_uri,
            "src_protocol": "amqp091", "dest_protocol": "amqp091",
            "source": each.source, "destination": each.destination,
            **({"since_ms": each.since_ms} if each.since_ms else {}),
            **({"reason": each.error} if each.error else {}),
        }
        for each in shovels
    ]  # fmt: skip
