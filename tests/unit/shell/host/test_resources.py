"""What a node takes for its own of a machine, and what it hears of memory and disk."""

import asyncio
import socket
from pathlib import Path

import pytest

from fedq.core.limits import MIB, NODE_MEMORY_BYTES_MAX
from fedq.shell.clients.keep_alive import keep_alive
from fedq.shell.host import resources
from fedq.shell.host.resources import ResourceWatch, memory_default, resident_bytes
from tests.unit.shell.fakes import run, until

GIB = 1024 * MIB
MEMINFO = "MemTotal:       10485760 kB\nMemFree:          100 kB\n"


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, NODE_MEMORY_BYTES_MAX),
        ({"proc/meminfo": MEMINFO}, 4 * GIB),
        # A group of its own (systemd), one above it that is smaller, and a container's view.
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "0::/system.slice/fedq.service\n",
                "sys/fs/cgroup/system.slice/fedq.service/memory.max": "5368709120\n",
            },
            2 * GIB,
        ),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/memory.max": "2684354560\n",
            },
            GIB,
        ),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": "2684354560\n",
            },
            GIB,
        ),
        # The older kind, whose "no limit" is a number beyond any machine.
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "3:cpu:/x\n4:memory:/x\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "2684354560\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            GIB,
        ),
    ],
)
def test_memory_follows_the_machine_and_its_control_group(
    tmp_path: Path, files: dict[str, str], wanted: int
) -> None:
    assert memory_default(machine(tmp_path, files)) == wanted


def test_the_node_hears_twice_a_second_how_things_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "REPORT_S", 0.01)
    heard: list[tuple[int, int, int]] = []

    async def test() -> None:
        loop = asyncio.get_running_loop()
        watch = ResourceWatch(
            loop, tmp_path, resident_bytes() - 5 * MIB, lambda: 7, lambda *all: heard.append(all)
        )
        await until(lambda: heard and heard[-1][2] > 0)
        watch.stop()

    run(test())
    waiting, resident, disk_free = heard[-1]
    assert waiting == 7
    assert 3 * MIB < resident < 500 * MIB
    assert disk_free > 0


def test_a_disk_that_is_not_there_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "REPORT_S", 0.01)
    heard: list[int] = []

    async def test() -> None:
        watch = ResourceWatch(
            asyncio.get_running_loop(), tmp_path / "none", 0, lambda: 0,
            lambda *all: heard.append(all[2]),
        )  # fmt: skip
        await until(lambda: len(heard) > 5)
        watch.stop()

    run(test())
    assert set(heard) == {-1}


def test_connections_are_probed_by_the_system() -> None:
    with socket.socket() as connection:
        keep_alive(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
    one, other = socket.socketpair()
    with one, other:
        keep_alive(one)
