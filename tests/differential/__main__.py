"""`python -m tests.differential`: run scripts against fedq and RabbitMQ, or one case again."""

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.differential import brokers, documents
from tests.differential.channels import Streams
from tests.differential.compare import Difference
from tests.differential.runner import Finding, Runner, finding_text, keep, report_text
from tests.differential.script import Script, parse
from tests.differential.themes import THEMES


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--scripts", type=int, default=500, help="how many scripts to play")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first row of scripts")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="nodes of fedq")
    parser.add_argument("--themes", default=",".join(THEMES), help="themes, with commas between")
    parser.add_argument("--keep", type=Path, help="a directory for the scripts of what is found")
    parser.add_argument("--case", type=Path, help="play this file only, and show each step")
    parser.add_argument(
        "--itself", action="store_true",
        help="compare RabbitMQ with itself: every difference is a fault of this test",
    )  # fmt: skip
    parser.add_argument("--write", action="store_true", help="write docs/DIFFERENCES.md")
    parser.add_argument("--install", action="store_true", help="tell how to get a RabbitMQ")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _show(step: Script, reference: Streams, subject: Streams) -> None:
    """What both showed in a step of the one case."""
    _say("\n".join(map(str, step)))
    for stream in dict.fromkeys([*reference, *subject]):
        same = reference.get(stream) == subject.get(stream)
        for who, streams in (("RabbitMQ", reference), ("fedq", subject)):
            if same and who == "fedq":
                continue
            for line in streams.get(stream) or ["(nothing)"]:
                _say(f"    {stream:10} {'both' if same else who:8} {line}")


def main() -> int:
    """0 when nothing differs but what was decided, 1 otherwise, 2 without a RabbitMQ."""
    arguments = _arguments()
    if arguments.install:
        _say(brokers.HOW_TO_INSTALL)
        return 0
    if arguments.write:
        documents.write()
        return 0
    missing = brokers.reference_missing()
    if missing:
        _say(missing)
        return 2

    def on_finding(finding: Finding) -> None:
        _say(finding_text(finding))
        if arguments.keep:
            keep(finding, arguments.keep)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="differential-")))
        reference = stack.enter_context(brokers.rabbit(directory))
        subject = stack.enter_context(
            brokers.same(reference)
            if arguments.itself
            else brokers.fedq(directory, arguments.nodes)
        )
        runner = Runner((reference, subject), on_finding)
        if arguments.case:
            script = parse(arguments.case.read_text(encoding="utf-8"))
            found: list[Difference] = runner.undecided(runner.play(script, on_step=_show))
            _say("\n".join(["", *map(str, found)]))
            return 1 if found else 0
        try:
            runner.run(arguments.scripts, arguments.seed, arguments.themes.split(","))
        finally:
            _say(report_text(runner.report))
    return 1 if runner.report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
