"""`fedq pipeline audit`: whether the promises were kept, by what nodes have traced."""

from typing import Annotated, Final

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
from fedq.cli.terminal.failure import UNWELL, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import console, print_json, table

#: Findings that people are told at once.
_TOLD: Final = 20
SkewOption = Annotated[
    int,
    typer.Option("--skew", metavar="MS", min=0, max=86_400_000,
                 help="How far the clocks of two nodes may differ, in milliseconds."),
]  # fmt: skip
SampledOption = Annotated[
    bool, typer.Option("--sampled", help="The trace has one message in so many.")
]
UnorderedOption = Annotated[
    list[str] | None,
    typer.Option(
        "--unordered", metavar="QUEUE",
        help="A queue that is not served in order, as those with priorities; may be repeated.",
        show_default=False,
    ),
]  # fmt: skip


@reporting
def audit_trace(
    out: OutputOption,
    url: UrlOption = None,
    stream: StreamOption = None,
    vhost: VhostOption = "/",
    begin: FromOption = None,
    end: ToOption = None,
    skew: SkewOption = 1_000,
    sampled: SampledOption = False,
    unordered: UnorderedOption = None,
    master: MasterOption = "local[*]",
    ca: PathOption = "",
    cert: PathOption = "",
    key: PathOption = "",
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Prove or refute the promises P1 to P4 by a trace's stream; exit code 4: one is refuted."""
    with telling():
        from fedq.pipeline.jobs.kit.directory import claim
        from fedq.pipeline.jobs.kit.session import check_spark
        from fedq.pipeline.jobs.kit.source import rows_behind, source_of

        since, until = period_of(begin, end)
        source = source_of(Place(url, stream, vhost, (ca, cert, key)).options())
        check_spark()
        from fedq.pipeline.jobs.audit.audit import AuditPlan, audit
        from fedq.pipeline.jobs.audit.page import JOB
        from fedq.pipeline.jobs.audit.rules import Tolerance
        from fedq.pipeline.jobs.audit.verdict import PROMISES
        from fedq.pipeline.jobs.kit.output import PAGE

        tolerance = Tolerance(skew, is_sampled=sampled, unordered=tuple(unordered or ()))
        plan = AuditPlan(source, out.absolute(), since, until, tolerance)
        rows_behind(source, {}, retry_s=5.0)
        claim(plan.directory, JOB, {})
        found = run_on_spark(
            "audit", master, plan.directory / "spark.log", quiet,
            lambda spark, watch: audit(spark, plan, watch),
        )  # fmt: skip
    if json:
        print_json(found.as_json())
    else:
        rows = [
            (promise, what, found.of(promise), found.judged[promise], found.counts[promise])
            for promise, what in PROMISES.items()
        ]
        screen = console()
        screen.print(table(("PROMISE", "", "VERDICT", "#JUDGED", "#FINDINGS"), rows))
        for each in found.findings[:_TOLD]:
            screen.print(f"{each.promise} {each.queue}, {each.name}: {each.text}", soft_wrap=True)
        if found.undecided:
            screen.print(
                f"undecided: {found.undecided:,} confirmed publishes, as a process ended that may "
                "have had no time to write what it saw of them",
                soft_wrap=True,
            )
        screen.print(f"look at {shown(plan.directory / PAGE)}", soft_wrap=True)
    if found.is_refuted:
        raise typer.Exit(UNWELL)
