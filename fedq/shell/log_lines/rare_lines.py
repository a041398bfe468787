"""Log lines that strangers cause: a few within a time, and how many more there were.

In: what happened, as often as it does. Out: WARNINGs and ERRORs, not more than so many in ten
seconds; each says how many were not told before it, and how many there were in all.
"""

import logging
from collections.abc import Callable
from typing import Final

from fedq.core.limits import FAILED_LOGINS_TOLD

_WITHIN_S: Final = 10.0


class RareLines:
    """The log lines about one kind of event."""

    __slots__ = ("_clock", "_logger", "_since_s", "_told", "_untold", "total")

    def __init__(self, logger: logging.Logger, clock: Callable[[], float]) -> None:
        self._logger = logger
        self._clock = clock
        #: How often it has happened.
        self.total = 0
        self._since_s = float("-inf")
        self._told = 0
        self._untold = 0

    def warn(self, text: str, *details: object) -> None:
        """Notes that it has happened once more, with a WARNING if there is room for one."""
        self._note(logging.WARNING, text, details)

    def error(self, text: str, *details: object) -> None:
        """As `warn`, with an ERROR."""
        self._note(logging.ERROR, text, details)

    def _note(self, level: int, text: str, details: tuple[object, ...]) -> None:
        self.total += 1
        now = self._clock()
        if now - self._since_s >= _WITHIN_S:
            self._since_s, self._told = now, 0
        if self._told >= FAILED_LOGINS_TOLD:
            self._untold += 1
            return
        self._told += 1
        if self._untold:
            text += " (%d more were not told, %d in all)"
            details = (*details, self._untold, self.total)
            self._untold = 0
        self._logger.log(level, text, *details)
