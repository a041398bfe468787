"""What an operator hears of a disk that fails at the start."""

import errno
from pathlib import Path

import pytest

from fedq.shell.disk.durable_files import disk_failure


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, "make room"), (errno.EIO, "check the disk")]
)
def test_a_disk_that_fails_at_the_start_is_told_in_a_sentence(number: int, advice: str) -> None:
    error = OSError(number, "it does not work")
    error.filename = "/data/journal/vouch"
    text = str(disk_failure(error, Path("/data")))
    assert "/data/journal/vouch: it does not work" in text
    assert f"{errno.errorcode[number]}); {advice}, then start the node again" in text
