"""Dialling peers: one that has moved, and many that are away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from fedq.core.ids import Incarnation, NodeId
from fedq.shell.peers import client as dialing
from fedq.shell.peers import stream
from fedq.shell.peers.client import PeerClient
from fedq.shell.peers.desk import PeerDesk
from fedq.shell.peers.hello import Hello, Process
from tests.integration.ports import free_ports
from tests.unit.shell.fakes import run, until

B = NodeId("b")


class Told:
    """What a client says of its links."""

    def __init__(self) -> None:
        #: Each time that the link broke: whether the process is gone for sure.
        self.refused: list[bool] = []

    def on_link_up(self, *_: object) -> None:
        raise AssertionError("nobody listens")

    def on_link_down(self, _: NodeId, refused: bool) -> None:
        self.refused.append(refused)

    def on_peer_connected(self, _: NodeId) -> None:
        raise AssertionError("nobody listens")

    def on_peer_disconnected(self, _: NodeId) -> None:
        """The stream of the log; the other one is looked at."""


@asynccontextmanager
async def dialled(told: Told) -> AsyncIterator[PeerClient]:
    def feed(method: Callable[..., None], *arguments: object) -> None:
        method(*arguments)

    hello = Hello(NodeId("a"), Process(Incarnation(1), "s", 1), {})
    desk = PeerDesk(hello, 1.0, asyncio.get_running_loop().time, lambda *_: None)
    failed: list[str] = []
    client = PeerClient(desk, told, feed, told, None, failed.append)
    try:
        yield client
    finally:
        await client.stop()
        assert not failed


def test_a_probe_of_where_a_node_was_says_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = (f"127.0.0.1:{port}" for port in free_ports(2))

    async def scene() -> None:
        probing, goes_on = asyncio.Event(), asyncio.Event()

        async def refuses(address: str) -> bool:
            if address == before:
                probing.set()
                await goes_on.wait()
            return address == before

        monkeypatch.setattr(dialing, "refuses_connections", refuses)
        told = Told()
        async with dialled(told) as client:
            client.reach(B, (before,))
            await probing.wait()
            client.reach(B, (after,))
            known = len(told.refused)
            goes_on.set()
            await until(lambda: len(told.refused) > known)
            assert told.refused == [False] * len(told.refused)

    run(scene())


def test_who_has_been_away_for_long_is_dialled_less_often_until_it_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, after = (f"127.0.0.1:{port}" for port in free_ports(2))
    # After the second attempt an hour would pass.
    monkeypatch.setattr(stream, "_SHARE_OF_ABSENCE", 1e9)
    monkeypatch.setattr(stream, "_RETRY_REFUSED_S", 3_600.0)

    async def scene() -> None:
        told = Told()
        async with dialled(told) as client:
            client.reach(B, (before,))
            link = client._peers[B].link
            await until(lambda: link._failing_s is not None and link._pause_s() == 3_600.0)
            await until(lambda: len(told.refused) >= 2)
            known = len(told.refused)
            client.reach(B, (after,))
            await until(lambda: len(told.refused) > known)

    run(scene())
