"""The chart of a report: for each figure a bar of fedq's and one of RabbitMQ's median.

In: a report (`results.py`). Out: an SVG, the same bytes on every machine. The bars of a row are
drawn to the longest of that row, for the rows have different units; a thin line shows the range.
"""

from typing import Any, Final
from xml.sax.saxutils import escape

from loadtests.macro.figures import number
from loadtests.macro.results import rounds_of

#: The name that XML gives to SVG; put together, because it is a name and leads nowhere.
NAMESPACE: Final = "http:" + "//www.w3.org/2000/svg"
WIDTH: Final = 1_080
LEFT: Final = 560
BAR_MAX: Final = 360
ROW: Final = 44
TOP: Final = 74
BAR: Final = 14
INK: Final = "#1f2933"
FAINT: Final = "#7b8794"
PAPER: Final = "#ffffff"
STRIPE: Final = "#f5f7fa"
COLORS: Final = {"fedq": "#2b8a3e", "rabbitmq": "#f08c00"}


def text(
    x: float, y: float, words: str, *, color: str = INK, anchor: str = "start", size: int = 12
) -> str:
    """Words at a place."""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" fill="{color}" text-anchor="{anchor}" '
        f'font-size="{size}">{escape(words)}</text>'
    )


def box(x: float, y: float, width: float, height: float, color: str) -> str:
    """A filled rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'
    )


def _bar(kind: str, spread: dict[str, Any], y: float, longest: float) -> list[str]:
    """One broker's bar with its range and value; or a word on why there is none."""
    if "median" not in spread:
        if not spread["failures"]:
            return []
        return [text(LEFT, y + BAR - 3, "did not finish", color=FAINT, size=11)]
    scale = BAR_MAX / longest if longest else 0.0
    middle = y + BAR / 2
    parts = [box(LEFT, y, max(spread["median"] * scale, 1.0), BAR, COLORS[kind])]
    if len(spread["values"]) > 1:
        low, high = LEFT + spread["least"] * scale, LEFT + spread["most"] * scale
        parts.append(
            f'<line x1="{low:.1f}" y1="{middle:.1f}" x2="{high:.1f}" y2="{middle:.1f}" '
            f'stroke="{INK}" stroke-width="1.5"/>'
        )
    end = LEFT + max(spread["median"], spread["most"]) * scale
    parts.append(text(end + 6, y + BAR - 3, number(spread["median"]), size=11))
    return parts


def _row(row: dict[str, Any], y: float, is_striped: bool) -> list[str]:
    spreads: dict[str, dict[str, Any]] = row["brokers"]
    longest = max((float(spread.get("most", 0)) for spread in spreads.values()), default=0.0)
    direction = "more is better" if row["is_more_better"] else "less is better"
    note = f"{row['figure']}, {row['unit']}; {direction}"
    if row["aim"]:
        note += f"; aim {row['aim']}"
    parts = [box(0, y, WIDTH, ROW, STRIPE)] if is_striped else []
    parts += [text(12, y + 18, row["about"]), text(12, y + 35, note, color=FAINT, size=11)]
    for place, (kind, spread) in enumerate(spreads.items()):
        parts += _bar(kind, spread, y + 6 + place * (BAR + 4), longest)
    return parts


def draw(report: dict[str, Any]) -> str:
    """The whole picture."""
    rows = [row for row in report["rows"] if any("median" in s for s in row["brokers"].values())]
    height = TOP + ROW * len(rows) + 16
    parts = [
        f'<svg xmlns="{NAMESPACE}" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f"<title>{escape(' and '.join(report['brokers'].values()))}, {report['date']}</title>",
        box(0, 0, WIDTH, height, PAPER),
        text(12, 26, f"{' and '.join(report['brokers'].values())}, {report['date']}", size=17),
        text(
            12, 46,
            f"{rounds_of(report)}; bars to the scale of their row, the range as a line in them.",
            color=FAINT,
        ),
    ]  # fmt: skip
    for place, (kind, name) in enumerate(report["brokers"].items()):
        parts.append(box(LEFT + 160 * place, 15, 12, 12, COLORS[kind]))
        parts.append(text(LEFT + 18 + 160 * place, 26, name))
    if report["disturbance"]:
        words = "Others were using this machine: rates, latencies and set-up times mean little."
        parts.append(text(12, 64, words, color="#c92a2a"))
    for place, row in enumerate(rows):
        parts += _row(row, TOP + ROW * place, place % 2 == 0)
    return "\n".join([*parts, "</svg>"]) + "\n"
