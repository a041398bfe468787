"""The job: from a trace to a plan of who should lead what, and a page that shows what it saves.

The first half of the period is planned on, and the second half judges: had the plan been made at
half time, so much would have been saved after that. The plan that is written is of all of it.
"""

import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from fedq.pipeline.jobs.kit.directory import claim, held
from fedq.pipeline.jobs.kit.events import events_of, refuse_strangers, trace_rows
from fedq.pipeline.jobs.kit.output import PAGE, RESULT, write_page, write_result
from fedq.pipeline.jobs.kit.progress import Progress, Watch
from fedq.pipeline.jobs.kit.source import Source
from fedq.pipeline.jobs.placement.flows import flows_of, moved_in, span_of, steps_of
from fedq.pipeline.jobs.placement.page import JOB, Foresight, page_of
from fedq.pipeline.jobs.placement.plan import Flow, Plan, plan
from fedq.pipeline.pages.numbers import step_ms_for

PLAN: Final = "plan.json"


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """Which trace is planned on, and how."""

    source: Source
    directory: Path
    begin: datetime | None = None
    end: datetime | None = None
    slack: float = 0.25
    least: float = 0.1


def placement(spark: SparkSession, given: PlacementPlan, watch: Watch) -> Plan:
    """Plans; leaves the plan and a page in the directory. Raises PipelineError."""
    claim(given.directory, JOB, {})
    with held(given.directory):
        watch.report(Progress("reading the trace"))
        rows = trace_rows(spark, given.source, given.begin, given.end).persist()
        try:
            refuse_strangers(rows, given.source.stream)
            found, foresight, steps = _planned(spark, events_of(rows), given, watch)
        finally:
            rows.unpersist()
        form = found.as_json(given.source.stream)
        write_result(given.directory / PLAN, form)
        write_result(given.directory / RESULT, form)
        page = page_of(given.source.stream, found, foresight, steps, time.time())
        write_page(given.directory / PAGE, page)
        return found


def _planned(
    spark: SparkSession, events: DataFrame, given: PlacementPlan, watch: Watch
) -> tuple[Plan, Foresight | None, list[tuple[int, int, int, int]]]:
    nodes = [str(row[0]) for row in events.select("node").distinct().collect()]
    moved = moved_in(events).persist()
    try:
        flows = flows_of(events, moved)
        watch.report(Progress(f"planning {len(flows):,} fragments"))
        watch.check()
        found = plan(flows, nodes, given.slack, given.least)
        begin_ms, end_ms = span_of(moved)
        middle = (begin_ms + end_ms) // 2
        earlier = flows_of(events, moved.where(col("ms") < middle))
        later = flows_of(events, moved.where(col("ms") >= middle))
        foresight = _foresight(earlier, later, nodes, given)
        step_ms = step_ms_for(end_ms - begin_ms)
        return found, foresight, steps_of(spark, moved, flows, found.moves, step_ms)
    finally:
        moved.unpersist()


def _foresight(
    earlier: list[Flow], later: list[Flow], nodes: list[str], given: PlacementPlan
) -> Foresight | None:
    """What a plan of the first half would have saved in the second; None: nothing crossed there."""
    targets = {
        each.fragment: each.target
        for each in plan(earlier, nodes, given.slack, given.least).moves
    }  # fmt: skip
    crossing = sum(flow.crossing(flow.leads) for flow in later)
    then = sum(flow.crossing(targets.get(flow.fragment, flow.leads)) for flow in later)
    return Foresight(crossing, then) if crossing else None
