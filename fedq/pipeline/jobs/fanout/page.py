"""The page of fan-outs: what subscribers waited, by nodes and their number."""

from collections.abc import Callable
from typing import Final

from fedq.pipeline.jobs.fanout.summary import Shape, Summary
from fedq.pipeline.jobs.kit.output import foot_of
from fedq.pipeline.pages.charts import COLOURS, Axis, Bar, Series, bars, curves
from fedq.pipeline.pages.numbers import microseconds, short, whole
from fedq.pipeline.pages.page import Fact, Page, Section, Table

JOB: Final = "fanout"
#: What load tests do not write, so that nobody looks for it here.
MISSING: Final = (
    "Load tests write percentiles of a whole run. What each message waited, and at which node its "
    "subscribers were, is not written: so nodes are known by their number alone, and percentiles "
    "of several runs stand side by side (the median, the least and the most of them)."
)


def page_of(found: Summary, now_s: float) -> Page:
    """The page."""
    wrong = sum(each.wrong for each in found.shapes)
    facts = [
        Fact(whole(sum(each.runs for each in found.shapes)), "runs"),
        Fact(short(sum(each.deliveries for each in found.shapes)), "deliveries measured"),
        Fact(whole(max((each.subscribers for each in found.shapes), default=0)), "subscribers"),
        Fact(whole(wrong), "lost, repeated, refused or out of order", not wrong),
    ]
    text = f"From {', '.join(found.files)}."
    sections = [_waited(found), _last(found), _by_subscribers(found), _rates(found)]
    sections.append(Section("What is not here", MISSING))
    return Page("What subscribers waited", text, facts, sections, foot_of(JOB, now_s))


def _waited(found: Summary) -> Section:
    rows = [
        Bar(each.name, [each.p50, each.p90 - each.p50, each.p99 - each.p90])
        for each in found.shapes
    ]
    numbers = [
        (each.broker, each.nodes, each.subscribers, each.connections, each.rate or "full speed",
         each.runs, each.p50, each.p90, each.p99, each.p99_least, each.p99_most, each.longest)
        for each in found.shapes
    ]  # fmt: skip
    headings = (
        "BROKER", "#NODES", "#SUBSCRIBERS", "#CONNECTIONS", "PUBLISHES/S", "#RUNS", "#P50 µs",
        "#P90 µs", "#P99 µs", "#P99 LEAST", "#P99 MOST", "#LONGEST",
    )  # fmt: skip
    legend = ("half of the deliveries", "nine of ten", "99 of 100")
    return Section(
        "From the publish to the delivery", "All subscribers of a run together.",
        bars(rows, microseconds, legend), Table(headings, numbers),
    )  # fmt: skip


def _last(found: Summary) -> Section:
    known = [each for each in found.shapes if each.last_p99 is not None]
    rows = [
        Bar(each.name, [each.last_p50 or 0.0, (each.last_p99 or 0.0) - (each.last_p50 or 0.0)])
        for each in known
    ]
    numbers = [(each.name, each.last_p50, each.last_p99) for each in known]
    chart = bars(rows, microseconds, ("half of the messages", "99 of 100")) if rows else ""
    return Section(
        "Until the last subscriber had it",
        "Measured where each subscriber has a connection of its own.", chart,
        Table(("RUN", "#P50 µs", "#P99 µs"), numbers) if rows else None,
    )  # fmt: skip


def _by_subscribers(found: Summary) -> Section:
    chart = curves(
        _series(found, lambda each: each.p99), Axis("subscribers", short),
        Axis("99 of 100 waited at most", microseconds),
    )  # fmt: skip
    return Section("As subscribers grow in number", "", chart)


def _rates(found: Summary) -> Section:
    rows = [Bar(each.name, [each.per_second]) for each in found.shapes]
    numbers = [(each.name, each.per_second) for each in found.shapes]
    return Section(
        "Deliveries per second", "", bars(rows, short), Table(("RUN", "#PER SECOND"), numbers)
    )


def _series(found: Summary, value: Callable[[Shape], float]) -> list[Series]:
    """A line for each broker and number of nodes, paced and not."""
    points: dict[str, dict[float, float]] = {}
    for each in found.shapes:
        if each.connections != each.subscribers:
            continue
        pace = "paced" if each.rate else "full speed"
        name = f"{each.broker}, {each.nodes} node{'s' if each.nodes > 1 else ''}, {pace}"
        mine = points.setdefault(name, {})
        mine[each.subscribers] = max(value(each), mine.get(each.subscribers, 0.0))
    return [Series(name, sorted(mine.items())) for name, mine in list(points.items())[:COLOURS]]
