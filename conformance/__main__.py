"""The command: `python -m conformance [suite …] [--against …] [--write]`.

Prepares what has to be fetched, then runs every chosen suite against every chosen target, each with
a broker of its own, and prints counts and failures. Where the system allows it, brokers and suites
run in a network namespace of their own, so that tests that insist on AMQP's ports get them. Exit
code 1 if anything failed, 2 if something could not be prepared or started.
"""

import argparse
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from conformance.origins import PrepareError
from conformance.report import Results, page
from conformance.results import keep, kept
from conformance.runners import missing_programs
from conformance.running import HERE, SuiteResult, run_suite
from conformance.sources import default_cache, environment_of, unpacked
from conformance.suites import SUITES, Suite, suite_named
from conformance.targets import TARGETS, fresh_directory
from tests.integration.harness import ROOT

PAGE: Final = ROOT / "docs" / "CONFORMANCE.md"
_INSIDE: Final = "FEDQ_CONFORMANCE_INSIDE"
_LEFT_OUT: Final = "FEDQ_CONFORMANCE_LEFT_OUT"
_SET_FLAGS: Final = 0x8914  # SIOCSIFFLAGS
_UP_RUNNING: Final = 0x41


def main() -> int:
    """What the command line asks for."""
    options = _options()
    chosen = [suite for suite in _wanted(options) if _can_run(suite, options)]
    if os.environ.get(_INSIDE) is None:
        left_out = _prepare(chosen, options.cache)
        os.environ[_LEFT_OUT] = " ".join(left_out)
        if inside := _namespace_command():
            # In place of this process, so that whoever ends it ends what it started.
            command = [*inside, sys.executable, "-m", "conformance", *sys.argv[1:]]
            os.execve(inside[0], command, os.environ | {_INSIDE: "1"})
    else:
        _bring_up_loopback()
    left_out = os.environ[_LEFT_OUT].split()
    chosen = [suite for suite in chosen if suite.name not in left_out]
    # Brokers and suites end with this process, also when it is asked to end.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    failed = 0
    for suite in [] if options.page else chosen:
        for name in options.against:
            failed += _run(suite, name, options)
    if options.write or options.page:
        before = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page(_kept_results(options.cache), before), encoding="utf-8")
        _say(f"wrote {PAGE.relative_to(ROOT)}")
    return 1 if failed else 2 if left_out else 0


def _wanted(options: argparse.Namespace) -> list[Suite]:
    return [suite_named(name) for name in options.suites] or list(SUITES)


def _can_run(suite: Suite, options: argparse.Namespace) -> bool:
    """Whether there is what the suite needs; says what is missing."""
    inside = os.environ.get(_INSIDE) is not None
    if suite.checkout and not options.checkout:
        wanted = "its tests need a checkout (--checkout)"
    elif missing := missing_programs(suite):
        wanted = f"it needs {', '.join(missing)}"
    else:
        return True
    if not inside:
        _say(f"{suite.name} is not run: {wanted}")
    return False


def _prepare(chosen: list[Suite], cache: Path) -> list[str]:
    """Fetches and builds; the names of suites for which that did not work, which is said."""
    left_out = []
    for suite in chosen:
        _say(f"preparing {suite.name} {suite.version}")
        try:
            environment_of(suite, cache)
        except PrepareError as error:
            sys.stderr.write(f"{error}\n")
            left_out.append(suite.name)
    return left_out


def _say(text: str, end: str = "\n") -> None:
    """People watch this for many minutes: every line at once."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance", description="Client suites against fedq.")
    parser.add_argument("suites", nargs="*", help=", ".join(suite.name for suite in SUITES))
    parser.add_argument("--against", nargs="+", choices=sorted(TARGETS), default=["one", "three"])
    parser.add_argument("--write", action="store_true", help="write docs/CONFORMANCE.md")
    parser.add_argument("--page", action="store_true", help="write it of earlier runs; run nothing")
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--checkout", type=Path, help="a checkout of pika, with its tests")
    parser.add_argument("--keep", action="store_true", help="keep logs and data of the runs")
    parser.add_argument("--pytest", nargs=argparse.REMAINDER, default=[], help="for one failure")
    options = parser.parse_args()
    known = {suite.name for suite in SUITES}
    if unknown := [name for name in options.suites if name not in known]:
        parser.error(f"no suite {unknown[0]}; there are {', '.join(sorted(known))}")
    return options


def _namespace_command() -> list[str]:
    """What to put before a command so that it has a network of its own; empty if it cannot be."""
    if not (tool := shutil.which("unshare")):
        return []
    command = [tool, "--net"] if os.geteuid() == 0 else [tool, "--map-root-user", "--net"]
    done = subprocess.run([*command, "true"], capture_output=True, check=False)
    return command if done.returncode == 0 else []


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", _UP_RUNNING)
        fcntl.ioctl(any_socket, _SET_FLAGS, request)


def _run(suite: Suite, target_name: str, options: argparse.Namespace) -> int:
    """Runs one suite against one target; returns the number of failures."""
    _say(f"{suite.name} against {target_name}: ", end="")
    if suite.checkout:
        source = options.checkout.resolve()
    elif (scenarios := HERE / "scenarios" / suite.name).exists():
        source = scenarios
    else:
        source = unpacked(suite, options.cache)
    tools = environment_of(suite, options.cache)
    work = fresh_directory(options.cache / "runs", suite.name)
    # What is checked out may be another commit when the run ends.
    started, commit = time.monotonic(), _commit()
    with TARGETS[target_name](work / "broker", suite.standard_port) as target:
        tests, untouched = run_suite(suite, source, tools, target, work, tuple(options.pytest))
        complaint = target.complaint()
        called = target.name
    result = SuiteResult(
        suite.name, called, suite.version, commit, time.monotonic() - started, tests,
        complaint, untouched,
    )  # fmt: skip
    if not options.pytest:
        keep(options.cache, target_name, result)
    _print(result)
    if options.keep:
        _say(f"  logs: {work}")
    else:
        shutil.rmtree(work)
    return result.count("failed") + bool(complaint) + (not untouched)


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _print(result: SuiteResult) -> None:
    counts = [f"{result.count(one)} {one}" for one in ("passed", "failed", "skipped", "deselected")]
    _say(f"{', '.join(counts)} in {result.seconds:.0f} s")
    for name, test in sorted(result.tests.items()):
        if test.outcome == "failed":
            _say(f"  {name}\n      {test.why[:400]}")
    if result.complaint:
        _say(f"  {result.complaint}")
    if not result.untouched:
        _say("  the suite's files changed during the run")


def _kept_results(cache: Path) -> Results:
    return {
        (suite.name, target): result
        for suite in SUITES
        for target in TARGETS
        if (result := kept(cache, suite.name, target)) is not None
    }


if __name__ == "__main__":
    sys.exit(main())
