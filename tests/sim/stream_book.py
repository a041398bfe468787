"""What was published to a run's stream and what its readers saw, against a plain log.

The log is what the last reader of all gets, when everything is at rest. It must have every
confirmed message, but those before its first one where a size or an age is kept to
(`stream_retention.py`); and each other reader
must have seen that very log, from where it began, in order, with nothing left out and nothing
twice. What stands at an offset never changes, whoever leads.
"""

from bisect import bisect_left, bisect_right
from itertools import pairwise

from tests.sim.checkers import Ledger
from tests.sim.stream_retention import (
    Published,
    gone_early,
    gone_late,
    may_have_gone,
    problems_of,
)
from tests.sim.streams import StreamPlan, value_of
from tests.sim.world import SECOND

#: Within so long without a fault a primary's copies have heard what it let go.
_HEARD_US = SECOND


class Reader:
    """One basic.consume: where it began, when, and what it got."""

    def __init__(
        self, label: str, start: str | int, asked_us: int, name: str = "", wanted: str = ""
    ) -> None:
        self.label = label
        self.start = start
        #: What it asked for: by a name, and some messages alone.
        self.name = name
        self.wanted = wanted
        self.asked_us = asked_us
        #: When it heard that it had begun; None: it did not.
        self.begun_us: int | None = None
        self.offsets: list[int] = []
        #: When it got each of them, the last time.
        self.seen_us: dict[int, int] = {}
        #: How many it has not acknowledged.
        self.held = 0
        self.is_alive = True

    def describe(self) -> str:
        """It in words."""
        asked = f" as {self.name!r}" if self.name else f" for {self.wanted or 'all'}"
        return f"{self.label}, which began at {self.start!r}{asked}"

    def wants(self, number: int) -> bool:
        """Whether it asked for this message."""
        return not self.wanted or value_of(number) in self.wanted


