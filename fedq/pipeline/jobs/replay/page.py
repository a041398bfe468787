"""The page of a replay: what was published again, and what of it reached nobody."""

from fedq.pipeline.jobs.kit.output import foot_of
from fedq.pipeline.jobs.replay.selection import JOB, Done, Selection
from fedq.pipeline.pages.charts import Bar, bars
from fedq.pipeline.pages.numbers import whole
from fedq.pipeline.pages.page import Fact, Page, Section, Table


def page_of(selection: Selection, done: Done, now_s: float) -> Page:
    """The page of a replay that is as far as `done` says."""
    facts = [
        Fact(whole(done.number), "messages confirmed"),
        Fact(whole(done.unroutable), "reached no queue", not done.unroutable),
        Fact("all" if done.finished else "not all", "of the selection", done.finished),
    ]
    routed = done.number - done.unroutable
    fate = bars([Bar("reached a queue", [routed]), Bar("reached none", [done.unroutable])], whole)
    keys = Table(("ROUTING KEY",), [(key,) for key in done.unroutable_keys])
    rows = [
        ("archive", selection.archive), ("stream", selection.stream), ("keys", selection.keys),
        ("from", selection.begin or "the beginning"), ("to", selection.end or "the end"),
        ("exchange", "as before" if selection.exchange is None else selection.exchange),
        ("target", selection.target), ("x-fedq-publisher", selection.publisher),
        ("last row", f"{done.place.partition} fragment {done.place.fragment} offset "
                     f"{done.place.offset}" if done.number else "none yet"),
    ]  # fmt: skip
    sections = [
        Section("What became of the messages", "", fate),
        Section(
            "Keys that reached no queue", "Some of them, if there are many.",
            table=keys if done.unroutable else None, is_open=True,
        ),
        Section("What was asked for", "", table=Table(("", ""), rows), is_open=True),
    ]  # fmt: skip
    text = "Published again, each with its number."
    return Page(f"Replay of {selection.stream}", text, facts, sections, foot_of(JOB, now_s))
