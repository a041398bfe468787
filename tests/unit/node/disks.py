"""The disk of a node in memory, as far as bodies are concerned: what is read, and scratch files.

Input: the lanes of a turn. Output: what the node hears in its next one. It refuses to write while
there is a `refusal`, and has no scratch files of an earlier process. Bytes of a file can be bad:
whatever is read of it with one of them fails.
"""

from collections.abc import Callable
from functools import partial

from fedq.node.node import Node
from fedq.node.outbox import ReadWanted
from tests.unit.node.inputs import has_not_read, has_read, wrote


class ScratchDisk:
    """Scratch files of one node, by their negative numbers, beside its segments."""

    def __init__(self) -> None:
        self.files: dict[int, bytearray] = {}
        #: Why nothing is written; empty: all is.
        self.refusal = ""
        #: By file, from which byte up to which: these cannot be read.
        self.bad: dict[int, list[tuple[int, int]]] = {}
        #: Bytes that were asked for, read by read.
        self.asked: list[int] = []
        self._of: Node | None = None

    def carry_out(self, node: Node, segments: dict[int, bytearray]) -> list[Callable[[Node], None]]:
        """Writes, deletes and reads what a turn wants."""
        if node is not self._of:
            self._of, self.files = node, {}
        out = node.out
        heard: list[Callable[[Node], None]] = []
        for piece in out.scratch:
            if not self.refusal:
                file = self.files.setdefault(piece.segment, bytearray())
                file[piece.offset :] = piece.data
            heard.append(partial(wrote, piece=piece, refusal=self.refusal))
        for segment in out.scratch_drops:
            self.files.pop(segment, None)
        for wanted in out.reads:
            disk = segments if wanted.segment > 0 else self.files
            self.asked.append(wanted.length)
            if self._is_bad(wanted):
                heard.append(partial(has_not_read, wanted=wanted))
            else:
                heard.append(partial(has_read, wanted=wanted, disk=disk))
        return heard

    def _is_bad(self, wanted: ReadWanted) -> bool:
        end = wanted.offset + wanted.length
        bad = self.bad.get(wanted.segment, ())
        return any(first < end and wanted.offset < stop for first, stop in bad)
