"""A disk that can be filled: a small file system of its own, where the machine allows one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[Path]:
    """A file system of this size (as `mount` writes it); the test is skipped where none can be."""
    directory.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(directory)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(directory: Path) -> Path:
    """Takes all the room that is left, to the last byte; returns the file that does."""
    path = directory / "filler"
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        size = 1 << 20
        while size:
            try:
                os.write(file, bytes(size))
            except OSError:
                size //= 2
    finally:
        os.close(file)
    return path