class StreamBook:
    """See the module's docstring."""

    def __init__(self, ledger: Ledger, plan: StreamPlan) -> None:
        self.ledger = ledger
        self.plan = plan
        self.published: dict[int, Published] = {}
        self.readers: list[Reader] = []
        #: The message at each offset that anybody saw.
        self.log: dict[int, int] = {}
        self._offsets: dict[int, int] = {}
        #: Of each name who was served last, and all that its readers got.
        self._served: dict[str, Reader] = {}
        self._named: dict[str, dict[int, Reader]] = {}

    # --- while it runs ---------------------------------------------------------------------------

    def publish(self, number: int, label: str, body: bytes) -> Published:
        """A message is about to be sent."""
        sent = self.published[number] = Published(number, label, self.ledger.world.now_us, body)
        return sent

    def confirmed(self, sent: Published) -> None:
        """It is confirmed."""
        sent.confirmed_us = self.ledger.world.now_us

    def begins(self, label: str, start: str | int, name: str = "", wanted: str = "") -> Reader:
        """A reader asks to begin."""
        reader = Reader(label, start, self.ledger.world.now_us, name, wanted)
        self.readers.append(reader)
        return reader

    def delivered(self, reader: Reader, offset: int, body: bytes) -> None:
        """A reader got a message."""
        number = int(body.split(b":", 1)[0])
        sent = self.published.get(number)
        if sent is None or sent.body != body:
            self.ledger.broken(f"{reader.describe()} got {body[:20]!r}, which nobody sent")
            return
        if not reader.wants(number):
            self.ledger.broken(f"{reader.describe()} got {number}")
        # Whoever lost its turn, and has it again, may get again what it did not acknowledge.
        is_again = bool(reader.name) and not self.ledger.faultless
        if reader.offsets and offset <= reader.offsets[-1] and not is_again:
            self.ledger.broken(f"{reader.describe()}: {offset} came after {reader.offsets[-1]}")
        self._check_turn(reader, offset)
        if isinstance(reader.start, int) and offset < reader.start:
            self.ledger.broken(f"{reader.describe()} got offset {offset}")
        was_there = sent.confirmed_us is not None and sent.confirmed_us < reader.asked_us
        if reader.start == "next" and was_there:
            self.ledger.broken(f"{reader.describe()} got {number}, which was there before")
        known = self.log.setdefault(offset, number)
        if known != number:
            self.ledger.broken(f"{reader.describe()} got {number} at {offset}, others {known}")
        elsewhere = self._offsets.setdefault(number, offset)
        if elsewhere != offset and self.ledger.faultless:
            self.ledger.broken(f"{number} is at {elsewhere} and at {offset}")
        reader.offsets.append(offset)
        reader.seen_us[offset] = self.ledger.world.now_us
        reader.held += 1

    def _check_turn(self, reader: Reader, offset: int) -> None:
        """Of those with a name one is served; the first one begins at the beginning, none skips."""
        if not reader.name:
            return
        served = self._served.get(reader.name, reader)
        # One fragment of several changes hands, once everything is acknowledged.
        may_read = served.held > 0 or not self.plan.fragments
        if served is not reader and served.is_alive and may_read and self.ledger.faultless:
            self.ledger.broken(f"{reader.describe()} got {offset}, and {served.describe()} reads")
        self._served[reader.name] = reader
        named = self._named.setdefault(reader.name, {})
        before = named.get(offset, reader)
        if before is not reader and before.is_alive and self.ledger.faultless:
            self.ledger.broken(f"{reader.describe()} got {offset}, as {before.describe()} did")
        named[offset] = reader

    # --- at rest ---------------------------------------------------------------------------------

    def is_read(self, last: Reader) -> bool:
        """Whether all who read still have all that the last reader of all got."""
        if not last.offsets:
            return True
        for reader in self.readers:
            if not reader.is_alive:
                continue
            owed = [each for each in last.offsets if reader.wants(self.log[each])][-1:]
            if reader.name and reader.begun_us is not None:
                if last.offsets[-1] not in self._named.get(reader.name, {}):
                    return False
            elif owed and self._owes(reader, owed[0]) and reader.offsets[-1:] != owed:
                return False
        return True

    def _owes(self, reader: Reader, offset: int) -> bool:
        """Whether the reader must see what stands at this offset."""
        if reader.begun_us is None or reader.name or not reader.wants(self.log[offset]):
            return False
        if isinstance(reader.start, int):
            return offset >= reader.start
        if reader.start == "first":
            return True
        if reader.start.endswith("s"):
            lately_us = reader.begun_us - int(reader.start[:-1]) * SECOND
            return self.published[self.log[offset]].sent_us > lately_us
        return self.published[self.log[offset]].sent_us > reader.begun_us

    def finish(self, last: Reader) -> None:
        """Holds everything against the log."""
        final = last.offsets
        for reader in self.readers:
            self._check_reader(reader, final)
        for name, got in self._named.items():
            missed = self._missed_by_name(got, final)
            if missed and self._began_in_time(name):
                self.ledger.broken(f"readers called {name!r} did not see {missed[:5]}")
        kept = {self.log[offset]: None for offset in final}
        lost = [
            sent for sent in self.published.values()
            if sent.confirmed_us is not None and sent.number not in kept
        ]  # fmt: skip
        self._check_order(final)
        if lost and not self.plan.retains:
            self.ledger.broken(f"P1: confirmed and not in the stream: {lost[0].number}")
        left = [self.published[self.log[offset]] for offset in final]
        for problem in problems_of(self.plan, left, lost, final[0] if final else 0):
            self.ledger.broken(problem)
        if self.plan.max_age_s:
            self._check_ages(left, lost)

    def _check_ages(self, left: list[Published], lost: list[Published]) -> None:
        """Nothing went before its time, and nothing stayed much longer."""
        age_us = self.plan.max_age_s * SECOND
        for reader in self.readers:
            # Of what else is gone the size may be the reason.
            is_told = not (self.plan.max_bytes or reader.name or reader.wanted)
            if is_told and reader.start == "first" and reader.offsets:
                first = self.published[self.log[reader.offsets[0]]]
                first_us = reader.seen_us[reader.offsets[0]]
                early = gone_early(lost, first, reader.asked_us, first_us - age_us)
                if early:
                    self.ledger.broken(f"{reader.describe()} did not find {early} any more")
        # Another primary knows no better when messages came, whatever it leads for.
        is_one_primary = self.ledger.faultless and not self.ledger.moves
        late = gone_late(self.plan, left, age_us, is_one_primary)
        if late:
            self.ledger.broken(f"{late} is there, though it is too old")

    def _check_reader(self, reader: Reader, final: list[int]) -> None:
        """What it saw is the log from where it began."""
        got = sorted(reader.offsets)
        for offset in got[bisect_left(got, final[0]) :] if final else got:
            if not final or bisect_left(final, offset) == bisect_right(final, offset):
                self.ledger.broken(f"{reader.describe()} saw {offset}, which is gone")
                return
        if reader.name:
            # Others read between its turns: what all of them got is looked at.
            return
        for before, after in pairwise(got):
            between = final[bisect_right(final, before) : bisect_left(final, after)]
            skipped = [each for each in between if reader.wants(self.log[each])]
            if skipped and not self._went_then(skipped, reader.seen_us[after]):
                self.ledger.broken(f"{reader.describe()} did not see {skipped[:5]}")
                return
        if got:
            missed = [
                each for each in final[: bisect_left(final, got[0])] if self._owes(reader, each)
            ]
            if missed and not self._went_then(missed, reader.seen_us[got[0]]):
                self.ledger.broken(f"{reader.describe()} missed {missed[:5]} before {got[0]}")

    def _went_then(self, offsets: list[int], at_us: int) -> bool:
        """Whether the primary of then may have let them go, and the next one had them still."""
        if not self.plan.retains or not self.ledger.fault_between(at_us, at_us + _HEARD_US):
            return False
        missed = [self.published[self.log[each]] for each in offsets]
        before = {number: None for each, number in self.log.items() if each <= offsets[-1]}
        behind = [
            sent for sent in self.published.values()
            if sent.sent_us <= at_us and sent.number not in before
        ]  # fmt: skip
        return may_have_gone(self.plan, missed, behind, at_us)

    def _missed_by_name(self, got: dict[int, Reader], final: list[int]) -> list[int]:
        """What none of a name's readers got, and should have."""
        seen = sorted(got)
        missed: list[int] = []
        for offset in final:
            next_one = bisect_right(seen, offset)
            if offset in got:
                continue
            if next_one == len(seen) or not self._went_then(
                [offset], got[seen[next_one]].seen_us[seen[next_one]]
            ):
                missed.append(offset)
        return missed

    def _began_in_time(self, name: str) -> bool:
        """Whether readers of a name owe everything: one of them reads to the end."""
        return any(each.is_alive and each.begun_us is not None
                   for each in self.readers if each.name == name)  # fmt: skip

    def _check_order(self, final: list[int]) -> None:
        """What was sent on one connection stands in its order (of what stands twice, the first).

        Where the oldest go, those before the first one that is left may have stood there, too, and
        be repeats.
        """
        newest: dict[str, int] = {}
        oldest: dict[str, int] = {}
        seen: dict[int, None] = {}
        for offset in final:
            sent = self.published[self.log[offset]]
            first = oldest.setdefault(sent.label, sent.number)
            is_known = sent.number in seen or (self.plan.retains and sent.number < first)
            if not is_known and sent.number < newest.get(sent.label, 0):
                self.ledger.broken(f"P4: {sent.number} stands behind {newest[sent.label]}")
            seen[sent.number] = None
            newest[sent.label] = max(newest.get(sent.label, 0), sent.number)
