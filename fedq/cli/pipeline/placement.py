"""`fedq pipeline placement`: which node should lead what, by what nodes have traced."""

from typing import Annotated

import typer

from fedq.cli.pipeline.options import (
    FromOption,
    MasterOption,
    OutputOption,
    PathOption,
    Place,
    QuietOption,
    StreamOption,
    ToOption,
    UrlOption,
    VhostOption,
    period_of,
)
from fedq.cli.pipeline.running import run_on_spark, shown, telling
from fedq.cli.terminal.failure import reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import console, print_json, table

SlackOption = Annotated[
    int,
    typer.Option("--slack", metavar="PERCENT", min=0, max=1_000,
                 help="How much more than its share of all messages a node may lead."),
]  # fmt: skip
LeastOption = Annotated[
    int,
    typer.Option("--least", metavar="PERCENT", min=0, max=100,
                 help="What part of its fragment's messages a move has to save."),
]  # fmt: skip


@reporting
def plan_placement(
    out: OutputOption,
    url: UrlOption = None,
    stream: StreamOption = None,
    vhost: VhostOption = "/",
    begin: FromOption = None,
    end: ToOption = None,
    slack: SlackOption = 25,
    least: LeastOption = 10,
    master: MasterOption = "local[*]",
    ca: PathOption = "",
    cert: PathOption = "",
    key: PathOption = "",
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Plan by a trace's stream who should lead which fragment; nothing is moved by it."""
    with telling():
        from fedq.pipeline.jobs.kit.directory import claim
        from fedq.pipeline.jobs.kit.output import PAGE
        from fedq.pipeline.jobs.kit.session import check_spark
        from fedq.pipeline.jobs.kit.source import rows_behind, source_of

        since, until = period_of(begin, end)
        source = source_of(Place(url, stream, vhost, (ca, cert, key)).options())
        check_spark()
        from fedq.pipeline.jobs.placement.page import JOB, percent
        from fedq.pipeline.jobs.placement.placement import PLAN, PlacementPlan, placement

        given = PlacementPlan(source, out.absolute(), since, until, slack / 100, least / 100)
        rows_behind(source, {}, retry_s=5.0)
        claim(given.directory, JOB, {})
        found = run_on_spark(
            "placement", master, given.directory / "spark.log", quiet,
            lambda spark, watch: placement(spark, given, watch),
        )  # fmt: skip
    if json:
        print_json(found.as_json(source.stream))
        return
    screen = console()
    if found.moves:
        rows = [
            (each.vhost, each.queue, each.fragment, each.source, each.target, each.saving)
            for each in found.moves
        ]
        screen.print(table(("VHOST", "QUEUE", "#FRAGMENT", "FROM", "TO", "#SAVES"), rows))
    screen.print(
        f"of {found.total:,} ways in and out of fragments {found.crossing:,} crossed between "
        f"nodes; with {len(found.moves):,} moves {found.then:,} would have "
        f"({percent(found.crossing, found.then)} saved)",
        soft_wrap=True,
    )
    screen.print(f"look at {shown(given.directory / PAGE)}", soft_wrap=True)
    if found.moves:
        path = shown(given.directory / PLAN)
        screen.print(f"`fedq cluster rebalance --plan {path}` makes these moves", soft_wrap=True)
