"""`fedq pipeline fanout`: what subscribers waited, by nodes and their number."""

from pathlib import Path
from typing import Annotated

import typer

from fedq.cli.pipeline.options import MasterOption, OutputOption, QuietOption
from fedq.cli.pipeline.running import run_on_spark, shown, telling
from fedq.cli.terminal.failure import reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import console, print_json, table

FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="What `fedq bench --json` or `make bench` has written.",
        show_default=False,
    ),
]  # fmt: skip


@reporting
def put_fanouts_together(
    files: FilesArgument,
    out: OutputOption,
    master: MasterOption = "local[*]",
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Show what subscribers waited in runs of load tests, by nodes and number of subscribers."""
    with telling():
        from fedq.pipeline.jobs.kit.directory import claim
        from fedq.pipeline.jobs.kit.output import PAGE
        from fedq.pipeline.jobs.kit.session import check_spark

        check_spark()
        from fedq.pipeline.jobs.fanout.fanout import fanout, read
        from fedq.pipeline.jobs.fanout.page import JOB

        directory = out.absolute()
        read(files)
        claim(directory, JOB, {})
        found = run_on_spark(
            "fanout", master, directory / "spark.log", quiet,
            lambda spark, _: fanout(spark, files, directory),
        )  # fmt: skip
    if json:
        print_json(found.as_json())
        return
    rows = [
        (each.broker, each.nodes, each.subscribers, each.connections,
         f"{each.rate:g}" if each.rate else "full speed", each.runs, round(each.p50),
         round(each.p99), None if each.last_p99 is None else round(each.last_p99))
        for each in found.shapes
    ]  # fmt: skip
    headings = (
        "BROKER", "#NODES", "#SUBSCRIBERS", "#CONNECTIONS", "#PUBLISHES/S", "#RUNS", "#P50 µs",
        "#P99 µs", "#LAST SUBSCRIBER P99 µs",
    )  # fmt: skip
    console().print(table(headings, rows))
    console().print(f"look at {shown(directory / PAGE)}", soft_wrap=True)
