"""How much of a line with bodies on disk alone is kept in memory, its beginning; and what may go.

Inputs: what the node may hold, how many lines it has. Output: bytes.
"""

from typing import Final

from fedq.core.limits import KIB, MIB
from fedq.fragments.runs.in_flight import RUN_BYTES_MIN
from fedq.node.records.state import NodeState

#: What the beginning of a line keeps: at most, at least, and in what part of memory, as a shift.
_KEEP_BYTES_MAX: Final = 4 * MIB
_KEEP_BYTES_MIN: Final = 64 * KIB
_KEEP_SHIFT: Final = 6


def least_run_bytes(state: NodeState) -> int:
    """What a run has at least that leaves memory while a taker has it."""
    return min(RUN_BYTES_MIN, kept_bytes(state))


def kept_bytes(state: NodeState) -> int:
    """What the beginning of each line keeps in memory: less where there are many of them."""
    settings = state.settings
    if settings.read_ahead_bytes:
        return settings.read_ahead_bytes
    lines = len(state.primaries) + len(state.backups)
    most = min(settings.memory_bytes_max >> _KEEP_SHIFT, _KEEP_BYTES_MAX)
    return max(_KEEP_BYTES_MIN, min(most, (settings.stow_above >> 1) // max(lines, 1)))
