"""How much of the disk a broker uses while it works.

In: its directory. Out: the most that its files took at any look.
"""

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

#: Between two looks.
_LOOK_S: Final = 0.2


def size_of(directory: Path) -> int:
    """What all files below a directory take, in bytes; those that go meanwhile count nothing."""
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


class DiskWatch:
    """Looks at a directory again and again, from its context's begin to its end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="disk-watch", daemon=True)
        self.most = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            self.most = max(self.most, size_of(self._directory))
            self._ended.wait(_LOOK_S)
