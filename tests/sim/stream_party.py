"""All who use a run's stream: they are made, brought to rest and judged together."""

from collections.abc import Callable, Sequence

from tests.sim.actors import Actor
from tests.sim.checkers import Ledger
from tests.sim.confirming import Numbers
from tests.sim.node_host import Host
from tests.sim.stream_books import StreamBooks
from tests.sim.stream_clients import LastReader, StreamPublisher, StreamReader, StreamSetup
from tests.sim.streams import StreamPlan
from tests.sim.world import World

#: Waits for a condition; false, and a problem, when it does not hold in time.
Wait = Callable[[str, Callable[[], bool]], bool]


class StreamParty:
    """See the module's docstring."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], plan: StreamPlan,
        numbers: Numbers,
    ) -> None:  # fmt: skip
        common = (world, ledger, hosts)
        self.book = StreamBooks(ledger, plan)
        self.setup = StreamSetup(*common, plan)
        self.senders: list[Actor] = [
            StreamPublisher(*common, f"sp{number}", self.book, each, numbers, self.setup)
            for number, each in enumerate(plan.publishers)
        ]
        self.readers = [
            StreamReader(*common, f"sr{number}", self.book, each, self.setup)
            for number, each in enumerate(plan.readers)
        ]
        self._last = LastReader(*common, self.book, self.setup)
        self._again = LastReader(*common, self.book, self.setup, "again-reader")

    @property
    def actors(self) -> list[Actor]:
        """Everybody but the last reader."""
        return [self.setup, *self.senders, *self.readers]

    def heal(self) -> None:
        """Readers stay connected from now on."""
        for reader in self.readers:
            reader.calm = True

    def rest(self, wait: Wait) -> bool:
        """All is published: it is read by all who read, and by the last one, and compared."""
        last = self._last
        last.start()
        if not wait("the stream is read from its beginning", lambda: last.has_all):
            return False
        reader = last.reader
        assert reader is not None
        if not wait("all readers are at the end", lambda: self.book.is_read(reader)):
            return False
        self.book.finish(reader)
        for each in (*self.readers, last):
            each.stopping = True
            each.wake()
        leaving: list[Actor] = [*self.readers, last]
        return wait("readers leave", lambda: all(each.done for each in leaving))

    def read_again(self, wait: Wait) -> bool:
        """It is read once more, after a disk has rotted: it must be the very same."""
        again = self._again
        again.start()
        if not wait("the stream is read again", lambda: again.has_all):
            return False
        before, now = self._last.reader, again.reader
        assert before is not None
        assert now is not None
        for one, other in zip(before.readers, now.readers, strict=True):
            if one.offsets != other.offsets:
                again.ledger.broken(f"{other.describe()} got {other.offsets}, not {one.offsets}")
        again.stopping = True
        again.wake()
        return wait("the last reader leaves", lambda: again.done)
