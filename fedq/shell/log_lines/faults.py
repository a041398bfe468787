"""Log lines about exceptions that were contained: with the traceback, but not for each of many.

A client that finds one may send it a thousand times. Of one cause (where it was raised, and what)
a line a second is written; it says how many there were since the last one.
"""

import logging
import traceback
from typing import Final

from fedq.node.risk import Fault

_EVERY_MS: Final = 1_000
#: Causes that are remembered; they are places in the code, so there are few.
_CAUSES_MAX: Final = 256

logger = logging.getLogger("fedq.node")


class FaultLog:
    """The log lines about one kind of thing that fails."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        #: By cause: when the last line was written, and how many were not since.
        self._seen: dict[str, tuple[int, int]] = {}

    def note(self, fault: Fault, now_ms: int) -> None:
        """Notes one more fault."""
        cause = _cause(fault.error)
        when_ms, left_out = self._seen.get(cause, (now_ms - _EVERY_MS, 0))
        if now_ms - when_ms < _EVERY_MS:
            self._seen[cause] = (when_ms, left_out + 1)
            return
        if len(self._seen) >= _CAUSES_MAX:
            self._seen.clear()
        self._seen[cause] = (now_ms, 0)
        words = f": {fault.error}" if fault.may_tell else ""
        logger.error(
            "%s (%s%s; %d more like it since the last line)\n%s",
            fault.text,
            type(fault.error).__name__,
            words,
            left_out,
            "".join(traceback.format_tb(fault.error.__traceback__)).rstrip(),
        )


def _cause(error: Exception) -> str:
    """The kind of an exception and where it was raised."""
    place = "nowhere"
    trace = error.__traceback__
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__} at {place}"
