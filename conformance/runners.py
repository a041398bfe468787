"""How tests of other languages are prepared, started and read: Node's, CMake's, Go's.

Inputs: a suite, its unpacked source, a directory for what is built. Outputs: the command that runs
all tests, and what its report says of each test, in the form that the pytest plugin writes.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree

from conformance.origins import run
from conformance.suites import Suite

HERE: Final = Path(__file__).resolve().parent

Entry = dict[str, Any]


class Place(NamedTuple):
    """Where one run finds and leaves what it needs."""

    source: Path
    #: What was prepared once for the suite: packages, build directories.
    tools: Path
    #: The run's own directory.
    work: Path


class Runner(NamedTuple):
    """One language's way to run tests."""

    #: What has to be installed.
    programs: tuple[str, ...]
    #: The commands that prepare `tools`; they may use the network.
    prepare: Callable[[Suite, Path, Path], list[list[str]]]
    #: The command that runs all tests but those of these names, if it can leave any out.
    command: Callable[[Suite, Place, Collection[str]], list[str]]
    #: Environment variables it wants besides the suite's own.
    environment: Callable[[Place], dict[str, str]]
    #: What became of each test, read after the run.
    entries: Callable[[Place], Iterator[Entry]]


def missing_programs(suite: Suite) -> list[str]:
    """What is not installed of what the suite is fetched, built and run with."""
    runner = RUNNERS.get(suite.runner)
    programs = runner.programs if runner is not None else ()
    if suite.origin == "debian":
        programs += ("apt-get",)
    return [program for program in programs if not shutil.which(program)]


def build(suite: Suite, source: Path, tools: Path) -> None:
    """Prepares what the runs need."""
    runner = RUNNERS[suite.runner]
    environment = os.environ | runner.environment(Place(source, tools, tools))
    for command in runner.prepare(suite, source, tools):
        run(command, f"preparing {suite.name}", tools, environment)


def _npm(suite: Suite, _source: Path, tools: Path) -> list[list[str]]:
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(tools)]
    return [[*command, *(package.replace("==", "@") for package in suite.requirements)]]


def _node(suite: Suite, place: Place, _left_out: Collection[str]) -> list[str]:
    files = sorted(str(path) for test in suite.tests for path in place.source.glob(test))
    return [
        "node", "--test", "--test-concurrency=1", f"--test-timeout={suite.test_s * 1000}",
        f"--test-reporter={HERE / 'recorder' / 'node_recorder.mjs'}",
        f"--test-reporter-destination={place.work / 'node.jsonl'}",
        *suite.more_arguments, *files,
    ]  # fmt: skip


def _of_node(place: Place) -> Iterator[Entry]:
    for line in (place.work / "node.jsonl").read_text().splitlines():
        yield json.loads(line)


def _cmake(suite: Suite, source: Path, tools: Path) -> list[list[str]]:
    return [
        ["cmake", "-S", str(source), "-B", str(tools / "build"), *suite.more_arguments],
        ["cmake", "--build", str(tools / "build")],
    ]


def _ctest(suite: Suite, place: Place, _left_out: Collection[str]) -> list[str]:
    report = place.work / "junit.xml"
    return [
        "ctest", "--test-dir", str(place.tools / "build"), "--timeout", str(suite.test_s),
        "--output-junit", str(report),
    ]  # fmt: skip


def _of_junit(place: Place) -> Iterator[Entry]:
    # Our own ctest has written it.
    for case in ElementTree.parse(place.work / "junit.xml").iter("testcase"):
        if case.get("status") == "run":
            yield {"kind": "passed", "test": case.get("name")}
        else:
            why = " ".join((case.findtext("system-out") or "").split())[-400:]
            yield {"kind": "failed", "test": case.get("name"), "why": why}


def _go_path(suite: Suite, source: Path, tools: Path) -> list[list[str]]:
    (package,) = suite.tests
    link = tools / "src" / package
    # Without tests, so that only their building remains for the run.
    run_none = ["go", "test", "-run=^$", *suite.more_arguments, package]
    return [["mkdir", "-p", str(link.parent)], ["ln", "-sfn", str(source), str(link)], run_none]


def _go(suite: Suite, place: Place, left_out: Collection[str]) -> list[str]:
    # One that panics ends the run, so what is left out must not begin.
    found: set[str] = set()
    for path in place.source.glob("*_test.go"):
        found.update(re.findall(r"^func ((?:Test|Example)\w*)\(", path.read_text(), re.MULTILINE))
    return [
        "go", "test", "-json", "-count=1", f"-timeout={suite.run_s}s",
        f"-run=^({'|'.join(sorted(found.difference(left_out)))})$",
        *suite.more_arguments, *suite.tests,
    ]  # fmt: skip


def _of_go(place: Place) -> Iterator[Entry]:
    said: dict[str, list[str]] = {}
    kinds: Mapping[str, str] = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    for line in (place.work / "suite.log").read_text(errors="replace").splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        if (test := event.get("Test")) is None:
            continue
        if event["Action"] == "output":
            said.setdefault(test, []).append(event["Output"])
        elif event["Action"] == "run":
            yield {"kind": "collected", "test": test}
        elif kind := kinds.get(event["Action"]):
            told = [text for text in said.get(test, []) if not text.lstrip().startswith(("=", "-"))]
            yield {"kind": kind, "test": test, "why": " ".join("".join(told).split())[-400:]}


RUNNERS: Final[dict[str, Runner]] = {
    "node": Runner(
        ("node", "npm"),
        _npm,
        _node,
        lambda place: {
            "NODE_PATH": str(place.tools / "node_modules"),
            "CONFORMANCE_SOURCE": str(place.source),
        },
        _of_node,
    ),
    "ctest": Runner(("cmake", "ctest", "cc"), _cmake, _ctest, lambda _place: {}, _of_junit),
    "go": Runner(
        ("go",),
        _go_path,
        _go,
        lambda place: {
            "GO111MODULE": "off",
            # Debian keeps the sources of packaged libraries there.
            "GOPATH": f"{place.tools}{os.pathsep}/usr/share/gocode",
            "GOCACHE": str(place.tools / "cache"),
        },
        _of_go,
    ),
}
