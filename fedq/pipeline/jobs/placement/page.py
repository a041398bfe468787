"""The page of a plan: what crosses between nodes now and then, and each move."""

from dataclasses import dataclass
from typing import Final

from fedq.pipeline.jobs.kit.output import foot_of
from fedq.pipeline.jobs.placement.plan import Plan
from fedq.pipeline.pages.charts import Axis, Bar, Series, bars, lines
from fedq.pipeline.pages.numbers import moment, short, whole
from fedq.pipeline.pages.page import Fact, Page, Section, Table

JOB: Final = "placement"
_MOVES_MAX: Final = 1_000
_BARS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Foresight:
    """What crossed in the second half of the period, and would have by a plan of the first."""

    crossing: int
    then: int


def page_of(
    name: str, found: Plan, foresight: Foresight | None, steps: list[tuple[int, int, int, int]],
    now_s: float,
) -> Page:  # fmt: skip
    """The page of a plan from a trace. `steps`: when (ms), messages, crossing, as planned."""
    facts = [
        Fact(whole(found.crossing), "messages crossed between nodes"),
        Fact(whole(found.then), "would have, with these moves"),
        Fact(percent(found.crossing, found.then), "saved"),
        Fact(whole(len(found.moves)), "moves"),
    ]
    if foresight is not None:
        saved = percent(foresight.crossing, foresight.then)
        facts.append(Fact(saved, "saved in the second half by a plan of the first"))
    text = "Nothing of shared queues was published or delivered."
    if found.total:
        text = (
            f"Of {whole(found.total)} ways in and out of fragments {whole(found.crossing)} led "
            f"from one node to another. `fedq cluster rebalance --plan plan.json` makes the moves; "
            "what is unacknowledged stays with its consumers."
        )
    sections = [_over_time(steps), _moves(found), _led(found)]
    return Page(f"Placement by {name}", text, facts, sections, foot_of(JOB, now_s))


def percent(before: int, after: int) -> str:
    """How much less there is, in words."""
    return f"{100 * (before - after) / before:.0f} %" if before else "nothing"


def _over_time(steps: list[tuple[int, int, int, int]]) -> Section:
    series = [
        Series(title, [(row[0] / 1_000, float(row[column])) for row in steps])
        for title, column in (("as it is", 2), ("as planned", 3))
    ]
    return Section(
        "Messages that cross between nodes",
        "As if the present leaders, or those of the plan, had led all the time.",
        lines(series, Axis("messages", short)),
        Table(
            ("BEGINS", "#MESSAGES", "#CROSS", "#AS PLANNED"),
            [(moment(row[0] / 1_000), *row[1:]) for row in steps],
        ),
    )


def _moves(found: Plan) -> Section:
    rows = [
        (each.vhost, each.queue, each.fragment, each.source, each.target, each.crossing, each.then)
        for each in found.moves[:_MOVES_MAX]
    ]
    heaviest = [
        Bar(f"{each.queue} ({each.fragment}) to {each.target}", [each.saving])
        for each in found.moves[:_BARS_MAX]
    ]
    text = "What each saves, the most first." if rows else "None is worth it."
    headings = ("VHOST", "QUEUE", "#FRAGMENT", "FROM", "TO", "#CROSSED", "#WOULD HAVE")
    return Section("Moves", text, bars(heaviest, whole) if rows else "", Table(headings, rows))


def _led(found: Plan) -> Section:
    rows = [(node, found.led[node], found.led_then[node]) for node in found.nodes]
    chart = bars(
        [
            Bar(f"{node}, {when}", [count])
            for node, now, then in rows
            for when, count in (("now", now), ("then", then))
        ],
        whole,
    )  # fmt: skip
    return Section(
        "What goes through the fragments that each node leads",
        "No node gets more than its share of all messages, and a bit.",
        chart, Table(("NODE", "#NOW", "#THEN"), rows),
    )  # fmt: skip
