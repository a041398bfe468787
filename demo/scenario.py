"""The play: three nodes, one publisher, two consumers, and nodes that are killed under them.

`Scenario` is also what the integration tests run; it decides nothing about good or bad, it only
returns the `Verdict`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from demo import records
from demo.account import Account, node_names, seconds
from demo.clients import Client
from demo.verdict import Gap, Verdict, judge, longest_gap, missing
from tests.integration.harness import Cluster
from tests.integration.stock import connect
from tests.integration.waiting import TooLateError, deadline, until

QUEUE = "demo"
LIVELY_S = 20.0
CAUGHT_UP_S = 60.0


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill -9 and the longest pause in confirms that came with it."""

    node: str
    roles: str
    pause: Gap


class Scenario:
    """A running cluster with clients on it; a context manager."""

    def __init__(
        self, directory: Path, console: Console, rate: float = 500.0, publishers: int = 1,
        arguments: dict[str, object] | None = None,
    ) -> None:  # fmt: skip
        """`rate`: messages a second of each publisher; `arguments`: of the queue."""
        self.cluster = Cluster(directory)
        self.kills: list[Kill] = []
        self._rate = rate
        self._arguments = arguments
        self._publishers = [
            Client(f"publisher {n}", "demo.publisher", [f"p{n}", QUEUE], directory / f"p{n}.txt")
            for n in range(1, publishers + 1)
        ]
        self._consumers = [
            Client("pika consumer", "demo.consumer", [QUEUE], directory / "pika.txt"),
            Client("aio-pika consumer", "demo.consumer_aio", [QUEUE], directory / "aio.txt"),
        ]
        self._clients = [*self._publishers, *self._consumers]
        self.account = Account(console, self.cluster, self._clients)

    # --- beginning and end ------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.account.event("three nodes start")
        self.cluster.__enter__()
        self.account.__enter__()
        try:
            self._begin()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _begin(self) -> None:
        names = list(self.cluster.nodes)
        for name, node in self.cluster.nodes.items():
            self.account.event(f"node {name} serves {node.amqp.url}")
        with deadline("the queue is declared", 10):
            connection = connect(self.cluster.nodes[names[0]].amqp)
            connection.channel().queue_declare(QUEUE, durable=True, arguments=self._arguments)
            connection.close()
        self.cluster.wait_whole(QUEUE)
        holder = self.cluster.primary_of(QUEUE)
        self.account.event(f"durable queue {QUEUE!r} declared; its primary is on {holder}")
        for index, client in enumerate(self._publishers):
            first = names[index % len(names)]
            client.start(self.cluster.addresses(first), ["--rate", str(self._rate)])
        for index, client in enumerate(self._consumers, 1):
            client.start(self.cluster.addresses(names[index % len(names)]))
        self.wait("everybody works", self._all_work)

    def _all_work(self) -> bool:
        return all(client.confirmed > 10 for client in self._publishers) and all(
            client.place for client in self._consumers
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.account.__exit__(kind, error, trace)
        for client in self._clients:
            client.kill()
        self.cluster.stop()

    # --- time passing -----------------------------------------------------------------------------

    def look(self) -> None:
        """Reads what the clients wrote, tells the news, and shows the figures."""
        places = node_names(self.cluster)
        for client in self._clients:
            for news in client.read_news():
                if news.kind == records.CONNECTED:
                    place = places.get(news.name, news.name)
                    self.account.event(f"{client.title} is connected to {place}", "cyan")
                elif news.kind == records.LOST:
                    self.account.event(
                        f"{client.title}: {news.name[:70].replace('_', ' ')}", "yellow"
                    )
            failure = client.failure()
            if failure is not None:
                raise RuntimeError(f"{client.title} ended by itself:\n{failure}")
        self.account.figures()

    def wait(self, what: str, condition: Callable[[], bool], limit_s: float = LIVELY_S) -> None:
        """Waits for a condition while the account goes on."""

        def holds() -> bool:
            self.look()
            return condition()

        until(what, holds, limit_s)

    def play(self, length_s: float) -> None:
        """Lets the clients work for a while."""
        end_s = time.monotonic() + length_s
        self.wait("the time passes", lambda: time.monotonic() >= end_s, length_s + LIVELY_S)

    # --- faults -----------------------------------------------------------------------------------

    def roles(self, node: str) -> str:
        """What a node does for others at this moment, in words."""
        fragment = self.cluster.fragments(QUEUE)[0]
        found = ["holds the primary"] if fragment["primary"] == node else []
        found += ["holds a backup"] if node in fragment["backups"] else []
        found += ["leads the map"] if self.cluster.leader() == node else []
        return " and ".join(found) or "holds nothing of the queue"

    @contextmanager
    def killed(self, node: str) -> Iterator[None]:
        """kill -9 of a node; inside the block it is down and the others serve; then it returns."""
        roles = self.roles(node)
        at_ms = time.monotonic_ns() // 1_000_000
        before = {client.title: client.confirmed for client in self._publishers}
        self.cluster.kill(node)
        self.account.event(f"kill -9 of node {node}, which {roles}", "bold red")
        self.wait(
            "every publisher hears confirms again",
            lambda: all(
                client.last_ms > at_ms and client.confirmed > before[client.title]
                for client in self._publishers
            ),
        )
        self.play(0.5)
        pause = self._pause_since(at_ms)
        self.kills.append(Kill(node, roles, pause))
        self.account.event(f"confirms flow again; the longest pause was {seconds(pause)}", "green")
        yield
        self.account.event(f"node {node} starts again on its data")
        self.cluster.restart(node)
        self.account.event(f"node {node} serves again", "green")
        started_s = time.monotonic()
        self.cluster.wait_whole(QUEUE)
        self.account.event(f"all copies are in sync ({time.monotonic() - started_s:.1f} s later)")

    def _pause_since(self, at_ms: int) -> Gap:
        gaps = [
            longest_gap(
                record.at_ms
                for record in records.read(client.path)
                if record.kind == records.CONFIRMED and record.at_ms > at_ms - 1_000
            )
            for client in self._publishers
        ]
        return max(gaps, key=lambda gap: gap.length_ms)

    # --- the end ----------------------------------------------------------------------------------

    def finish(self) -> Verdict:
        """Stops the publishers, waits until consumers have everything confirmed, and judges."""
        self.account.event("publishers stop; consumers take what is left")
        for client in self._publishers:
            client.ask_to_stop()
        self.wait("publishers end", lambda: all(c.has_ended() for c in self._publishers), 75)
        try:
            self.wait("all is delivered", lambda: not missing(self._records()), CAUGHT_UP_S)
        except TooLateError as error:
            # The verdict names what is missing; it is the better account of the same fact.
            self.account.event(str(error)[:100], "red")
        # Nothing else is on its way: what was repeated has been repeated by now.
        self.play(1.0)
        for client in self._consumers:
            client.ask_to_stop()
        for client in self._clients:
            client.end()
        return judge(self._records())

    def _records(self) -> Sequence[records.Record]:
        return [record for client in self._clients for record in records.read(client.path)]
