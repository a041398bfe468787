"""How many workers a host has room for, and what is said of more."""

import resource
from dataclasses import replace
from pathlib import Path

import pytest

from fedq.core.limits import MIB, RESERVED_DESCRIPTORS
from fedq.shell.config.file import parse
from fedq.shell.config.values import ConfigError, NodeConfig
from fedq.shell.host import room
from fedq.shell.host.process import CLIENTS_MIN


def wanting(workers: int | None) -> NodeConfig:
    return replace(parse({}, base=Path()), workers=workers)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a machine with four cores, 1,000 MiB, and all files that anybody wants."""
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1, 2, 3})
    (tmp_path / "proc/sys/fs").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: {1_000 * 1_024} kB\n")
    (tmp_path / "proc/sys/fs/file-nr").write_text("1000\t0\t1000000\n")
    return tmp_path


def refused(workers: int, root: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        room.worker_count(wanting(workers), root)
    return str(caught.value)


def test_auto_takes_the_cores_there_are_and_what_else_bounds_it(machine: Path) -> None:
    assert room.worker_count(wanting(None), machine) == 4
    (machine / "proc/meminfo").write_text(f"MemTotal: {300 * 1_024} kB\n")
    assert room.worker_count(wanting(None), machine) == 2
    (machine / "proc/meminfo").write_text("MemTotal: 1024 kB\n")
    assert room.worker_count(wanting(None), machine) == 1


def test_auto_of_a_large_machine_leaves_room_in_the_cluster(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {*range(128)})
    (machine / "proc/meminfo").unlink()
    assert room.worker_count(wanting(None), machine) == room.AUTO_MAX


def test_more_than_there_is_room_for_is_refused_with_the_number_that_works(machine: Path) -> None:
    assert room.worker_count(wanting(7), machine) == 7
    assert "8 are too many: each takes 128 MiB" in refused(8, machine)
    assert refused(8, machine).endswith("there are 1000 MiB; 7 would work")
    (machine / "proc/meminfo").unlink()
    assert room.worker_count(wanting(16), machine) == 16
    assert "may use 4 cores" in refused(17, machine)
    assert refused(17, machine).endswith("16 would work")


def test_descriptors_bound_workers_too(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / "proc/meminfo").unlink()
    limit = RESERVED_DESCRIPTORS + CLIENTS_MIN + 15
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100, limit))
    assert room.worker_count(wanting(3), machine) == 3
    text = refused(4, machine)
    assert f"each may open {limit} descriptors (ulimit -n, LimitNOFILE)" in text
    assert text.endswith("3 would work")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100, resource.RLIM_INFINITY))
    (machine / "proc/sys/fs/file-nr").write_text("99500\t0\t100000\n")
    text = refused(2, machine)
    assert "the system has 500 left" in text
    assert text.endswith("leave `workers` out")


def test_what_the_system_does_not_tell_bounds_nothing(machine: Path) -> None:
    for name in ("proc/meminfo", "proc/sys/fs/file-nr"):
        (machine / name).unlink()
    assert room.worker_count(wanting(16), machine) == 16


def test_the_memory_of_all_workers_is_what_a_node_would_have() -> None:
    assert room.workers_memory(wanting(2)) > MIB
    assert room.workers_memory(replace(wanting(2), memory_bytes_max=5 * MIB)) == 5 * MIB
