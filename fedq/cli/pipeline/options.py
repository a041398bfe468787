"""Options that the pipeline's commands share, and what they mean to a read."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URLS",
        envvar="FEDQ_PIPELINE_URL",
        help="Admin ports of the nodes, as the option `url` of a read: "
        "fedq://USER:PASSWORD@HOST:PORT, several with commas.",
        show_default=False,
    ),
]
StreamOption = Annotated[
    str | None,
    typer.Option("--stream", metavar="NAME", help="The stream to read.", show_default=False),
]
VhostOption = Annotated[
    str, typer.Option("--vhost", metavar="NAME", help="The stream's virtual host.")
]
PathOption = Annotated[str, typer.Option(metavar="FILE", help="For fedqs://, in PEM.")]
OutputOption = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="The job's own directory.", show_default=False)
]
MasterOption = Annotated[
    str,
    typer.Option(
        "--master",
        metavar="URL",
        help="The Spark to run on, as spark://HOST:PORT; by default on the cores of this machine. "
        "Executors must see --out.",
    ),
]
FollowOption = Annotated[
    float | None,
    typer.Option(
        "--follow",
        metavar="SECONDS",
        min=1.0,
        max=86_400.0,
        help="Go on for ever, with a batch each so many seconds, until Ctrl-C. Default: end with "
        "what is there.",
        show_default=False,
    ),
]
BatchOption = Annotated[
    int,
    typer.Option("--batch-rows", min=1, max=1_000_000_000, help="Rows of one batch at most."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="TIME", help="Begin there: 2026-11-26T09:30, UTC.", show_default=False
    ),
]
ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="End before that.", show_default=False),
]


class Place(NamedTuple):
    """Where a stream is."""

    url: str | None
    stream: str | None
    vhost: str
    #: Authority, certificate and key.
    files: tuple[str, str, str]

    def options(self) -> dict[str, str]:
        """As a read has them."""
        given = {"url": self.url or "", "stream": self.stream or "", "vhost": self.vhost}
        names = ("tls.authority", "tls.certificate", "tls.key")
        return given | {name: path for name, path in zip(names, self.files, strict=True) if path}


def period_of(begin: str | None, end: str | None) -> tuple[datetime | None, datetime | None]:
    """What `--from` and `--to` say; `OptionError` for what is no time, or has nothing in it."""
    from fedq.pipeline.jobs.archive.layout import check_range, time_of

    since = None if begin is None else time_of("--from", begin)
    until = None if end is None else time_of("--to", end)
    check_range(since, until)
    return since, until
