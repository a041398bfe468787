"""`fedq pipeline traffic`: what goes where, minute by minute."""

from typing import Annotated

import typer

from fedq.cli.pipeline.options import (
    BatchOption,
    FollowOption,
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
from fedq.cli.terminal.screen import say, size

TopOption = Annotated[int, typer.Option("--top", min=1, max=1_000, help="Keys that are listed.")]
LatenessOption = Annotated[
    int,
    typer.Option(
        "--lateness", metavar="SECONDS", min=0, max=31_536_000,
        help="How far behind the newest row others may come without being late.",
    ),
]  # fmt: skip


@reporting
def roll_up_traffic(
    out: OutputOption,
    url: UrlOption = None,
    stream: StreamOption = None,
    vhost: VhostOption = "/",
    begin: FromOption = None,
    end: ToOption = None,
    follow: FollowOption = None,
    lateness: LatenessOption = 120,
    top: TopOption = 20,
    batch_rows: BatchOption = 1_000_000,
    master: MasterOption = "local[*]",
    ca: PathOption = "",
    cert: PathOption = "",
    key: PathOption = "",
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Roll a stream up by minute, exchange and key; a page of --from to --to, or of all of it."""
    with telling():
        from fedq.pipeline.jobs.archive.layout import table_path
        from fedq.pipeline.jobs.kit.output import PAGE
        from fedq.pipeline.jobs.kit.session import check_spark
        from fedq.pipeline.jobs.kit.source import rows_behind, source_of

        since, until = period_of(begin, end)
        source = source_of(Place(url, stream, vhost, (ca, cert, key)).options())
        check_spark()
        from fedq.pipeline.jobs.traffic.traffic import TrafficPlan, prepare, traffic

        plan = TrafficPlan(
            source, out.absolute(), follow, batch_rows, since, until, lateness, top=top
        )
        rows_behind(source, {}, retry_s=5.0)
        prepare(plan)
        found = run_on_spark(
            "traffic", master, plan.directory / "spark.log", quiet,
            lambda spark, watch: traffic(spark, plan, watch),
        )  # fmt: skip
    page = shown(table_path(plan.directory, source.stream) / PAGE)
    say(
        found.as_json(),
        f"{found.messages:,} messages, {size(found.bytes)}, {len(found.exchanges)} exchanges, "
        f"about {found.keys:,} keys: look at {page}",
        json,
    )
