"""Publishes of one channel to shared queues, piled up by queue before they set out.

    runs of publishes, each with its queues -> one list of messages per queue, one confirm group

Between two deliveries of the piles a channel's publishes are consecutive, so their confirms are
one group, and each queue gets its own in one piece: what follows costs by the queue, not by the
message.

Invariants: within a queue, messages are in the order in which they came; a single run, which is
the usual case, is kept as it is, and never sorted into piles.
"""

from fedq.core.ids import Target


class Piles:
    """The piles of one batch. What is piled up is taken out by whoever delivers it."""

    __slots__ = ("_queues", "_run", "by_queue", "firsts", "nowhere", "ways")

    def __init__(self) -> None:
        #: The last run, not yet among the piles, and where it goes.
        self._run: list[bytes] = []
        self._queues: tuple[Target, ...] = ()
        self.by_queue: dict[Target, list[bytes]] = {}
        #: For each pile, in the same order, which of all publishes is its first.
        self.firsts: list[int] = []
        #: The queues of each publish.
        self.ways: list[tuple[Target, ...]] = []
        #: How many of them go to none.
        self.nowhere = 0

    def add(self, messages: list[bytes], queues: tuple[Target, ...]) -> None:
        """Adds publishes that all go to these queues; the list is the piles' own from now on."""
        run = self._run
        if not run:
            self._run, self._queues = messages, queues
        elif queues is self._queues:
            run += messages
        else:
            self._spread()
            self._run, self._queues = messages, queues

    def take_run(self) -> tuple[list[bytes], tuple[Target, ...]]:
        """Takes a single run, if that is all; no messages, if there are piles, or nothing."""
        run = self._run
        if not run:
            return run, ()
        if self.ways:
            self._spread()
            return [], ()
        self._run = []
        return run, self._queues

    def _spread(self) -> None:
        """Moves the last run to the piles."""
        by_queue, run, queues = self.by_queue, self._run, self._queues
        for queue in queues:
            pile = by_queue.get(queue)
            if pile is not None:
                pile += run
            else:
                by_queue[queue] = run[:]
                self.firsts.append(len(self.ways))
        if not queues:
            self.nowhere += len(run)
        if len(run) == 1:
            self.ways.append(queues)
        else:
            self.ways += [queues] * len(run)
        self._run = []

    def clear(self) -> None:
        """Clears the piles, which have set out. Their lists are with others now."""
        self.by_queue, self.firsts, self.ways = {}, [], []
        self.nowhere = 0
