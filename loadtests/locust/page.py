"""The page of a run: its verdict, its figures, and three pictures in one SVG.

In: a report (`wiring`). Out: Markdown, and an SVG that is the same on every machine: latency over
time with the number of subscribers, subscribers against latency, memory of each node.
"""

from collections.abc import Sequence
from typing import Any, Final
from xml.sax.saxutils import escape

from loadtests.macro.chart import FAINT, INK, NAMESPACE, PAPER, STRIPE, box, text
from loadtests.macro.figures import number

WIDTH: Final = 1_080
PANEL: Final = 250
LEFT: Final = 90
RIGHT: Final = 1_000
TOP: Final = 70
COLORS: Final = ("#2b8a3e", "#1971c2", "#f08c00", "#c92a2a", "#7048e8", "#0b7285")
MIB: Final = 1 << 20
Point = tuple[float, float]


class Axes:
    """A panel: where values are, from 0 to the largest ones."""

    def __init__(self, top: float, title: str, xs: Sequence[float], ys: Sequence[float]) -> None:
        self.top = top + 34
        self.bottom = top + PANEL - 40
        self.x_max = max(xs, default=0) or 1.0
        self.y_max = max(ys, default=0) or 1.0
        self.title = title

    def x(self, value: float) -> float:
        """Where this value is, from the left."""
        return LEFT + (RIGHT - LEFT) * value / self.x_max

    def y(self, value: float) -> float:
        """Where this value is, from above."""
        return self.bottom - (self.bottom - self.top) * value / self.y_max

    def frame(self, x_name: str, y_name: str) -> list[str]:
        """Background, title and the largest values."""
        return [
            box(LEFT, self.top, RIGHT - LEFT, self.bottom - self.top, STRIPE),
            text(LEFT, self.top - 10, self.title, size=14),
            text(LEFT - 8, self.top + 10, number(self.y_max), anchor="end", size=11),
            text(LEFT - 8, self.top + 24, y_name, anchor="end", size=11, color=FAINT),
            text(LEFT - 8, self.bottom, "0", anchor="end", size=11),
            text(RIGHT, self.bottom + 16, f"{number(self.x_max)} {x_name}", anchor="end", size=11),
            text(LEFT, self.bottom + 16, "0", size=11),
        ]

    def line(self, points: Sequence[Point], color: str) -> str:
        """A line through all points."""
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"/>'

    def dots(self, points: Sequence[Point], color: str) -> list[str]:
        """A dot for each point."""
        return [
            f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="2.4" fill="{color}" '
            'fill-opacity="0.6"/>'
            for x, y in points
        ]

    def legend(self, names: Sequence[str]) -> list[str]:
        """The names of lines, in their colours."""
        parts = []
        for place, name in enumerate(names):
            x = LEFT + 330 + 130 * place
            color = COLORS[place % len(COLORS)]
            parts += [box(x, self.top - 20, 10, 10, color), text(x + 14, self.top - 10, name)]
        return parts


def _latencies(rows: Sequence[dict[str, Any]]) -> list[str]:
    named = [("median", "p50_us"), ("p99", "p99_us"), ("last subscriber", "last_us")]
    lines = [
        (name, [(float(row["second"]), row[key] / 1e3) for row in rows if key in row])
        for name, key in named
    ]
    axes = Axes(
        TOP, "Latency over time", [row["second"] for row in rows],
        [y for _, points in lines for _, y in points],
    )  # fmt: skip
    parts = axes.frame("seconds", "ms")
    most = max((row["subscribers"] for row in rows), default=0) or 1
    steps = [(float(row["second"]), row["subscribers"] / most * axes.y_max) for row in rows]
    parts.append(axes.line(steps, "#ced4da"))
    parts += [axes.line(points, COLORS[place]) for place, (_, points) in enumerate(lines) if points]
    parts += axes.legend([name for name, _ in lines])
    parts.append(
        text(
            RIGHT, axes.top + 14, f"grey: subscribers, {most:,} at most", anchor="end", color=FAINT
        )
    )
    return parts


def _against(rows: Sequence[dict[str, Any]]) -> list[str]:
    named = [("p99", "p99_us"), ("last subscriber", "last_us")]
    groups = [
        (name, [(float(row["subscribers"]), row[key] / 1e3) for row in rows if key in row])
        for name, key in named
    ]
    values = [point for _, points in groups for point in points]
    axes = Axes(
        TOP + PANEL, "Subscribers against latency", [x for x, _ in values], [y for _, y in values]
    )
    parts = axes.frame("subscribers", "ms")
    for place, (_, points) in enumerate(groups):
        parts += axes.dots(points, COLORS[place])
    return parts + axes.legend([name for name, _ in groups])


