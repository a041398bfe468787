"""`fedq pipeline archive`: a stream as Parquet files."""

from pathlib import Path
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
    UrlOption,
    VhostOption,
)
from fedq.cli.pipeline.running import run_on_spark, shown, telling
from fedq.cli.terminal.failure import INTERRUPTED, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import say, size

KeptOption = Annotated[
    int,
    typer.Option(
        "--keep-replaced", metavar="SECONDS", min=0, max=31_536_000,
        help="How long readers may still use files that a compaction has replaced.",
    ),
]  # fmt: skip


@reporting
def archive_stream(
    out: OutputOption,
    url: UrlOption = None,
    stream: StreamOption = None,
    vhost: VhostOption = "/",
    begin: FromOption = None,
    follow: FollowOption = None,
    batch_rows: BatchOption = 1_000_000,
    keep_replaced: KeptOption = 3_600,
    master: MasterOption = "local[*]",
    ca: PathOption = "",
    cert: PathOption = "",
    key: PathOption = "",
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Keep a stream as Parquet files, each row once, by day and hour; goes on where it was."""
    with telling():
        from fedq.pipeline.jobs.archive.layout import time_of
        from fedq.pipeline.jobs.kit.session import check_spark
        from fedq.pipeline.jobs.kit.source import rows_behind, source_of

        options = Place(url, stream, vhost, (ca, cert, key)).options()
        if begin is not None:
            options["startingTimestamp"] = str(int(time_of("--from", begin).timestamp() * 1_000))
        source = source_of(options)
        check_spark()
        from fedq.pipeline.jobs.archive.archive import ArchivePlan, archive, prepare

        directory = out.absolute()
        plan = ArchivePlan(source, directory, follow, batch_rows, keep_replaced)
        rows_behind(source, {}, retry_s=5.0)
        prepare(plan)
        done = run_on_spark(
            "archive", master, directory / "spark.log", quiet,
            lambda spark, watch: archive(spark, plan, watch),
        )  # fmt: skip
    say(
        done.as_json(),
        f"{done.rows:,} rows archived; {done.stream} has {done.table_rows:,} in "
        f"{done.table_files:,} files, {size(done.table_bytes)}: look at {shown(Path(done.page))}",
        json,
    )
    if done.interrupted and follow is None:
        raise typer.Exit(INTERRUPTED)
