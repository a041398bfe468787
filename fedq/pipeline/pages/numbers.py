"""Numbers and times as people read them, and the ticks of an axis.

Pure: values in, text and lists of values out.
"""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TypeAlias

Words: TypeAlias = Callable[[float], str]
#: Steps of charts that are made of events, and how many of them one has, up to years.
_STEPS_MS: Final = (1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)
_STEPS_MAX: Final = 240

#: What is less apart is the same: steps between would be no numbers any more.
_LEAST: Final = 1e-300
_STEPS: Final = (1.0, 2.0, 5.0, 10.0)
#: Steps of a time axis, in seconds.
_TIME_STEPS: Final = (
    1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400, 172_800,
    604_800, 2_592_000, 31_536_000,
)  # fmt: skip
_DAY_S: Final = 86_400


def whole(value: float) -> str:
    """A count: 12,345."""
    return f"{value:,.0f}"


def short(value: float) -> str:
    """A number in few signs: 12.3 k, 4.5 M, 0.02."""
    size = abs(value)
    for bound, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if size >= bound:
            return f"{_three(value / bound)}{unit}"
    return _three(value)


def byte_size(value: float) -> str:
    """Bytes, by powers of 1,000, so that the ticks of an axis are round: 12.3 kB."""
    size = abs(value)
    for bound, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= bound:
            return f"{_three(value / bound)} {unit}"
    return f"{_three(value)} B"


def microseconds(value: float) -> str:
    """A time span that is given in microseconds: 850 µs, 1.2 ms, 3.4 s."""
    size = abs(value)
    if size >= 1e6:
        return f"{_three(value / 1e6)} s"
    return f"{_three(value / 1e3)} ms" if size >= 1e3 else f"{_three(value)} µs"


def clock(value: float) -> str:
    """A time, in seconds since 1970, in UTC: the hour, or the day where it begins."""
    at = datetime.fromtimestamp(value, UTC)
    if value % _DAY_S == 0:
        return f"{at:%b} {at.day}"
    return f"{at:%H:%M}" if value % 60 == 0 else f"{at:%H:%M:%S}"


def moment(value: float) -> str:
    """A time, in seconds since 1970, with its day."""
    return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About so many round numbers, from `low` at the latest to `high` at the earliest."""
    if not (math.isfinite(low) and math.isfinite(high)) or high - low < _LEAST:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in _STEPS if each * power >= rough * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def time_ticks(low: float, high: float, count: int = 8) -> list[float]:
    """At most about so many round times between two, in seconds since 1970."""
    rough = max(high - low, 1.0) / count
    step = next((each for each in _TIME_STEPS if each >= rough), _TIME_STEPS[-1])
    first = math.ceil(low / step)
    return [float(number * step) for number in range(first, int(high // step) + 1)]


def step_ms_for(span_ms: int) -> int:
    """The step of a chart over so many milliseconds: a round one, and few enough of them."""
    return next((each for each in _STEPS_MS if span_ms / each <= _STEPS_MAX), _STEPS_MS[-1])


def _three(value: float) -> str:
    """Three digits that count, no zeros behind them."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 1 if abs(value) >= 10 else 2
    if abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")
