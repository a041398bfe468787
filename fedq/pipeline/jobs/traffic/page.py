"""The page of a stream's traffic."""

from collections.abc import Callable
from typing import Final

from fedq.pipeline.jobs.kit.output import foot_of
from fedq.pipeline.jobs.traffic.summary import Sizes, Step, Summary
from fedq.pipeline.pages.charts import COLOURS, Axis, Bar, Series, bars, lines
from fedq.pipeline.pages.numbers import byte_size, moment, short, whole
from fedq.pipeline.pages.page import Fact, Page, Section, Table

JOB: Final = "traffic"
_OTHERS: Final = "(others)"


def page_of(found: Summary, now_s: float) -> Page:
    """The page."""
    seconds = max(found.end_s - found.begin_s + 60, 60) if found.messages else 60
    mean = found.bytes / found.messages if found.messages else 0.0
    facts = [
        Fact(whole(found.messages), "messages"),
        Fact(byte_size(found.bytes), "of bodies"),
        Fact(short(found.messages / seconds), "messages a second"),
        Fact(byte_size(mean), "a message, on average"),
        Fact(short(found.keys), "routing keys, about"),
        Fact(whole(found.late), "came late"),
    ]
    span = f"{moment(found.begin_s)} to {moment(found.end_s + 60)}" if found.messages else "No rows"
    complete = (
        f"Minutes before {moment(found.complete_s)} are complete." if found.complete_s else ""
    )
    return Page(
        f"Traffic of {found.stream}", f"{span}. {complete}", facts,
        [_rates(found), _bytes(found), _sizes(found), _heaviest(found), _exchanges(found)],
        foot_of(JOB, now_s),
    )  # fmt: skip


def _rates(found: Summary) -> Section:
    rows = [
        (moment(each.at_s), _named(each.exchange), each.messages, each.bytes)
        for each in found.steps
    ]
    return Section(
        f"Messages by exchange, {_each(found)}", "",
        lines(_by_exchange(found, lambda each: each.messages), Axis("messages"), fills=False),
        Table(("BEGINS", "EXCHANGE", "#MESSAGES", "#BYTES"), rows),
    )  # fmt: skip


def _bytes(found: Summary) -> Section:
    chart = lines(_by_exchange(found, lambda each: each.bytes), Axis("bytes", byte_size))
    return Section(f"Bytes of bodies by exchange, {_each(found)}", "", chart)


def _sizes(found: Summary) -> Section:
    kinds: tuple[tuple[str, Callable[[Sizes], int]], ...] = (
        ("half of them", lambda each: each.half),
        ("nine of ten", lambda each: each.nine_of_ten),
        ("99 of 100", lambda each: each.ninety_nine_of_hundred),
        ("all", lambda each: each.largest),
    )
    series = [
        Series(name, [(at, max(get(each), 1)) for at, each in found.sizes]) for name, get in kinds
    ]
    rows = [
        (moment(at), each.half, each.nine_of_ten, each.ninety_nine_of_hundred, each.largest)
        for at, each in found.sizes
    ]
    return Section(
        f"How large messages are, {_each(found)}",
        "Bytes of a body that so many messages have at most; from sketches, so about.",
        lines(series, Axis("bytes", byte_size, is_logarithmic=True)),
        Table(("BEGINS", "#HALF", "#NINE OF TEN", "#99 OF 100", "#LARGEST"), rows),
    )  # fmt: skip


def _heaviest(found: Summary) -> Section:
    chart = bars(
        [
            Bar(f"{_named(each.exchange)}  {each.routing_key}", [each.messages],
                byte_size(each.bytes))
            for each in found.heaviest
        ],
        whole,
    )  # fmt: skip
    rows = [
        (_named(each.exchange), each.routing_key, each.messages, each.bytes)
        for each in found.heaviest
    ]
    text = f"A key that is not listed has {whole(found.unlisted_max)} messages at most."
    table = Table(("EXCHANGE", "ROUTING KEY", "#MESSAGES", "#BYTES"), rows)
    return Section("The heaviest routing keys", text, chart, table)


def _exchanges(found: Summary) -> Section:
    chart = bars([Bar(_named(name), [size]) for name, _, size in found.exchanges], byte_size)
    rows = [(_named(name), count, size) for name, count, size in found.exchanges]
    return Section("Bytes by exchange", "", chart, Table(("EXCHANGE", "#MESSAGES", "#BYTES"), rows))


def _by_exchange(found: Summary, value: Callable[[Step], int]) -> list[Series]:
    """A line for each of the exchanges with most messages, and one for the others."""
    names = [name for name, _, _ in found.exchanges]
    shown = names if len(names) <= COLOURS else names[: COLOURS - 1]
    step_s = found.step_minutes * 60
    first = found.begin_s // step_s * step_s
    times = range(first, found.end_s + 1, step_s) if found.messages else range(0)
    values: dict[str, dict[int, int]] = {_named(name): {} for name in shown}
    for each in found.steps:
        name = _named(each.exchange) if each.exchange in shown else _OTHERS
        mine = values.setdefault(name, {})
        mine[each.at_s] = mine.get(each.at_s, 0) + value(each)
    return [
        Series(name, [(at, float(mine.get(at, 0))) for at in times])
        for name, mine in values.items()
    ]


def _each(found: Summary) -> str:
    minutes = found.step_minutes
    return "each minute" if minutes == 1 else f"each {minutes} minutes"


def _named(exchange: str) -> str:
    return exchange or "(default exchange)"
