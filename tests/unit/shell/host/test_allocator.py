"""What a process keeps of freed memory."""

import subprocess
import sys

import pytest

from fedq.core.limits import MIB

#: Messages of some MiB between small things that live on: what is left resident once they are gone.
SCRIPT = """
import sys
from fedq.shell.host.allocator import settle_allocator
from fedq.shell.host.resources import resident_bytes
if not settle_allocator(int(sys.argv[1])):
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


#: Small things, freed in the order in which they came: what is left at the end of the heap.
SMALL = """
import sys
from fedq.shell.host.allocator import settle_allocator
from fedq.shell.host.resources import resident_bytes
if not settle_allocator(int(sys.argv[1])):
    print("none")
    raise SystemExit
before = resident_bytes()
held = [bytes(b"x") * 4_096 for _ in range(6_000)]
del held
print(resident_bytes() - before)
"""


def left(script: str, memory_bytes: int) -> int:
    """What a process of its own has resident at the end, that may hold so much."""
    command = [sys.executable, "-c", script, str(memory_bytes)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if said == "none":
        pytest.skip("this C library has no mallopt")
    return int(said)


def test_large_blocks_go_back_to_the_system() -> None:
    assert left(SCRIPT, 1024 * MIB) < 8 * MIB


def test_who_may_hold_little_keeps_little_of_what_was_freed() -> None:
    assert left(SMALL, 16 * MIB) < 4 * MIB
    assert left(SMALL, 1024 * MIB) > 16 * MIB, "faulting memory in again is what costs"
