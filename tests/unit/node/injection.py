"""An exception at any call of a node's turn: of one after the other, in a world made anew.

Python's own calls are counted (`sys.settrace`), so this is for the pure modules.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType
from typing import Any

import fedq

_ROOT = str(Path(fedq.__file__).parent)
#: Where a client's and a message's content are worked on; the shell is not there.
_FLOORS = tuple(
    f"{_ROOT}/{floor}/"
    for floor in ("amqp", "fragments", "node", "proxy", "replication", "channels", "wiring")
)


#: What works on messages themselves.
ON_MESSAGES = tuple(
    f"{_ROOT}/{place}"
    for place in (
        "fragments/", "channels/", "amqp/", "proxy/hub", "proxy/publisher",
        "node/publishing/admission", "node/publishing/dead_letters", "node/publishing/fan_out",
        "node/publishing/outlets", "node/publishing/publish_flow", "node/consuming/consume_flow",
        "node/consuming/getting", "node/consuming/settle_flow", "node/copies/fragment_flow",
        "node/records/settling",
    )
)  # fmt: skip


class Injected(Exception):
    """The exception that is put in."""


class Injector:
    """Counts calls below the line; raises in one of them."""

    def __init__(self, at: int = 0, places: tuple[str, ...] = _FLOORS, only: str = "") -> None:
        """`at`: the number of the call that raises; 0: none does. `places`: where calls count.

        `only`: calls of this function alone, as `place` names one.
        """
        self._places = places
        self._only = only
        self.calls = 0
        #: The function that raised.
        self.place = ""
        self._at = at

    def _on_call(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # A generator is called when it is thrown away, too; then nobody would hear of it.
        if event != "call" or code.co_flags & CO_GENERATOR:
            return
        if code.co_filename.startswith(self._places):
            if self._only and f"{code.co_filename}:{code.co_qualname}" != self._only:
                return
            self.calls += 1
            if self.calls == self._at:
                self.place = f"{code.co_filename}:{code.co_qualname}"
                raise Injected(self.place)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Calls count within."""
        before = sys.gettrace()
        sys.settrace(self._on_call)
        try:
            yield
        finally:
            sys.settrace(before)


def calls_of(run: Callable[[Injector], object]) -> int:
    """How many calls there are in a run without a fault."""
    counted = Injector()
    run(counted)
    return counted.calls
