"""The works of deep queues: more messages than memory is meant for, stored first, then taken out.

They run only when they are named, for the whole of them takes long and needs a large disk. Their
size is that of a `Scale`, given on the command line of `loadtests.macro`.

In: a scale. Out: the works with its numbers, and whether the disk has room for them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from loadtests.macro.works import Work

MIB: Final = 1 << 20
#: What a stored message takes beside its body, at most, in journals of either broker.
UPKEEP_BYTES: Final = 200
#: A part of the disk that stays free, so that no broker's own alarm for a full disk is measured.
SPARE_BYTES: Final = 2 << 30


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the works are."""

    messages: int
    body_bytes: int
    #: `limits.memory_bytes` of fedq.
    memory_bytes: int
    #: For the filling, and for the emptying; what is not done by then is not done.
    deadline_s: float

    @property
    def disk_bytes(self) -> int:
        """What one broker needs."""
        return self.messages * (self.body_bytes + UPKEEP_BYTES) + SPARE_BYTES


WHOLE: Final = Scale(20_000_000, 1_024, 512 * MIB, 1_800.0)
QUICK: Final = Scale(100_000, 1_024, 64 * MIB, 10.0)


def scaled(works: Iterable[Work], scale: Scale) -> list[Work]:
    """The works; those of deep queues with the numbers of the scale."""
    return [
        replace(
            work,
            options=(
                "--fill", str(scale.messages), "--size", str(scale.body_bytes), *work.options,
            ),
            memory_bytes=scale.memory_bytes,
            deadline_s=scale.deadline_s,
            # Emptying has a deadline of its own.
            patience_s=work.patience_s + scale.deadline_s,
        )
        if work.group.is_scaled
        else work
        for work in works
    ]  # fmt: skip


def room_problem(works: Iterable[Work], scale: Scale, free_bytes: int) -> str:
    """What to tell whoever asks for more than the disk has; "" if there is room."""
    if scale.disk_bytes <= free_bytes or not any(work.group.is_scaled for work in works):
        return ""
    return (
        f"{scale.messages:,} messages of {scale.body_bytes:,} bytes need "
        f"{scale.disk_bytes / 1e9:.1f} GB of disk, and {free_bytes / 1e9:.1f} GB are free: give "
        "fewer --messages, or a larger disk by TMPDIR"
    )
