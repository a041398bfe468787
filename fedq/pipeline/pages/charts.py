"""Charts as inline SVG: lines over time, bars beside each other, points of two numbers.

Inputs: series of values with names. Output: SVG text whose colours are the page's (CSS variables),
so that one drawing is right in light and in dark. Each mark has a title, which browsers show when
one points at it. Nothing is drawn that is no finite number: a line has a hole there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from fedq.pipeline.pages.numbers import Words, clock, moment, short, ticks, time_ticks

#: How many series have a colour of their own.
COLOURS: Final = 8
WIDTH: Final = 860
_HEIGHT: Final = 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 26, 30
_BAR: Final = 22
_NAME_WIDTH: Final = 320
_NAME_MAX: Final = 46


@dataclass(frozen=True, slots=True)
class Series:
    """Values with a name; what is None, or no number, is not drawn."""

    name: str
    points: Sequence[tuple[float, float | None]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar, or several on top of each other: one for each part of the legend."""

    name: str
    parts: Sequence[float]
    #: What is said of it beside its value.
    note: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """How an axis is written."""

    title: str = ""
    words: Words = short
    is_logarithmic: bool = False


@dataclass(slots=True)
class _Plane:
    """From values to places on the paper."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float
    y: Axis
    height: int = _HEIGHT
    parts: list[str] = field(default_factory=list)

    def x_of(self, value: float) -> float:
        span = self.high_x - self.low_x or 1.0
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (value - self.low_x) / span

    def y_of(self, value: float) -> float:
        low, high = self.low_y, self.high_y
        if self.y.is_logarithmic:
            value, low, high = (math.log10(max(each, 1e-12)) for each in (value, low, high))
        span = high - low or 1.0
        return self.height - _BOTTOM - (self.height - _TOP - _BOTTOM) * (value - low) / span


def lines(series: Sequence[Series], y: Axis, *, fills: bool = False) -> str:
    """Lines over time (x in seconds since 1970); `fills`: the first one as an area."""
    return _plotted(series, y, Axis(words=clock), is_time=True, fills=fills)


def curves(series: Sequence[Series], x: Axis, y: Axis) -> str:
    """Lines with points over a number."""
    return _plotted(series, y, x, is_time=False, fills=False)


def bars(rows: Sequence[Bar], words: Words, legend: Sequence[str] = ()) -> str:
    """Horizontal bars, each with its name before and its value behind it."""
    longest = max((sum(each.parts) for each in rows), default=0.0) or 1.0
    room = WIDTH - _NAME_WIDTH - 150
    height = _BAR * len(rows) + 8
    parts: list[str] = []
    for index, row in enumerate(rows):
        top = 4 + _BAR * index
        parts.append(_text(_NAME_WIDTH - 8, top + 15, _cut(row.name), "end", full=row.name))
        at = float(_NAME_WIDTH)
        for place, value in enumerate(row.parts):
            width = room * value / longest
            name = f"{row.name}: {legend[place]}" if legend else row.name
            parts.append(
                f'<rect class="s{place % COLOURS}" x="{at:.1f}" y="{top + 3}" '
                f'width="{max(width, 0.5 if value else 0.0):.1f}" height="{_BAR - 7}" rx="2">'
                f"<title>{escape(f'{name}: {words(value)}')}</title></rect>"
            )
            at += width
        said = words(sum(row.parts)) + (f"  {row.note}" if row.note else "")
        parts.append(_text(at + 6, top + 15, said, faint=True))
    return _svg(parts, height) + _legend(legend)


def _plotted(series: Sequence[Series], y: Axis, x: Axis, *, is_time: bool, fills: bool) -> str:
    known = [point for each in series for point in each.points if _is_number(point[1])]
    if not known:
        return '<p class="none">There is nothing to draw.</p>'
    xs = [point[0] for point in known]
    ys = [float(point[1] or 0.0) for point in known]
    plane = _plane(xs, ys, y)
    _draw_grid(plane, x, is_time)
    for index, each in enumerate(series):
        _draw_line(plane, index, each, x, fills and index == 0, is_time)
    return _svg(plane.parts, plane.height) + _legend([each.name for each in series])


def _plane(xs: Sequence[float], ys: Sequence[float], y: Axis) -> _Plane:
    low_x, high_x = min(xs), max(xs)
    if low_x == high_x:
        low_x, high_x = low_x - 30, high_x + 30
    if y.is_logarithmic:
        low = 10.0 ** math.floor(math.log10(max(min(ys), 1e-9)))
        high = 10.0 ** math.ceil(math.log10(max(max(ys), low * 1.001)))
        return _Plane(low_x, high_x, low, high, y)
    marks = ticks(min(0.0, *ys), max(*ys, 0.0) or 1.0)
    return _Plane(low_x, high_x, marks[0], marks[-1], y)


def _draw_grid(plane: _Plane, x: Axis, is_time: bool) -> None:
    if plane.y.is_logarithmic:
        low, high = round(math.log10(plane.low_y)), round(math.log10(plane.high_y))
        marks = [10.0**power for power in range(low, high + 1)]
    else:
        marks = ticks(plane.low_y, plane.high_y)
    bottom = plane.height - _BOTTOM
    for each in marks:
        at = plane.y_of(each)
        plane.parts.append(_rule(_LEFT, at, WIDTH - _RIGHT, at))
        plane.parts.append(_text(_LEFT - 6, at + 4, plane.y.words(each), "end", faint=True))
    if is_time:
        across = time_ticks(plane.low_x, plane.high_x)
    else:
        across = [
            each for each in ticks(plane.low_x, plane.high_x) if plane.low_x <= each <= plane.high_x
        ]
    for each in across:
        at = plane.x_of(each)
        plane.parts.append(_rule(at, bottom, at, bottom + 4))
        side = "end" if at > WIDTH - 2 * _RIGHT else "middle"
        plane.parts.append(_text(at, bottom + 18, x.words(each), side, faint=True))
    if plane.y.title:
        plane.parts.append(_text(_LEFT, _TOP - 12, plane.y.title, faint=True))
    if x.title:
        plane.parts.append(_text(WIDTH - _RIGHT, _TOP - 12, f"{x.title} →", "end", faint=True))


def _draw_line(
    plane: _Plane, index: int, series: Series, x: Axis, fills: bool, is_time: bool
) -> None:
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in series.points:
        if _is_number(value):
            runs[-1].append((at, float(value or 0.0)))
        elif runs[-1]:
            runs.append([])
    colour = index % COLOURS
    for run in runs:
        if not run:
            continue
        path = " ".join(f"{plane.x_of(at):.1f},{plane.y_of(value):.1f}" for at, value in run)
        if fills:
            first, last = plane.x_of(run[0][0]), plane.x_of(run[-1][0])
            bottom = plane.y_of(plane.low_y)
            area = f"{first:.1f},{bottom:.1f} {path} {last:.1f},{bottom:.1f}"
            plane.parts.append(f'<polygon class="area s{colour}" points="{area}"/>')
        plane.parts.append(f'<polyline class="line l{colour}" points="{path}"/>')
        # A mark each, so that a value can be pointed at.
        for at, value in run:
            when = moment(at) if is_time else x.words(at)
            told = escape(f"{series.name}, {when}: {plane.y.words(value)}")
            radius = 3 if len(run) <= 60 else 1.5
            plane.parts.append(
                f'<circle class="s{colour}" cx="{plane.x_of(at):.1f}" '
                f'cy="{plane.y_of(value):.1f}" r="{radius}"><title>{told}</title></circle>'
            )


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _svg(parts: Sequence[str], height: int) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" preserveAspectRatio="xMidYMid meet">'
        + "".join(parts)
        + "</svg>"
    )


def _legend(names: Sequence[str]) -> str:
    if len(names) < 2:
        return ""
    items = [
        f'<li><i class="b{index % COLOURS}"></i>{escape(name)}</li>'
        for index, name in enumerate(names)
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="rule" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(
    x: float, y: float, words: str, anchor: str = "start", *, faint: bool = False, full: str = ""
) -> str:
    kind = ' class="faint"' if faint else ""
    title = f"<title>{escape(full)}</title>" if full and full != words else ""
    return (
        f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor={quoteattr(anchor)}>'
        f"{escape(words)}{title}</text>"
    )


def _cut(name: str) -> str:
    return name if len(name) <= _NAME_MAX else name[: _NAME_MAX - 1] + "…"
