"""What the C library does with memory that was freed: small blocks stay, large ones go back.

glibc decides by two numbers (mallopt(3)): blocks beyond M_MMAP_THRESHOLD have a mapping of their
own, which ends with them; of the others, what is free at the end of the heap goes back beyond
M_TRIM_THRESHOLD. Unless they are set, both grow with the largest block that was ever freed. Then a
node that has had messages of some MiB keeps holes of that size between what lives: one was seen to
hold 24 MiB in 103.

What stays counts as resident: were it as much as the node may hold, publishers would wait at half
of that already (`fedq.node.clients.memory`).

Turns are small by their bounds. If they gave back what they freed, each would fault its memory in
again, at 5 % of the processor time: hence the second number. Other C libraries have no `mallopt`.
"""

import ctypes
from typing import Final

from fedq.core.limits import MIB

#: What is at least so large goes back to the system when it is freed.
LARGE_BLOCK_BYTES: Final = 2 * MIB
#: Freed memory up to this stays with the process, where it may hold much; else an eighth of that.
KEPT_BYTES_MAX: Final = 32 * MIB
_KEPT_SHIFT: Final = 3

#: Names of parameters in <malloc.h>.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def settle_allocator(memory_bytes: int) -> bool:
    """Sets both numbers for a process that holds so much; false where the C library has none."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    large = mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
    kept = mallopt(_M_TRIM_THRESHOLD, min(KEPT_BYTES_MAX, memory_bytes >> _KEPT_SHIFT))
    return bool(large and kept)
