"""`python -m tests.fuzz --minutes N [--target T]`: fuzzes every decoder that faces the network.

The time is shared evenly; each target runs in a child process of its own. What breaks one is
written to `--findings` and named with the command that repeats it. Exit code 1 if anything was
found.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
import traceback
from hashlib import sha1
from pathlib import Path
from typing import NamedTuple

from tests.fuzz import corpus, engine
from tests.fuzz.target import Target

_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)|#(\d+)\s")


class Outcome(NamedTuple):
    """What fuzzing one target came to."""

    name: str
    executions: int
    seconds: float
    findings: list[Path]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for all targets together")
    parser.add_argument("--target", action="append", help="only this one; may be repeated")
    parser.add_argument("--engine", choices=("auto", "coverage", "chance"), default="auto")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="printed; repeats")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--corpus", type=Path, help="where coverage's inputs are kept meanwhile")
    parser.add_argument("--repeat", type=Path, metavar="FILE", help="runs one input on --target")
    parser.add_argument("--child", type=float, metavar="SECONDS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    by_coverage = options.engine != "chance" and engine.has_atheris()
    if options.engine == "coverage" and not by_coverage:
        parser.error("atheris is not installed: pip install atheris, or use --engine chance")
    if options.repeat is not None:
        return _repeat(options.target, options.repeat)
    if options.child is not None:
        return _child(options, by_coverage)
    return _fuzz_all(options, by_coverage)


def _repeat(names: list[str] | None, path: Path) -> int:
    from tests.fuzz.targets import TARGETS

    for name in names or list(TARGETS):
        TARGETS[name].run(path.read_bytes())
    return 0


def _child(options: argparse.Namespace, by_coverage: bool) -> int:
    """Fuzzes one target in this process."""
    name, seconds = options.target[0], options.child
    if by_coverage:
        targets = engine.instrumented(_load)
        engine.by_coverage(
            targets[name], options.corpus / name, max(1, int(seconds)), options.seed,
            options.findings,
        )  # fmt: skip
        return 0
    target = _load()[name]

    def found(data: bytes, error: Exception) -> None:
        traceback.print_exception(error)
        path = options.findings / f"{name}-crash-{sha1(data).hexdigest()}"
        path.write_bytes(data)
        raise SystemExit(1)

    stock = [*target.seeds(), *corpus.kept(name)]
    is_over = engine.clock_until(time.monotonic() + seconds)
    count = engine.by_chance(target, stock, options.seed, is_over, found)
    _say(f"stat::number_of_executed_units: {count}")
    return 0


def _load() -> dict[str, Target]:
    from tests.fuzz.targets import TARGETS

    return TARGETS


def _fuzz_all(options: argparse.Namespace, by_coverage: bool) -> int:
    targets = _load()
    unknown = [name for name in options.target or [] if name not in targets]
    if unknown:
        sys.stderr.write(f"no target {unknown[0]!r}; there are {', '.join(targets)}\n")
        return 2
    names = options.target or list(targets)
    options.findings.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        options.corpus = options.corpus or Path(scratch)
        outcomes = []
        for name in names:
            _fill(options.corpus / name, targets[name])
            seconds = options.minutes * 60 / len(names)
            outcomes.append(_fuzz_one(name, options, seconds, by_coverage))
    _report(outcomes, "coverage" if by_coverage else "chance", options.seed)
    return 1 if any(one.findings for one in outcomes) else 0


def _fill(directory: Path, target: Target) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for data in [*target.seeds(), *corpus.kept(target.name)]:
        (directory / sha1(data).hexdigest()).write_bytes(data)


def _fuzz_one(name: str, options: argparse.Namespace, seconds: float, by_coverage: bool) -> Outcome:
    """Runs children until the time is over: each ends at its first finding."""
    started = time.monotonic()
    before = set(options.findings.glob(f"{name}-*"))
    executions, seed = 0, options.seed
    while (left := seconds - (time.monotonic() - started)) >= 1:
        command = [
            sys.executable, "-m", "tests.fuzz", "--child", str(left), "--target", name,
            "--engine", "coverage" if by_coverage else "chance", "--seed", str(seed),
            "--findings", str(options.findings), "--corpus", str(options.corpus),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        counts = [int(a or b) for a, b in _EXECUTED.findall(output)]
        executions += max(counts, default=0)
        seed += 1
        if done.returncode:
            sys.stderr.write(output[-4_000:])
            if not counts:
                break
    findings = sorted(set(options.findings.glob(f"{name}-*")) - before)
    return Outcome(name, executions, time.monotonic() - started, findings)


def _report(outcomes: list[Outcome], kind: str, seed: int) -> None:
    for one in outcomes:
        _say(
            f"{one.name:<12} {one.executions:>12,} executions  {one.seconds:>8.0f} s  "
            f"{len(one.findings)} findings"
        )
        for path in one.findings:
            _say(f"    python -m tests.fuzz --target {one.name} --repeat {path}")
    executions = sum(one.executions for one in outcomes)
    seconds = sum(one.seconds for one in outcomes)
    count = sum(len(one.findings) for one in outcomes)
    _say(
        f"fuzzing by {kind}, seed {seed}: {len(outcomes)} targets, {executions:,} executions, "
        f"{seconds:.0f} seconds, {count} findings"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
