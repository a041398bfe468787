"""The play: three nodes, one publisher, two consumers, and nodes that are killed under them.

`Scenario` is also what the integration tests run; it decides nothing about good or bad, it only
returns the `Verdict`.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from demo import records
from demo.account import Account, node_names, seconds
from demo.clients import Client
from demo.stage import Stage
from demo.verdict import Gap, longest_gap
from tests.integration.harness import Cluster
from tests.integration.stock import connect
from tests.integration.waiting import deadline

QUEUE = "demo"
LIVELY_S = 20.0


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill -9 and the longest pause in confirms that came with it."""

    node: str
    roles: str
    pause: Gap


class Scenario(Stage):
    """A running cluster with clients on it; a context manager."""

    def __init__(
        self, directory: Path, console: Console, rate: float = 500.0, publishers: int = 1,
        arguments: dict[str, object] | None = None,
    ) -> None:  # fmt: skip
        """`rate`: messages a second of each publisher; `arguments`: of the queue."""
        writers = [
            Client(f"publisher {n}", "demo.publisher", [f"p{n}", QUEUE], directory / f"p{n}.txt")
            for n in range(1, publishers + 1)
        ]
        consumers = [
            Client("pika consumer", "demo.consumer", [QUEUE], directory / "pika.txt"),
            Client("aio-pika consumer", "demo.consumer_aio", [QUEUE], directory / "aio.txt"),
        ]
        super().__init__(Cluster(directory), writers, consumers, LIVELY_S)
        self.kills: list[Kill] = []
        self._rate = rate
        self._arguments = arguments
        self.account = Account(console, self.cluster, self._clients)

    # --- beginning and end ------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.account.event("three nodes start")
        return super().__enter__()

    def _begin(self) -> None:
        self.account.__enter__()
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
        super().__exit__(kind, error, trace)

    # --- what is told -----------------------------------------------------------------------------

    def look(self) -> None:
        """Reads what the clients wrote, tells the news, and shows the figures."""
        super().look()
        self.account.figures()

    def _hear(self, client: Client, news: records.Record) -> None:
        if news.kind == records.CONNECTED:
            place = node_names(self.cluster).get(news.name, news.name)
            self.account.event(f"{client.title} is connected to {place}", "cyan")
        elif news.kind == records.LOST:
            self.account.event(f"{client.title}: {news.name[:70].replace('_', ' ')}", "yellow")

    def _tell(self, sentence: str) -> None:
        self.account.event(sentence)

    def _take_the_rest(self) -> None:
        """All that there is has its consumers."""

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
        """Kills a node with SIGKILL; inside the block it is down, then it returns."""
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
