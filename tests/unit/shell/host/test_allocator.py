"""What a process keeps of freed memory."""

import subprocess
import sys

import pytest

from fedq.core.limits import MIB

#: Messages of some MiB between small things that live on: what is left resident once they are gone.
SCRIPT = """
from fedq.shell.host.allocator import settle_allocator
from fedq.shell.host.resources import resident_bytes
if not settle_allocator():
    print("none")
    raise SystemExit
before = resident_bytes()
held, living = [], []
for size in range(3, 12):
    held += [bytes(b"x") * (size << 20) for _ in range(5)]
    living += [bytes(100_000) for _ in range(20)]
    del held[::2]
del held
print(resident_bytes() - before - sum(map(len, living)))
"""


def test_large_blocks_go_back_to_the_system() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    said = done.stdout.strip()
    if said == "none":
        pytest.skip("this C library has no mallopt")
    assert int(said) < 8 * MIB
