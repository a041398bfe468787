"""The cluster's name in the data directory, on a disk that does not take it at once."""

import asyncio
import errno
from pathlib import Path

import pytest

from fedq.core.ids import NodeId
from fedq.shell import cluster_mark, identity
from fedq.shell.cluster_mark import ClusterMark
from fedq.shell.disk.durable_files import replace_durably
from fedq.shell.identity import IdentityFile

VOTERS = [NodeId("n1")]


def test_a_full_disk_ends_nothing_and_gets_the_name_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "journal").mkdir()
    file = IdentityFile(tmp_path, VOTERS[0], VOTERS)
    file.begin()
    write, tries = replace_durably, list[str]()
    noted: asyncio.Event

    def full(path: Path, data: bytes) -> None:
        tries.append(path.name)
        if len(tries) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)
        noted.set()

    async def scenario() -> None:
        nonlocal noted
        noted = asyncio.Event()
        ClusterMark(file, asyncio.get_running_loop()).note("c1")
        # It counts at once.
        assert file.cluster == "c1"
        await asyncio.wait_for(noted.wait(), 10)

    monkeypatch.setattr(identity, "replace_durably", full)
    monkeypatch.setattr(cluster_mark, "_AGAIN_S", 0.01)
    asyncio.run(scenario())
    assert len(caplog.messages) == 1
    assert "No space left" in caplog.messages[0]
    assert IdentityFile(tmp_path, VOTERS[0], VOTERS).begin().cluster == "c1"
