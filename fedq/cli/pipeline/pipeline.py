"""`fedq pipeline`: streams as tables of Spark.

In: options. Out: what was found, as a table or JSON. Exit codes: 0 all is well, 2 an option means
nothing, 4 something is wrong, and the line about it says what to do.
"""

import os

import typer

from fedq.cli.pipeline import archive, audit, fanout, placement, replay, traffic
from fedq.cli.pipeline.options import PathOption, Place, StreamOption, UrlOption, VhostOption
from fedq.cli.terminal.failure import UNWELL, USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import console, print_json, table
from fedq.pipeline.doctor import examine
from fedq.pipeline.failure import OptionError
from fedq.pipeline.options import ReadOptions, read_options

app = typer.Typer(no_args_is_help=True, help="Streams as tables of Spark.", rich_markup_mode=None)

app.command("archive")(archive.archive_stream)
app.command("replay")(replay.replay_archive)
app.command("traffic")(traffic.roll_up_traffic)
app.command("fanout")(fanout.put_fanouts_together)
app.command("audit")(audit.audit_trace)
app.command("placement")(placement.plan_placement)


@app.command("doctor")
@reporting
def look_for_faults(
    url: UrlOption = None,
    stream: StreamOption = None,
    vhost: VhostOption = "/",
    ca: PathOption = "",
    cert: PathOption = "",
    key: PathOption = "",
    json: JsonOption = False,
) -> None:
    """Say whether Spark can read streams here; with --url and --stream, whether it can read one."""
    options = _options(url, stream, vhost, (ca, cert, key))
    findings = examine(os.environ, options)
    wrong = [each for each in findings if not each.is_well]
    if json:
        print_json({
            "well": not wrong,
            "findings": [
                {"subject": each.subject, "well": each.is_well, "text": each.text}
                for each in findings
            ],
        })  # fmt: skip
    else:
        rows = [(each.subject, "well" if each.is_well else "wrong", each.text) for each in findings]
        console().print(table(("WHAT", "STATE", "FOUND"), rows))
    if wrong:
        raise typer.Exit(UNWELL)


def _options(
    url: str | None, stream: str | None, vhost: str, files: tuple[str, str, str]
) -> ReadOptions | None:
    """The options of a read, if one is to be looked at."""
    if url is None and stream is None:
        return None
    try:
        return read_options(Place(url, stream, vhost, files).options(), is_streaming=False)
    except OptionError as error:
        raise CommandError(str(error), USAGE) from error