def _memory(rows: Sequence[dict[str, Any]]) -> list[str]:
    names = sorted({name for row in rows for name in row.get("node_bytes", ())})
    lines = [
        [
            (float(row["second"]), row["node_bytes"][name] / MIB)
            for row in rows
            if name in row.get("node_bytes", ())
        ]
        for name in names
    ]
    axes = Axes(
        TOP + 2 * PANEL, "Memory of each node", [row["second"] for row in rows],
        [y for points in lines for _, y in points],
    )  # fmt: skip
    parts = axes.frame("seconds", "MiB")
    if not names:
        parts.append(text(LEFT + 20, axes.top + 60, "nobody looked: give --pids", color=FAINT))
    parts += [axes.line(line, COLORS[place % 6]) for place, line in enumerate(lines)]
    return parts + axes.legend(names)


def draw(report: dict[str, Any]) -> str:
    """The pictures."""
    rows, about = report["timeline"], report["about"]
    height = TOP + 3 * PANEL
    title = f"{about['shape']}, {report['subscribers_max']:,} subscribers, {about['date']}"
    parts = [
        f'<svg xmlns="{NAMESPACE}" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f"<title>{escape(title)}</title>",
        box(0, 0, WIDTH, height, PAPER),
        text(12, 26, title, size=17),
        text(
            12, 46, "Good." if report["good"] else f"Bad: {'; '.join(report['problems'])}",
            color=INK if report["good"] else "#c92a2a",
        ),
        *_latencies(rows), *_against(rows), *_memory(rows),
    ]  # fmt: skip
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ms(summary: dict[str, int]) -> str:
    return " · ".join(f"{summary[key] / 1e3:,.1f}" for key in ("p50", "p99", "max"))


def page(report: dict[str, Any], picture: str) -> str:
    """The page, which shows the picture of this name."""
    about, lives = report["about"], report["lives"]
    rows = [
        ("subscribers at most", f"{report['subscribers_max']:,}"),
        ("connections of subscribers that went on, were closed, were broken",
         f"{lives['live']:,} · {lives['closed']:,} · {lives['broken']:,}"),
        ("published, confirmed, unsettled",
         f"{report['published']:,} · {report['confirmed']:,} · {report['unsettled']:,}"),
        ("deliveries", f"{report['delivered']:,}"),
        ("owed, lost, repeated, out of order",
         f"{report['owed']:,} · {report['lost']:,} · {report['repeated']:,} · "
         f"{report['out_of_order']:,}"),
        ("slow subscribers, what they missed",
         f"{lives['slow']:,} · {report['missed_by_slow']:,}"),
        ("latency, ms: median, p99, most", _ms(report["latency_us"])),
        ("latency to the last subscriber, ms", _ms(report["last_subscriber_us"])),
        ("publish to confirm, ms", _ms(report["confirm_us"])),
    ]  # fmt: skip
    for name, node in report["nodes"].items():
        rows.append(
            (f"{name}: MiB before, at most, at the end; processor seconds",
             f"{node['bytes_first'] // MIB:,} · {node['bytes_max'] // MIB:,} · "
             f"{node['bytes_last'] // MIB:,}; {node['cpu_seconds']:,.1f}")
        )  # fmt: skip
    lines = [
        f"# Load test: {about['shape']}, {about['date']}",
        "",
        "Good." if report["good"] else "**Bad**: " + "; ".join(report["problems"]) + ".",
        "",
        f"{about['subscribers']:,} subscribers asked for, {about['brokers']} brokers, "
        f"{report['workers']} workers, {about['rate']:g} messages a second of "
        f"{about['body_bytes']} bytes; {about['cores']} cores shared by all, load average "
        f"{', '.join(map(str, about['load_average']))} at the end.",
        "",
        f"![Latency, subscribers, memory]({picture})",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in rows),
    ]
    if report["failures"]:
        lines += ["", "| what failed and was tried again | how often |", "|---|---|"]
        lines += [f"| {text_} | {count:,} |" for text_, count in report["failures"].items()]
    return "\n".join(lines) + "\n"
