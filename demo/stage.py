"""Clients on a cluster, from beginning to verdict: what `make demo` and `make faults` share.

Who plays says what the clients need, what is told meanwhile, and which faults there are.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from demo import records
from demo.clients import Client
from demo.verdict import Verdict, judge, missing
from tests.integration.harness import Cluster
from tests.integration.waiting import TooLateError, until

ENDED_S: Final = 75.0
CAUGHT_UP_S: Final = 60.0


class Stage(ABC):
    """A running cluster with clients on it; a context manager."""

    def __init__(
        self, cluster: Cluster, publishers: list[Client], consumers: list[Client], patience_s: float
    ) -> None:
        """`patience_s`: how long what should happen soon may take."""
        self.cluster = cluster
        self._publishers = publishers
        self._consumers = consumers
        self._patience_s = patience_s

    # --- what each play has of its own ------------------------------------------------------------

    @abstractmethod
    def _begin(self) -> None:
        """The cluster runs: declares what the clients need, and starts them."""

    @abstractmethod
    def _hear(self, client: Client, news: records.Record) -> None:
        """A client has been connected, or was lost."""

    @abstractmethod
    def _tell(self, sentence: str) -> None:
        """What somebody who watches should know."""

    @abstractmethod
    def _take_the_rest(self) -> None:
        """The publishers have ended: consumers of whatever nobody consumes yet begin."""

    # --- beginning and end ------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.cluster.__enter__()
        try:
            self._begin()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for client in self._clients:
            client.kill()
        self.cluster.stop()

    @property
    def _clients(self) -> Sequence[Client]:
        return (*self._publishers, *self._consumers)

    # --- time passing -----------------------------------------------------------------------------

    def look(self) -> None:
        """Reads what the clients wrote; raises when one has ended by itself."""
        for client in self._clients:
            for news in client.read_news():
                self._hear(client, news)
            failure = client.failure()
            if failure is not None:
                raise RuntimeError(f"{client.title} ended by itself:\n{failure}")

    def wait(self, what: str, condition: Callable[[], bool], limit_s: float | None = None) -> None:
        """Waits for a condition while the clients are looked at."""

        def holds() -> bool:
            self.look()
            return condition()

        until(what, holds, limit_s if limit_s is not None else self._patience_s)

    def play(self, length_s: float) -> None:
        """Lets the clients work for a while."""
        end_s = time.monotonic() + length_s
        self.wait("the time passes", lambda: time.monotonic() >= end_s, length_s + self._patience_s)

    def finish(self) -> Verdict:
        """Stops the publishers, waits until consumers have everything confirmed, and judges."""
        self._tell("publishers stop; consumers take what is left")
        for client in self._publishers:
            client.ask_to_stop()
        self.wait("publishers end", lambda: all(c.has_ended() for c in self._publishers), ENDED_S)
        self._take_the_rest()
        try:
            self.wait("all is delivered", lambda: not missing(self._records()), CAUGHT_UP_S)
        except TooLateError as error:
            # The verdict names what is missing; it is the better account of the same fact.
            self._tell(str(error)[:100])
        # Nothing else is on its way: what was repeated has been repeated by now.
        self.play(1.0)
        for client in self._consumers:
            client.ask_to_stop()
        for client in self._clients:
            client.end()
        return judge(self._records())

    def _records(self) -> Sequence[records.Record]:
        return [record for client in self._clients for record in records.read(client.path)]
