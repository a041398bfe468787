"""Opening files when the process has no descriptors left: spares, and patience.

Inputs: what `os.open` takes. Outputs: descriptors. Strangers may use up a process's descriptors or
the system's (EMFILE, ENFILE); that is no broken disk, and what a node has to write must not
depend on it. So a few descriptors are kept for files, held by handles that lead nowhere; when
there is none left, one of them makes room. They are taken back by `refill`.

Invariant: `open_file` raises for a lack of descriptors only after `patience_s`, and has said so
before. It may wait for as long as that: on the event loop it is for the start of a process only.
"""

import errno
import logging
import os
import threading
import time
from pathlib import Path
from typing import Final

from fedq.core.limits import SPARE_DESCRIPTORS

#: For so long the descriptors of a system may be used up before that counts as a failure.
PATIENCE_S: Final = 30.0
_PAUSE_S: Final = 0.05

logger = logging.getLogger(__name__)


class Spares:
    """The descriptors that one process keeps for its files. Any thread may use them."""

    __slots__ = ("_guard", "_spares")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._spares: list[int] = []

    def refill(self) -> bool:
        """Keeps as many as there should be, as far as there are any; False if some are missing."""
        with self._guard:
            while len(self._spares) < SPARE_DESCRIPTORS:
                try:
                    self._spares.append(os.open(os.devnull, os.O_RDONLY))
                except OSError as error:
                    if not is_shortage(error):
                        raise
                    return False
        return True

    @property
    def kept(self) -> tuple[int, ...]:
        """The descriptors that are kept at present."""
        with self._guard:
            return tuple(self._spares)

    def open_file(self, path: str | Path, flags: int, mode: int = 0o600) -> int:
        """`os.open` of a file that has to be opened; raises `OSError`."""
        deadline, warned = time.monotonic() + PATIENCE_S, False
        while True:
            try:
                return os.open(path, flags, mode)
            except OSError as error:
                if not is_shortage(error) or time.monotonic() > deadline:
                    raise
                shortage = error
            given = self._give_up_one()
            if not warned:
                warned = True
                logger.warning(
                    "no descriptors left to open %s (%s); %s. Raise the limit of open files "
                    "(ulimit -n), or see who holds so many connections",
                    path,
                    errno.errorcode[shortage.errno or 0],
                    "a spare one is used" if given else f"it is tried for {PATIENCE_S:.0f} s",
                )
            if not given:
                time.sleep(_PAUSE_S)

    def _give_up_one(self) -> bool:
        with self._guard:
            if not self._spares:
                return False
            os.close(self._spares.pop())
            return True


def is_shortage(error: OSError) -> bool:
    """Whether this says that the process or the system has no descriptors left."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


#: This process's.
SPARES: Final = Spares()
