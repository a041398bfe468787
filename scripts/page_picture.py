"""The picture of a page: what `fedq pipeline traffic` made of half an hour of a test stream.

In: the numbers of that run, as they stand here. Out: an SVG with the page's own charts and colours.
"""

from typing import Final
from xml.sax.saxutils import escape

from fedq.pipeline.pages.charts import WIDTH, Axis, Bar, Series, bars, lines
from fedq.pipeline.pages.numbers import short, whole
from fedq.pipeline.pages.style import STYLE

#: The first minute, and the messages of each.
BEGIN_S: Final = 1_795_686_060
SHOP: Final = (
    1_888, 4_771, 5_575, 6_214, 5_939, 5_111, 4_025, 2_745, 1_636, 1_070, 1_163, 1_698, 2_761,
    4_178, 5_241, 5_953, 6_022, 5_645, 4_663, 3_457, 2_273, 1_331, 1_058, 1_308, 2_259, 3_375,
    4_620, 5_525, 5_597, 5_604, 2_142,
)  # fmt: skip
AUDIT: Final = (
    281, 728, 774, 889, 779, 708, 515, 361, 234, 146, 141, 229, 407, 528, 705, 806, 833, 787,
    620, 445, 289, 180, 132, 161, 300, 452, 609, 746, 780, 759, 273,
)  # fmt: skip
KEYS: Final = (
    ("shop  cart.add", 34_405),
    ("shop  payment.ok", 22_868),
    ("audit  login.ok", 11_726),
    ("shop  order.created", 11_675),
    ("shop  payment.failed", 11_559),
    ("shop  order.shipped", 11_515),
    ("shop  order.paid", 11_469),
    ("shop  cart.remove", 11_356),
    ("audit  login.denied", 3_871),
)  # fmt: skip
FACTS: Final = (
    ("130,444", "messages"), ("66.8 MB", "of bodies"), ("70.1", "messages a second"),
    ("9", "routing keys, about"), ("0", "came late"),
)  # fmt: skip
_MARGIN: Final = 24
_FACT: Final = 150


def draw_page(namespace: str) -> str:
    """The whole picture."""
    series = [
        Series(name, [(BEGIN_S + 60 * minute, float(count)) for minute, count in enumerate(counts)])
        for name, counts in (("shop", SHOP), ("audit", AUDIT))
    ]
    rates = lines(series, Axis("messages", short))
    heaviest = bars([Bar(name, [count]) for name, count in KEYS], whole)
    width, height = WIDTH + 2 * _MARGIN, 690
    parts = [
        f'<svg xmlns="{namespace}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        "<title>A page of fedq pipeline traffic</title>",
        f"<style>{STYLE} svg {{ background: var(--paper) }}</style>",
        _text(_MARGIN, 36, "Traffic of shop-events", 24),
        _text(_MARGIN, 58, "2026-11-26 09:41:00 UTC to 2026-11-26 10:12:00 UTC.", 13, faint=True),
    ]
    for index, (value, name) in enumerate(FACTS):
        x = _MARGIN + index * _FACT
        parts += [_text(x, 100, value, 20), _text(x, 118, name, 12, faint=True)]
    parts.append(_text(_MARGIN, 158, "Messages by exchange, each minute", 16))
    parts.append(_placed(rates, 166, 260))
    parts.append(_text(_MARGIN, 462, "The heaviest routing keys", 16))
    parts.append(_placed(heaviest, 470, 22 * len(KEYS) + 8))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _placed(chart: str, y: int, height: int) -> str:
    """A chart without its legend, at its place."""
    drawn = chart.partition("</svg>")[0] + "</svg>"
    place = f'<svg x="{_MARGIN}" y="{y}" width="{WIDTH}" height="{height}" style="width:{WIDTH}px" '
    return drawn.replace("<svg ", place, 1)


def _text(x: int, y: int, words: str, size: int, *, faint: bool = False) -> str:
    kind = ' class="faint"' if faint else ""
    return f'<text{kind} x="{x}" y="{y}" style="font-size:{size}px">{escape(words)}</text>'
