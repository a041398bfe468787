"""A node's part of its shovels: a process while there are some, and none that outlives it."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from fedq.core.ids import NodeId, QueueKey
from fedq.shovel import host as host_module
from fedq.shovel.host import ShovelHost
from fedq.shovel.peer import Local
from fedq.wiring.cluster_map.shovel_definitions import Shovel, shovel_of
from tests.unit.shell.fakes import until
from tests.unit.shovel.brokers import FakeBroker, listening

pytestmark = pytest.mark.slow

KEY = QueueKey("/", "s")


class Placed:
    """A map with shovels, all of which one member runs."""

    def __init__(self) -> None:
        self.said: dict[QueueKey, str] = {}
        self.member = NodeId("n")
        self.looks = 0
        #: What happens next instead of a deletion.
        self.instead: Callable[[], None] | None = None

    def put(self, source: FakeBroker, dest: FakeBroker, **more: Any) -> None:
        value = {
            "src-uri": f"amqp://me:s3cret@127.0.0.1:{source.port}", "src-queue": "from",
            "dest-uri": f"amqp://127.0.0.1:{dest.port}", "dest-queue": "to", **more,
        }  # fmt: skip
        self.said[KEY] = orjson.dumps(value).decode()

    def shovels(self) -> dict[QueueKey, Shovel]:
        return {key: shovel_of(orjson.loads(value)) for key, value in self.said.items()}

    def values(self) -> dict[QueueKey, str]:
        return dict(self.said)

    def runners(self) -> list[NodeId]:
        self.looks += 1
        return [self.member]


def played(
    monkeypatch: pytest.MonkeyPatch,
    script: Callable[[ShovelHost, Placed, FakeBroker, FakeBroker], Awaitable[None]],
) -> list[QueueKey]:
    """What was to be deleted in a script with two brokers."""
    monkeypatch.setattr(host_module, "_LOOK_S", 0.05)
    monkeypatch.setattr(host_module, "_AGAIN_S", 0.05)
    dropped: list[QueueKey] = []

    async def run() -> None:
        host, placed = ShovelHost(NodeId("n")), Placed()
        source, dest = FakeBroker(3), FakeBroker()

        async def drop(key: QueueKey) -> None:
            dropped.append(key)
            instead, placed.instead = placed.instead, None
            if instead is None:
                placed.said.pop(key)
            else:
                instead()

        async with listening(source, dest):
            host.start(placed, Local("", 0, False), drop)
            try:
                await script(host, placed, source, dest)
            finally:
                await host.stop()
            assert host.states() == {}

    asyncio.run(run())
    return dropped


def process_of(host: ShovelHost) -> Any:
    return host._process


def command_line_of(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def test_a_shovel_is_run_while_it_is_this_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(
        host: ShovelHost, placed: Placed, source: FakeBroker, dest: FakeBroker
    ) -> None:
        placed.member = NodeId("another")
        placed.put(source, dest)
        await until(lambda: placed.looks > 3)
        assert process_of(host) is None
        placed.member = NodeId("n")
        await until(lambda: KEY in host.states() and host.states()[KEY].messages == 3)
        process = process_of(host)
        assert b"s3cret" not in command_line_of(process.pid)
        placed.member = NodeId("another")
        await until(lambda: process_of(host) is None)
        assert process.returncode == 0

    assert played(monkeypatch, script) == []


def test_one_that_is_done_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(
        host: ShovelHost, placed: Placed, source: FakeBroker, dest: FakeBroker
    ) -> None:
        placed.put(source, dest, **{"src-delete-after": "queue-length"})
        await until(lambda: not placed.said)
        assert len(dest.published) == 3

    assert played(monkeypatch, script) == [KEY]


def test_a_process_that_is_killed_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(
        host: ShovelHost, placed: Placed, source: FakeBroker, dest: FakeBroker
    ) -> None:
        placed.put(source, dest)
        await until(lambda: len(dest.published) == 3)
        first = process_of(host)
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: process_of(host) not in (None, first))
        await until(lambda: len(dest.published) == 6)

    assert played(monkeypatch, script) == []


def test_one_that_is_set_anew_as_it_is_done_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(
        host: ShovelHost, placed: Placed, source: FakeBroker, dest: FakeBroker
    ) -> None:
        def set_anew() -> None:
            placed.put(source, dest)
            raise TimeoutError("no quorum")

        placed.instead = set_anew
        placed.put(source, dest, **{"src-delete-after": "queue-length"})
        await until(lambda: len(dest.published) == 6)
        looks = placed.looks
        await until(lambda: placed.looks > looks + 20)
        assert placed.said

    assert played(monkeypatch, script) == [KEY]


def test_the_same_one_made_again_moves_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(
        host: ShovelHost, placed: Placed, source: FakeBroker, dest: FakeBroker
    ) -> None:
        # As fast as that: it went and is there again between two looks.
        placed.instead = lambda: None
        placed.put(source, dest, **{"src-delete-after": "queue-length"})
        await until(lambda: not placed.said)
        assert len(dest.published) == 6

    assert played(monkeypatch, script) == [KEY, KEY]


def test_a_process_that_takes_no_orders_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(
        host: ShovelHost, placed: Placed, source: FakeBroker, dest: FakeBroker
    ) -> None:
        placed.put(source, dest)
        await until(lambda: len(dest.published) == 3)
        first, changes = process_of(host), 0
        os.kill(first.pid, signal.SIGSTOP)

        def changed() -> bool:
            nonlocal changes
            changes += 1
            placed.put(source, dest, **{"src-queue-args": {"x": "y" * 3_000 + str(changes)}})
            return first.returncode is not None

        await until(changed)
        await until(lambda: process_of(host) not in (None, first))

    monkeypatch.setattr(host_module, "LINE_BYTES_MAX", 10_000)
    assert played(monkeypatch, script) == []
