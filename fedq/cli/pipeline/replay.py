"""`fedq pipeline replay`: rows of an archive, published again."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from fedq.cli.pipeline.options import (
    FromOption,
    MasterOption,
    OutputOption,
    QuietOption,
    StreamOption,
    ToOption,
    period_of,
)
from fedq.cli.pipeline.running import run_on_spark, telling
from fedq.cli.terminal.failure import FAILED, INTERRUPTED, USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import say

ArchiveOption = Annotated[
    Path, typer.Option("--archive", metavar="DIR", help="What `archive` has written.")
]
TargetsOption = Annotated[
    str,
    typer.Option(
        "--url", metavar="URLS",
        help="Where to: amqp://USER:PASSWORD@HOST:PORT/VHOST, several nodes with commas.",
    ),
]  # fmt: skip
ExchangeOption = Annotated[
    str | None,
    typer.Option(
        "--exchange", metavar="NAME", help="Default: where each message went before.",
        show_default=False,
    ),
]  # fmt: skip
KeysOption = Annotated[
    str,
    typer.Option("--keys", metavar="PATTERN", help="Routing keys, with * and # as in bindings."),
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--rate", metavar="NUMBER", min=0.001, max=10_000_000.0,
        help="Messages per second. Default: as many as are confirmed.", show_default=False,
    ),
]  # fmt: skip


@reporting
def replay_archive(
    archive: ArchiveOption,
    out: OutputOption,
    stream: StreamOption = None,
    url: TargetsOption = "amqp://guest:guest@127.0.0.1:5672/%2F",
    exchange: ExchangeOption = None,
    keys: KeysOption = "#",
    begin: FromOption = None,
    end: ToOption = None,
    rate: RateOption = None,
    master: MasterOption = "local[*]",
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Publish rows of an archive again, in order, with confirms; goes on where it was."""
    with telling():
        from fedq.pipeline.jobs.kit.session import check_spark
        from fedq.pipeline.jobs.replay.selection import Selection

        since, until = period_of(begin, end)
        if not stream:
            raise CommandError("stream: say which stream's rows are to be published", USAGE)
        wanted = Selection(
            str(archive.absolute()), stream, exchange, keys,
            "" if since is None else since.isoformat(),
            "" if until is None else until.isoformat(), _target(url),
        )  # fmt: skip
        check_spark()
        from fedq.pipeline.jobs.replay.replay import ReplayPlan, prepare, replay

        plan = ReplayPlan(out.absolute(), wanted, tuple(url.split(",")), rate)
        prepare(plan)
        done = run_on_spark(
            "replay", master, plan.directory / "spark.log", quiet,
            lambda spark, watch: replay(spark, plan, watch),
        )  # fmt: skip
    state = "that is all" if done.finished else "the same command goes on"
    say(
        done.as_json(),
        f"{done.published:,} messages confirmed, {done.confirmed:,} in all; {state}",
        json,
    )
    if done.unroutable:
        raise CommandError(
            f"{done.unroutable:,} messages reached no queue, with keys as "
            f"{', '.join(done.unroutable_keys)}: bind a queue, and replay those with --keys",
            FAILED,
        )
    if not done.finished:
        raise typer.Exit(INTERRUPTED)


def _target(urls: str) -> str:
    """Where urls lead, without who goes there."""
    found: list[str] = []
    for url in urls.split(","):
        try:
            parts = urlsplit(url)
            port = parts.port or 5672
        except ValueError:
            # What Python says may quote a part of the password.
            text = "--url: write amqp://USER:PASSWORD@HOST:PORT/VHOST, percent-encoded"
            raise CommandError(text, USAGE) from None
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
            raise CommandError("--url: write amqp://USER:PASSWORD@HOST:PORT/VHOST", USAGE)
        found.append(f"{parts.scheme}://{parts.hostname}:{port}{parts.path or '/%2F'}")
    return ",".join(found)
