"""The page of an audit: verdicts, what was judged, and each message that refutes a promise."""

from itertools import pairwise
from typing import Final

from fedq.pipeline.jobs.audit.verdict import PROMISES, Verdict
from fedq.pipeline.jobs.kit.output import foot_of
from fedq.pipeline.pages.charts import Axis, Bar, Series, bars, lines
from fedq.pipeline.pages.numbers import moment, short, whole
from fedq.pipeline.pages.page import Fact, Page, Section, Table

JOB: Final = "audit"
_LINES_MAX: Final = 8


def page_of(name: str, found: Verdict, now_s: float) -> Page:
    """The page of an audit of a trace."""
    covered = found.coverage
    facts = [
        Fact(found.of(promise), f"{promise}: {what}", _is_well(found.of(promise)))
        for promise, what in PROMISES.items()
    ]
    facts += [
        Fact(whole(covered.events), "events"),
        Fact(whole(len(covered.nodes)), "nodes"),
        Fact(whole(covered.lost_events), "events lost", not covered.lost_events),
        Fact(whole(covered.missing_batches), "batches missing", not covered.missing_batches),
        Fact(whole(found.undecided), "publishes undecided", not found.undecided),
    ]
    text = "No events."
    if covered.events:
        text = (
            f"{moment(covered.begin_ms / 1_000)} to {moment(covered.end_ms / 1_000)}, as seen by "
        )
        text += f"{', '.join(covered.nodes)}. "
        text += _conclusion(found)
    sections = [_findings(found), _judged(found), _activity(found)]
    return Page(f"Audit of {name}", text, facts, sections, foot_of(JOB, now_s))


def _is_well(verdict: str) -> bool | None:
    return {"kept": True, "refuted": False}.get(verdict)


def _conclusion(found: Verdict) -> str:
    if found.is_refuted:
        return "These promises were broken by the messages below."
    if not found.coverage.is_whole:
        return "Nothing refutes a promise; as events are missing, nothing is proved either."
    if found.undecided:
        return (
            "Nothing refutes a promise. What became of some confirmed publishes was not written "
            "any more by a process that ended without a word, so P1 is open."
        )
    return "Nothing refutes a promise."


def _findings(found: Verdict) -> Section:
    rows = [
        (moment(each.ms / 1_000), each.promise, each.queue, each.name, each.text)
        for each in found.findings
    ]
    total = sum(found.counts.values())
    text = "None." if not total else f"{whole(total)} in all; the first by time."
    chart = (
        bars([Bar(rule, [count]) for rule, count in found.rules.items()], whole) if total else ""
    )
    table = Table(("WHEN", "PROMISE", "QUEUE", "MESSAGE", "WHAT"), rows)
    return Section("Messages that refute a promise", text, chart, table if total else None, True)


def _judged(found: Verdict) -> Section:
    rows = [
        (promise, what, found.judged.get(promise, 0), found.counts.get(promise, 0))
        for promise, what in PROMISES.items()
    ]
    return Section(
        "What was judged", "Messages, deliveries or pairs that could have refuted a promise.",
        bars([Bar(f"{promise}: {what}", [count]) for promise, what, count, _ in rows], whole),
        Table(("PROMISE", "WHAT IT SAYS", "#JUDGED", "#FINDINGS"), rows),
    )  # fmt: skip


def _activity(found: Verdict) -> Section:
    totals: dict[str, int] = {}
    for _, kind, count in found.activity:
        totals[kind] = totals.get(kind, 0) + count
    shown = sorted(totals, key=lambda kind: -totals[kind])[:_LINES_MAX]
    times = _steps(sorted({at for at, _, _ in found.activity}))
    counts = {(at, kind): count for at, kind, count in found.activity}
    series = [
        Series(kind, [(at / 1_000, float(counts.get((at, kind), 0))) for at in times])
        for kind in shown
    ]
    rows = [(moment(at / 1_000), kind, count) for at, kind, count in found.activity]
    return Section(
        "What happened", "Events in the trace, by when they were seen; an event is a run.",
        lines(series, Axis("events", short)), Table(("BEGINS", "KIND", "#EVENTS"), rows),
    )  # fmt: skip


def _steps(times: list[int]) -> list[int]:
    """The stretches from the first to the last, those in which nothing happened among them."""
    if len(times) < 2:
        return times
    step = min(later - earlier for earlier, later in pairwise(times))
    return list(range(times[0], times[-1] + 1, step))
