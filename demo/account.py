"""The account a person reads while the demo runs: what happened, and live figures.

On a terminal the figures stay at the bottom and the events scroll above; elsewhere there is one
line of figures now and then.
"""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.clients import Client
from demo.verdict import Gap, Verdict
from tests.integration.harness import Cluster

PLAIN_LINE_S = 2.0


class Account:
    """Writes to a console; a context manager around the live part."""

    def __init__(self, console: Console, cluster: Cluster, clients: Sequence[Client]) -> None:
        self._console = console
        self._cluster = cluster
        self._clients = clients
        self._started_s = time.monotonic()
        self._live = Live(console=console, refresh_per_second=8, transient=True)
        self._last_plain_s = 0.0
        self._last: dict[str, tuple[float, int]] = {}
        self._rates: dict[str, float] = {}

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._console.is_terminal:
            self._live.stop()

    def event(self, text: str, style: str = "") -> None:
        """One line: when, and what happened."""
        elapsed = time.monotonic() - self._started_s
        line = Text(f"{elapsed:7.2f} s  ", style="dim")
        self._console.print(line.append(text, style=style), soft_wrap=True)

    def figures(self) -> None:
        """Shows where everybody stands now."""
        self._measure()
        now_s = time.monotonic()
        if self._console.is_terminal:
            self._live.update(self._table())
        elif now_s - self._last_plain_s > PLAIN_LINE_S:
            self._last_plain_s = now_s
            parts = [
                f"{client.title} {client.confirmed or client.delivered} "
                f"({self._rates.get(client.title, 0):.0f}/s)"
                for client in self._clients
            ]
            self.event(", ".join(parts), "dim")

    def _measure(self) -> None:
        now_s = time.monotonic()
        for client in self._clients:
            count = client.confirmed + client.delivered
            then_s, before = self._last.get(client.title, (now_s, count))
            if now_s - then_s >= 0.5:
                self._rates[client.title] = (count - before) / (now_s - then_s)
                self._last[client.title] = (now_s, count)
            elif client.title not in self._last:
                self._last[client.title] = (now_s, count)

    def _table(self) -> Table:
        table = Table(title="now", title_justify="left")
        for column in ("", "connected to", "confirmed", "delivered", "per second"):
            table.add_column(column, justify="left" if column in ("", "connected to") else "right")
        places = node_names(self._cluster)
        for client in self._clients:
            place = places.get(client.place, "-")
            rate = f"{self._rates.get(client.title, 0):.0f}"
            table.add_row(
                client.title, place, f"{client.confirmed:,}", f"{client.delivered:,}", rate
            )
        states = "  ".join(
            f"{node.name} {'up' if node.is_running else 'DOWN'}"
            for node in self._cluster.nodes.values()
        )
        table.caption = f"nodes: {states}"
        return table

    def verdict(self, verdict: Verdict) -> None:
        """The end of the story."""
        tell_verdict(
            self._console, "the clients' own records",
            verdict_rows(verdict, int(self._started_s * 1000)), verdict.lost,
        )  # fmt: skip
        if verdict.is_good:
            self._console.print("Every confirmed message was delivered.", style="bold green")
        elif not verdict.lost:
            self._console.print("A repeat came without the redelivered flag.", style="bold red")


def tell_verdict(
    console: Console, source: str, rows: Mapping[str, str], lost: Sequence[tuple[str, int]]
) -> None:
    """The figures of a verdict, by their titles, and the first of what was lost."""
    table = Table(title=f"verdict, from {source}", title_justify="left")
    table.add_column("")
    table.add_column("", justify="right")
    for title, value in rows.items():
        table.add_row(title, value)
    console.print(table)
    if lost:
        some = ", ".join(f"{name}:{number}" for name, number in lost[:10])
        console.print(f"LOST {len(lost)}: {some} …", style="bold red")


def node_names(cluster: Cluster) -> Mapping[str, str]:
    """`host:port` where clients connect -> the node's name."""
    return {f"{node.amqp.host}:{node.amqp.port}": node.name for node in cluster.nodes.values()}


def seconds(gap: Gap) -> str:
    """A pause for people."""
    return f"{gap.length_ms / 1000:.2f} s"


def pause(gap: Gap, started_ms: int) -> str:
    """A pause and the moment of the account at which it began."""
    return f"{seconds(gap)} (from {(gap.began_ms - started_ms) / 1000:.2f} s)"


def verdict_rows(verdict: Verdict, started_ms: int) -> dict[str, str]:
    """The verdict as titles and values; `started_ms` is when the account began."""
    return {
        "published": f"{verdict.published:,}",
        "confirmed": f"{verdict.confirmed:,}",
        "delivered": f"{verdict.delivered:,}",
        "lost (confirmed, never delivered)": f"{len(verdict.lost):,}",
        "delivered again, marked redelivered": f"{verdict.duplicates_flagged:,}",
        "delivered again, not marked": f"{verdict.duplicates_unflagged:,}",
        "sent again by the publisher": f"{verdict.resends:,}",
        "  of these, both sendings arrived": f"{verdict.resends_delivered:,}",
        "longest pause in confirms": pause(verdict.confirm_gap, started_ms),
        "longest pause in deliveries": pause(verdict.delivery_gap, started_ms),
    }
