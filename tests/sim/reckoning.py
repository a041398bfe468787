"""The reckoning at the end of a run: all was drained, and nothing may be missing.

Input: the book of policies at rest. Output: problems. A letter that was confirmed was acknowledged,
or is there, or was ended by a policy, or a consumer, that may do so; with a dead-letter queue it is
there even then (docs/SEMANTICS.md).
"""

from tests.sim.book import Book
from tests.sim.letters import Letter
from tests.sim.policies import FOR_EVER_MS, PolicyQueue


class Reckoning:
    """See the module's docstring."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.ledger = book.ledger

    def finish(self) -> None:
        """All was drained: nothing that was confirmed has vanished against its policy."""
        for letter in self.book.letters.values():
            if letter.acked or letter.drained or letter.returned:
                continue
            if letter.confirmed_us is not None:
                first: PolicyQueue | None = letter.queue
            elif letter.nacked_us is not None and letter.queue.overflow == "reject-publish-dlx":
                target = letter.queue.target
                doubt = self.book.in_doubt(letter.sent_us, letter.nacked_us)
                first = None if doubt or target is None else self.book.queues[target]
            else:
                first = None
            if first is None or self._may_vanish(letter, first) or not self._is_kept(letter):
                continue
            self.book.broken(
                f"P1: confirmed (or refused to the dead) and lost: {letter.describe()}"
            )
        self._check_heads()

    def _may_vanish(self, letter: Letter, first: PolicyQueue) -> bool:
        """Whether some queue on its way may drop it for good."""
        queue, passed = first, dict[str, None]()
        if letter.nacked_us is not None:
            passed[letter.queue.name] = None
            if first is letter.queue:
                return True
        while True:
            passed[queue.name] = None
            refused = queue is not letter.queue and queue.refuses
            if refused and queue.overflow == "reject-publish":
                return True
            if not self._may_leave(letter, queue):
                return False
            if queue.target is None or queue.target in passed:
                return True
            queue = self.book.queues[queue.target]

    def _may_leave(self, letter: Letter, queue: PolicyQueue) -> bool:
        """Whether the queue's policy, or a consumer, may have ended its stay there."""
        expired = queue.ttl_ms is not None and queue.ttl_ms < FOR_EVER_MS
        if queue is letter.queue:
            expired = self.book.is_over(letter)
        dropped = queue.has_length and (queue.overflow == "drop-head" or queue is not letter.queue)
        returned = queue.limit is not None and (
            any(sight.queue == queue.name for sight in letter.sights)
            or self.book.vanished
            or not self.ledger.faultless
        )
        return expired or dropped or returned or queue.name in letter.rejected

    def _is_kept(self, letter: Letter) -> bool:
        """Whether every queue that it may be in keeps it through this run's faults (P1)."""
        queue: PolicyQueue | None = letter.queue
        passed: dict[str, None] = {}
        while queue is not None and queue.name not in passed:
            passed[queue.name] = None
            if not (queue.durable and letter.persistent):
                if self.ledger.memory_lost or self.ledger.copies_lost:
                    return False
                if queue.copies(self.book.nodes) < 2 and not self.ledger.faultless:
                    return False
                if queue.mode == "persistent" and not letter.persistent:
                    return self.ledger.faultless
            if self.ledger.may_be_undone(queue.name, letter.sent_us):
                return False
            queue = None if queue.target is None else self.book.queues[queue.target]
        return True

    def _check_heads(self) -> None:
        """A length drops the oldest: what is left of one publisher is what it sent last."""
        for queue in self.book.queues.values():
            if not queue.has_length or queue.overflow != "drop-head" or not queue.one_place:
                continue
            if self.book.registry.by_queue.get(queue.name):
                # What came back from a consumer is older than what was dropped meanwhile.
                continue
            newest: dict[tuple[str, int], Letter] = {}
            for letter in self.book.letters.values():
                if letter.queue is not queue or not _plain(letter):
                    continue
                key = (letter.source, letter.priority)
                gone = bool(letter.sights[0].deaths) if letter.sights else self._is_kept(letter)
                if letter.drained and not letter.sights[-1].deaths:
                    newest.setdefault(key, letter)
                elif gone and key in newest and queue.max_bytes is None:
                    self.book.broken(
                        f"dropped {letter.describe()}, but kept {newest[key].describe()}"
                    )


def _plain(letter: Letter) -> bool:
    """Only a length can end its stay in the line, and its place there is that of its number."""
    sights = letter.sights
    untouched = len(sights) <= 1 and not letter.rejected
    return (
        untouched
        and letter.confirmed_us is not None
        and letter.over_us is None
        and letter.due_us <= letter.sent_us
    )
