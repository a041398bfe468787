"""What the service manager hears, on a real datagram socket."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from fedq.shell.host.service_manager import ServiceManager

WITHIN_S = 20.0
Story = Callable[[ServiceManager], Awaitable[None]]


class Listener:
    """A service manager's socket, whose datagrams a test takes one by one."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)

    async def next(self) -> str:
        """The next datagram."""
        loop = asyncio.get_running_loop()
        return (await asyncio.wait_for(loop.sock_recv(self._socket, 4_096), WITHIN_S)).decode()

    def waiting(self) -> list[str]:
        """What has come and was not taken yet."""
        found: list[str] = []
        while True:
            try:
                found.append(self._socket.recv(4_096).decode())
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "notify")


@pytest.fixture
def listener(place: str) -> Iterator[Listener]:
    listener = Listener(place)
    yield listener
    listener.close()


def told(environment: dict[str, str], status: list[str], story: Story) -> None:
    """Plays a story inside the manager; the last status is what the node does."""

    async def main() -> None:
        with ServiceManager(lambda: status[-1], environment) as manager:
            await story(manager)

    asyncio.run(main())


def test_a_node_is_ready_says_what_it_does_and_that_it_stops(
    place: str, listener: Listener
) -> None:
    status = ["waits"]

    async def story(manager: ServiceManager) -> None:
        assert await listener.next() == "READY=1"
        assert await listener.next() == "STATUS=waits"
        status.append("serves")
        assert await listener.next() == "STATUS=serves"
        status.append("stops")
        manager.stopping()
        assert listener.waiting() == ["STOPPING=1", "STATUS=stops"]

    told({"NOTIFY_SOCKET": place}, status, story)


def test_a_watched_node_beats_until_its_end(place: str, listener: Listener) -> None:
    async def story(manager: ServiceManager) -> None:
        heard = [await listener.next() for _ in range(5)]
        assert heard == ["READY=1", "STATUS=serves", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]
        manager.stopping()
        assert "STOPPING=1" in [await listener.next(), await listener.next()]
        while await listener.next() != "WATCHDOG=1":
            pass

    environment = {"NOTIFY_SOCKET": place, "WATCHDOG_USEC": "90000"}
    told({**environment, "WATCHDOG_PID": str(os.getpid())}, ["serves"], story)


@pytest.mark.parametrize(
    "watchdog",
    [
        {},
        {"WATCHDOG_USEC": "30000", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "0"},
    ],
)
def test_nobody_is_sent_beats_that_are_not_asked_of_this_process(
    place: str, listener: Listener, watchdog: dict[str, str]
) -> None:
    status = ["serves"]

    async def story(manager: ServiceManager) -> None:
        assert [await listener.next() for _ in range(2)] == ["READY=1", "STATUS=serves"]
        status.append("fenced")
        assert await listener.next() == "STATUS=fenced"
        assert listener.waiting() == []

    told({"NOTIFY_SOCKET": place, **watchdog}, status, story)


def test_an_abstract_name_is_reached() -> None:
    name = f"fedq-test-{os.getpid()}"
    listener = Listener(f"\0{name}")

    async def story(manager: ServiceManager) -> None:
        assert await listener.next() == "READY=1"

    try:
        told({"NOTIFY_SOCKET": f"@{name}"}, ["serves"], story)
    finally:
        listener.close()


def test_what_nobody_has_room_for_is_said_later_and_beats_are_not_kept(
    place: str, listener: Listener
) -> None:
    status = ["0"]
    full = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    full.setblocking(False)
    fillers = 0
    try:
        while True:
            full.sendto(b"x", place)
            fillers += 1
    except BlockingIOError:
        full.close()

    async def story(manager: ServiceManager) -> None:
        # Each of these would have sent a beat.
        for _ in range(20):
            await asyncio.sleep(0)
            manager._tell()
        assert listener.waiting() == ["x"] * fillers
        assert [await listener.next() for _ in range(3)] == ["READY=1", "STATUS=0", "WATCHDOG=1"]

    told({"NOTIFY_SOCKET": place, "WATCHDOG_USEC": "60000"}, status, story)


def test_a_manager_that_is_gone_is_told_in_the_log_and_harms_nobody(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(manager: ServiceManager) -> None:
        manager.stopping()

    told({"NOTIFY_SOCKET": place}, ["serves"], story)
    assert "the service manager cannot be told READY=1" in caplog.text


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2"}])
def test_without_a_manager_nothing_is_said(environment: dict[str, str]) -> None:
    def unasked() -> str:
        raise AssertionError("nobody wants to know")

    async def main() -> None:
        with ServiceManager(unasked, environment) as manager:
            manager.stopping()

    asyncio.run(main())
