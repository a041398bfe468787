"""The messages of a stream, as an interval list in memory and on disk: its end stays in memory.

Inputs: as for `fedq.fragments.runs.fresh`, whose line this is. Outputs: the same. A queue is taken
from its beginning, so that is what it keeps in memory; the readers of a stream are anywhere in it,
and mostly at its end. What they want of the rest is read for them, and is not put back here.
"""

from bisect import bisect_left

from fedq.core.ids import first_position, reign_of
from fedq.core.ranges import Range
from fedq.fragments.runs.fresh import Fresh
from fedq.fragments.runs.run_parts import weigh_run
from fedq.fragments.runs.runs import Run


class StreamRuns(Fresh):
    """Messages of a stream. No run has gaps here."""

    __slots__ = ()

    def reigns(self) -> list[Range]:
        """From where to where the messages of each reign go, ascending; few may lack in between.

        The runs are not walked, since there may be many.
        """
        found: list[Range] = []
        runs, index = self._runs, self._head
        while index < len(runs):
            first = runs[index].first
            behind: int = first_position(reign_of(first) + 1)
            index = bisect_left(runs, behind, index, key=_first_of)
            found.append((first, runs[index - 1].last))
        return found

    def stow(self, through: int, keep: int, beyond: int = 0, most: int = 1 << 62) -> int:
        """Lets go of the bodies of persistent messages up to a position: the disk has these.

        About `keep` bytes at the end of the line stay. `most`: so many messages are looked at.
        Returns how many bytes went.
        """
        return super().stow(min(through, self._end(keep) - 1), 0, 0, most)

    def _index_to_stow_from(self, keep: int) -> int:
        """The index of the first run."""
        return self._head

    def _end(self, keep: int) -> int:
        """The position from which on the line has about so many bytes, or all it has in memory."""
        position = 0
        for index in range(len(self._runs) - 1, self._head - 1, -1):
            run = self._runs[index]
            if run.stowed:
                break
            position = run.first
            size = weigh_run(run)
            if size >= keep:
                position = run.last + 1
                for message in reversed(run.messages):
                    assert message is not None
                    if keep <= 0:
                        break
                    keep -= len(message)
                    position -= 1
                break
            keep -= size
        return position


def _first_of(run: Run) -> int:
    return run.first
