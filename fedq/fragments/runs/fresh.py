"""The line of messages that were never handed out, as an interval list in memory and on disk.

Inputs: batches of messages at consecutive positions, how many are wanted, up to which position the
disk has them; what was read from there. Outputs: messages in their order, and what is on disk alone
(*stowed*: RabbitMQ says paged out). A long line keeps its beginning in memory, and of the rest no
more than positions and bytes, a few numbers for a mebibyte. What the journal has is let go of
(`stow`); of what it does not have a piece is named (`beyond`), for somebody to write it elsewhere
and to say when that is done (`let_go`).

Invariants: no run has gaps; runs are in ascending order; what stands behind a stowed run waits for
it (P4), so `at_hand` counts what stands before the first one.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from fedq.core.message import FLAG_PERSISTENT
from fedq.core.weights import weigh
from fedq.fragments.runs.line import Line
from fedq.fragments.runs.run_parts import (
    Filled,
    Written,
    let_go_of_mix,
    may_go,
    may_join,
    size_if_persistent,
    split,
    transient_of,
    trimmed,
    up_to,
    weigh_run,
)
from fedq.fragments.runs.runs import (
    NO_RUN,
    ON_DISK,
    Run,
    StowedMix,
    stowed_run,
)

#: So many runs at either end are looked at to count what stands before a position.
RUNS_COUNTED_MAX: Final = 128


class Fresh(Line):
    """Messages that were never handed out. No run has gaps here."""

    __slots__ = ()

    def add(self, first: int, messages: Sequence[bytes], persistent: bool) -> None:
        """Adds new messages behind all others, at positions from `first` on."""
        runs = self._runs
        self.count += len(messages)
        if runs:
            last = runs[-1]
            if (
                last.first + len(last.messages) == first
                and last.persistent == persistent
                and len(last.messages) + len(messages) <= self._run_max
            ):
                last.messages += messages
                last.left = len(last.messages)
                return
        run_max = self._run_max
        for start in range(0, len(messages), run_max):
            part: list[bytes | None] = [*messages[start : start + run_max]]
            runs.append(Run(first + start, part, persistent, None))

    def within(self, amount: int, size: int) -> int:
        """How many of the next `amount` have no more than so many bytes; at least 1."""
        count = 0
        for index in range(self._head, len(self._runs)):
            messages = self._runs[index].messages
            part: list[bytes] = messages[: amount - count]  # type: ignore[assignment]  # no gaps
            held = weigh(part)[0]
            if held > size:
                for message in part:
                    size -= len(message)
                    if size < 0:
                        break
                    count += 1
                return max(count, 1)
            size -= held
            count += len(part)
            if count >= amount:
                break
        return amount

    def pop(self, amount: int, before: int | None = None) -> tuple[int, list[bytes], bool]:
        """Takes the next ones of one run: first position, up to `amount` messages, persistence.

        Only positions `before` the given one; there must be at least one such message at hand.
        """
        run = self._runs[self._head]
        first, messages = run.first, run.messages
        if before is not None:
            amount = min(amount, before - first)
        part: list[bytes] = messages[:amount]  # type: ignore[assignment]  # it has no gaps
        taken = len(part)
        self.count -= taken
        if self.stowed_count:
            self._at_hand -= taken
        if taken == len(messages):
            self._drop_first()
        else:
            del messages[:taken]
            run.first += taken
            run.left -= taken
        return first, part, run.persistent

    def at_hand_before(self, stop: int) -> int:
        """How many messages stand before a position that can be taken without reading.

        Where it is in the midst of very many runs, no more than those are counted that stand in the
        first ones; so it costs the same, whatever is there.
        """
        runs, head, found = self._runs, self._head, self.at_hand
        # What stands behind the first that is on disk alone is not at hand.
        end = self._index_of(self.first_stowed) if self.stowed_count else len(runs)
        for index in range(end - 1, max(head, end - RUNS_COUNTED_MAX) - 1, -1):
            run = runs[index]
            if run.last < stop:
                return found
            found -= run.left - max(0, stop - run.first)
        if end - head <= RUNS_COUNTED_MAX:
            return found
        found = 0
        for index in range(head, head + RUNS_COUNTED_MAX):
            run = runs[index]
            if run.first >= stop:
                break
            found += min(run.left, stop - run.first)
        return found

    def _drop_first(self) -> None:
        runs = self._runs
        self._head += 1
        if self._head == len(runs):
            runs.clear()
            self._head = 0
        elif self._head >= self._sweep_from and 2 * self._head >= len(runs):
            del runs[: self._head]
            self._head = 0
        else:
            runs[self._head - 1] = NO_RUN

    def extract(self, position: int) -> bytes | None:
        """Takes a message out of turn: `ON_DISK` if it is stowed; None if it is not here."""
        index = self._index_of(position)
        message = self._runs[index].get(position) if index >= 0 else None
        if message is None:
            return None
        run = self._runs[index]
        if run.stowed:
            self.forget_stowed(position, position)
            return ON_DISK
        at = position - run.first
        rest = run.messages[at + 1 :]
        del run.messages[at:]
        run.left = at
        self.count -= 1
        if rest:
            behind = Run(position + 1, rest, run.persistent, None)
            behind.is_mixed = run.is_mixed
            self._runs.insert(index + 1, behind)
        if not at:
            self._delete(index)
        if self.stowed_count:
            self._count_at_hand()
        return message

    def cut(self, first: int, last: int) -> list[tuple[int, list[bytes]]]:
        """Takes out what is in memory between two positions: first positions, and messages."""
        found: list[tuple[int, list[bytes]]] = []
        runs, index = self._runs, max(self._index_of(first), self._head)
        while index < len(runs) and runs[index].first <= last:
            run = runs[index]
            if run.stowed or run.last < first:
                index += 1
                continue
            if run.last > last:
                runs.insert(index + 1, split(run, last + 1 - run.first))
            if run.first < first:
                index += 1
                runs.insert(index, split(run, first - run.first))
                run = runs[index]
            part: list[bytes] = run.messages  # type: ignore[assignment]  # it has no gaps
            found.append((run.first, part))
            self.count -= len(part)
            if index == self._head:
                self._drop_first()
                index = self._head
            else:
                del runs[index]
        if self.stowed_count:
            self._count_at_hand()
        return found

    def _delete(self, index: int) -> None:
        del self._runs[index]
        if self._head == len(self._runs):
            self._runs.clear()
            self._head = 0

    # --- what is on disk alone ---------------------------------------------------------------

    def add_stowed(self, first: int, last: int, size: int, persistent: bool = True) -> None:
        """Adds messages behind all others that are on disk alone, and take so many bytes."""
        count = last - first + 1
        if not self.stowed_count:
            self._at_hand, self.first_stowed = self.count, first
        self.count += count
        self.stowed_count += count
        self.stowed_bytes += size
        before = self._runs[-1] if self._runs else None
        if before is not None and may_join(before, first, size, persistent):
            before.left += count
            before.stowed += size
        else:
            self._runs.append(stowed_run(first, count, size, persistent))

    def stow(self, through: int, keep: int, beyond: int = 0, most: int = 1 << 62) -> int:
        """Lets go of the bodies of persistent messages up to a position: the disk has these.

        About `keep` bytes at the beginning of the line stay, and all up to `beyond`. `most`: so
        many messages are looked at. Returns how many bytes went.
        """
        return self._let_go(0, through, self._index_to_stow_from(keep), beyond, most, None)

    def let_go(self, positions: Sequence[int], keep: int, beyond: int, through: int = 0) -> int:
        """Lets go of the bodies at these positions (ascending), which were written elsewhere.

        Of whole runs; persistent ones between them are in the journal up to a position `through`.
        What has become a part of the beginning meanwhile stays. Returns how many bytes went.
        """
        first, last = positions[0], positions[-1]
        begins = max(self._index_to_stow_from(keep), self._index_of(first))
        written = Written(positions, through)
        return self._let_go(first, last, begins, beyond, 1 << 62, written)

    def _let_go(
        self, first: int, through: int, begins: int, beyond: int, most: int,
        written: Written | None,
    ) -> int:  # fmt: skip
        runs = self._runs
        before, freed = runs[:begins], 0
        for index in range(begins, len(runs)):
            run = runs[index]
            if run.first > through:
                before += runs[index:]
                break
            goes = not run.stowed if written is not None else may_go(run)
            rest: Run | None = None
            if goes and most > 0 and beyond < run.first and first <= run.first <= through:
                most -= run.left
                rest = split(run, through + 1 - run.first) if run.last > through else None
                if written is not None and not written.has(run):
                    pass
                elif written is not None and run.persistent and written.through:
                    self._leaves(run)
                    run = let_go_of_mix(run)
                    self.stowed_count += run.left
                    freed += run.stowed
                elif stowed := weigh_run(run) if written is not None else size_if_persistent(run):
                    self._leaves(run)
                    run.stowed = stowed
                    run.messages = []
                    self.stowed_count += run.left
                    freed += run.stowed
            may = run.stowed and len(before) > self._head and not isinstance(run, StowedMix)
            joined = before[-1] if may else None
            if joined is not None and may_join(joined, run.first, run.stowed, run.persistent):
                joined.left += run.left
                joined.stowed += run.stowed
            else:
                before.append(run)
            if rest is not None:
                before.append(rest)
        self._runs = before
        self.stowed_bytes += freed
        self._count_at_hand()
        return freed

    def _leaves(self, run: Run) -> None:
        """Takes note that the bodies of a run leave memory."""

    def beyond(
        self, keep: int, after: int, size: int, most: int, any_kind: bool, through: int = 0
    ) -> tuple[list[int], list[bytes]]:
        """The next messages behind the beginning of the line that only memory has, with positions.

        Beyond a position, about so many bytes, and from runs that follow on each other in the line:
        so that whole runs are among them. Those that are persistent are left
        out, unless it is `any_kind`; so are mixed runs, but for those up to a position `through`
        which the journal has the rest. At most so many messages are looked at.
        """
        positions: list[int] = []
        messages: list[bytes] = []
        index = max(self._index_to_stow_from(keep), self._index_of(after))
        while index < len(self._runs) and size > 0 and most > 0:
            run = self._runs[index]
            index += 1
            if run.first <= after < run.last and not run.stowed:
                # What is new has joined what was read back.
                self._runs.insert(index, split(run, after + 1 - run.first))
            if run.is_mixed and after < run.first and run.last <= through:
                most -= run.left
                found, bodies, is_last = self._of_mix(index - 1, size, not positions)
                positions += found
                messages += bodies
                size -= sum(map(len, bodies))
                index = self._index_of(positions[-1]) + 1 if positions else index
                if is_last:
                    break
                continue
            if run.stowed or run.first <= after or (run.persistent and not any_kind):
                if positions:
                    break
                most -= 1
                continue
            part, taken = up_to(run, size)
            if part < run.left:
                self._runs.insert(index, split(run, part))
            positions += range(run.first, run.last + 1)
            messages += run.messages  # type: ignore[arg-type]  # no gaps
            size -= taken
            most -= run.left
        return positions, messages

    def _of_mix(self, index: int, size: int, is_first: bool) -> tuple[list[int], list[bytes], bool]:
        """What is not persistent of a mixed run, of about so many bytes, which is cut for that.

        So that it begins and ends with some of these: at the front if it is the first one. The last
        value: something persistent is behind.
        """
        run = self._runs[index]
        part, _ = up_to(run, size)
        if part < run.left:
            self._runs.insert(index + 1, split(run, part))
        before, mix, behind = trimmed(run, is_first)
        self._runs[index : index + 1] = [x for x in (before, mix, behind) if x is not None]
        if mix is None:
            return [], [], not is_first
        return *transient_of(mix), behind is not None

    def _index_to_stow_from(self, keep: int) -> int:
        """The index of the first run that may go: about so many bytes before it stay."""
        if not self.stowed_count:
            return self._index_behind(keep)
        index = self._head
        while not self._runs[index].stowed:
            index += 1
        return index

    def _index_behind(self, keep: int) -> int:
        """The index of the first run behind about so many bytes, which it is made to begin at."""
        for index in range(self._head, len(self._runs)):
            run = self._runs[index]
            size = weigh_run(run)
            if size >= keep:
                at = 0
                while keep > 0:
                    message = run.messages[at]
                    assert message is not None
                    keep -= len(message)
                    at += 1
                if 0 < at < run.left:
                    self._runs.insert(index + 1, split(run, at))
                return index + 1 if at else index
            keep -= size
        return len(self._runs)

    def fill(self, bodies: Mapping[int, bytes]) -> Filled:
        """Takes messages (by ascending position) back that are stowed; others are left out."""
        filled = Filled()
        positions = list(bodies)
        at = 0
        while at < len(positions):
            index = self._index_of(positions[at])
            run = self._runs[index] if index >= 0 else None
            if run is None or not run.stowed or positions[at] > run.last:
                at += 1
                continue
            first, start, last = positions[at], at, run.last
            while at < len(positions) and positions[at] == first + at - start <= last:
                at += 1
            part = [bodies[position] for position in positions[start:at]]
            self._put_in(index, first, part, filled)
        if filled.count:
            self._count_at_hand()
        return filled

    def _put_in(self, index: int, first: int, part: list[bytes], filled: Filled) -> None:
        """Puts messages, the first of them at `first`, in their place in a stowed run."""
        run, count = self._runs[index], len(part)
        size, flags = weigh(part)
        filled.flags |= flags
        before, after = first - run.first, run.left - (first - run.first) - count
        # At least a byte for each: what is stowed is told by that it has some.
        left = max(run.stowed - size, before + after) if before + after else 0
        self.stowed_count -= count
        self.stowed_bytes += left - run.stowed
        filled.misjudged += size - (run.stowed - left)
        filled.bytes_read += size
        filled.count += count
        pieces: list[Run] = []
        share = left * before // (before + after) if before and after else left if before else 0
        if before:
            pieces.append(run.stowed_part(run.first, before, share))
        for start in range(0, count, self._run_max):
            piece: list[bytes | None] = [*part[start : start + self._run_max]]
            pieces.append(Run(first + start, piece, flags & FLAG_PERSISTENT != 0, None))
        if after:
            pieces.append(run.stowed_part(first + count, after, left - share))
        self._runs[index : index + 1] = pieces
