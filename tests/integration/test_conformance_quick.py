"""The quick part of `make conformance`: pika's documented scenarios, and the tools that judge.

The scenarios run with the pika that is installed here, against one node and three; the suites of
other clients, which have to be fetched, run with `make conformance` only. Of the tools it is shown
that they tell the truth: a failure is never lost, and what is left out has a reason.
"""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pika  # type: ignore[import-untyped]
import pytest

from conformance.engine import Engine
from conformance.management import Management
from conformance.origins import source_lines
from conformance.report import page
from conformance.results import keep, kept
from conformance.runners import RUNNERS, Place
from conformance.running import HERE, Outcome, SuiteResult, deselected, outcomes, write_record
from conformance.sources import checksum
from conformance.suites import SUITES, suite_named
from tests.integration.harness import ROOT
from tests.integration.stock import Address

SCENARIOS = HERE / "scenarios" / "pika"


def run_pytest(
    place: Path, work: Path, left_out: list[tuple[str, str]], *arguments: str, **more: str
) -> dict[str, Outcome]:
    """Runs tests as `make conformance` does, in this interpreter's environment."""
    record, patterns = work / "record.jsonl", work / "deselected.json"
    record.touch()
    patterns.write_text(json.dumps(left_out))
    environment = os.environ | more | {
        "PYTHONPATH": os.pathsep.join([str(HERE / "recorder"), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CONFORMANCE_RECORD": str(record),
        "CONFORMANCE_DESELECTED": str(patterns),
    }  # fmt: skip
    with (work / "pytest.log").open("wb") as log:
        subprocess.run(
            [
                sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                "-p", "conformance_recorder", "--rootdir", str(place), *arguments, str(place),
            ],
            env=environment, stdout=log, stderr=log, timeout=50, check=False,
        )  # fmt: skip
    return outcomes(record)


@pytest.mark.slow
def test_scenarios_of_pika(brokers: list[Address], tmp_path: Path) -> None:
    """Clients of a cluster are at its last node, which needs not hold anything."""
    suite = suite_named("pika")
    before = checksum(SCENARIOS)
    found = run_pytest(
        SCENARIOS, tmp_path, deselected(suite), *suite.more_arguments,
        CONFORMANCE_HOST=brokers[-1].host, CONFORMANCE_PORT=str(brokers[-1].port),
    )  # fmt: skip
    wrong = {name: test.why for name, test in found.items() if test.outcome != "passed"}
    assert not wrong
    assert len(found) >= 30
    assert checksum(SCENARIOS) == before


def test_recorder_tells_what_became_of_every_test(tmp_path: Path) -> None:
    """Passed, failed in each phase, skipped, expected to fail, left out, and never begun."""
    place = tmp_path / "suite"
    place.mkdir()
    (place / "pytest.ini").write_text("[pytest]\n")
    (place / "test_it.py").write_text(
        "import os, pytest\n"
        "@pytest.fixture\n"
        "def broken(): raise OSError('no broker')\n"
        "@pytest.fixture\n"
        "def leaky():\n    yield\n    raise OSError('leaked')\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 1 == 2\n"
        "def test_setup(broken): pass\n"
        "def test_teardown(leaky): pass\n"
        "def test_skip(): pytest.skip('not here')\n"
        "@pytest.mark.xfail(reason='known')\n"
        "def test_known(): assert False\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_many(n): pass\n"
        "def test_dies(): os._exit(3)\n"
        "def test_never(): pass\n"
    )
    (place / "test_unimportable.py").write_text("import not_there_at_all\n")
    (place / "test_other.py").write_text("import not_there_either\n")
    left_out = [("test_it.py::test_many[[]2]", "wrong pattern"), ("*test_many[2]", "two is odd")]
    left_out.append(("test_other.py*", "needs another broker"))
    found = run_pytest(place, tmp_path, left_out, "--continue-on-collection-errors")
    said = {name.partition("::")[2] or name: test for name, test in found.items()}
    assert {name: test.outcome for name, test in said.items()} == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_setup": "failed",
        "test_teardown": "failed",
        "test_skip": "skipped",
        "test_known": "skipped",
        "test_many[1]": "passed",
        "test_many[2]": "deselected",
        "test_dies": "failed",
        "test_never": "failed",
        "test_unimportable.py": "failed",
        "test_other.py": "deselected",
    }
    assert "1 == 2" in said["test_bad"].why
    assert "no broker" in said["test_setup"].why
    assert said["test_many[2]"].why == "two is odd"
    assert "not_there_at_all" in said["test_unimportable.py"].why
    assert "no outcome" in said["test_never"].why


def test_every_deselected_test_has_a_reason() -> None:
    """And belongs to a suite that there is."""
    files = sorted((HERE / "deselected").glob("*.toml"))
    assert {file.stem for file in files} <= {suite.name for suite in SUITES}
    for file in files:
        for entry in tomllib.loads(file.read_text())["deselected"]:
            assert len(entry["reason"].split()) > 3, file.name
            assert entry["tests"], file.name


def test_versions_are_exact() -> None:
    """The same tests run everywhere."""
    for suite in SUITES:
        for package in suite.packages:
            assert re.fullmatch(r"[a-z0-9-]+==[0-9][a-z0-9.+-]*", package)


def result(**tests: Outcome) -> SuiteResult:
    """A run of kombu's tests with these outcomes."""
    return SuiteResult("kombu", "one", "5.7.0", "abc1234", 61.0, tests, "", True)


def test_page_hides_nothing() -> None:
    """Counts, failures with their words, reasons, errors of nodes, changed sources."""
    one = result(
        test_good=Outcome("passed", reruns=2),
        test_bad=Outcome("failed", "expected a|b, got <c> in /home/me/else/test.py"),
        test_left=Outcome("deselected", "connects to a host on the internet"),
    )
    three = one._replace(target="three", complaint="Traceback", untouched=False)
    text = page({("kombu", "one"): one, ("kombu", "three"): three})
    assert "| kombu | 5.7.0 | one node | 1 | 1 | 0 | 1 | 1 | 1.0 | abc1234 |" in text
    assert "expected a/b, got &lt;c&gt; in …/test.py" in text
    assert "connects to a host on the internet" in text
    assert "a node's log had an error" in text
    assert "The sources changed during the run against three nodes" in text
    assert "/home/me" not in text


def test_page_keeps_what_was_not_run_here() -> None:
    """One suite can be run on another machine: what the page says of the others stays."""
    other = result(test_bad=Outcome("failed", "a word"))._replace(suite="aiormq", version="7.2.4")
    old = page(
        {("kombu", "one"): result(test_bad=Outcome("failed", "wrong")), ("aiormq", "one"): other}
    )
    new = page({("kombu", "one"): result(test_bad=Outcome("passed"))}, old)
    assert "| aiormq | 7.2.4 | one node | 0 | 1 |" in new
    assert "## aiormq 7.2.4" in new
    assert "a word" in new
    assert new.count("| kombu |") == 1
    assert "wrong" not in new
    assert page({}, new) == new


def test_other_runners_tell_what_became_of_every_test(tmp_path: Path) -> None:
    """Reports of CMake's and Go's runners in the words of the pytest plugin."""
    place = Place(tmp_path, tmp_path, tmp_path)
    (tmp_path / "junit.xml").write_text(
        '<testsuite><testcase name="a" status="run"/><testcase name="b" status="fail">'
        "<failure/><system-out>no\nbroker</system-out></testcase></testsuite>"
    )
    assert [(one["test"], one["kind"]) for one in RUNNERS["ctest"].entries(place)] == [
        ("a", "passed"),
        ("b", "failed"),
    ]
    events = [("run", "A", ""), ("pass", "A", ""), ("run", "B", ""), ("output", "B", "no broker")]
    events += [("fail", "B", ""), ("run", "Dies", "")]
    (tmp_path / "suite.log").write_text(
        "not JSON\n"
        + "\n".join(
            json.dumps({"Action": action, "Test": test, "Output": output})
            for action, test, output in events
        )
    )
    record = tmp_path / "record.jsonl"
    write_record(suite_named("amqp091-go"), place, record)
    found = outcomes(record)
    assert {name: test.outcome for name, test in found.items()} == {
        "A": "passed",
        "B": "failed",
        "Dies": "failed",
        "TestIntegrationConsumeFlow": "deselected",
    }
    assert found["B"].why == "no broker"


def test_sources_come_from_the_machines_own_mirrors(tmp_path: Path) -> None:
    """Of Debian's mirrors only, in either form that apt reads."""
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "debian.sources").write_text(
        "Types: deb\nURIs: http://example.com/debian\nSuites: one two\nComponents: main\n"
        "Signed-By: /keys/debian.gpg\n\nTypes: deb\nURIs: http://example.org/x\nSuites: one\n"
    )
    (tmp_path / "sources.list").write_text("deb http://example.com/debian three main\n# deb x\n")
    assert source_lines(tmp_path) == [
        "deb-src [signed-by=/keys/debian.gpg] http://example.com/debian one main\n",
        "deb-src [signed-by=/keys/debian.gpg] http://example.com/debian two main\n",
        "deb-src http://example.com/debian three main\n",
    ]


@pytest.mark.slow
def test_management_deletes_queues_and_exchanges(brokers: list[Address]) -> None:
    """And nothing else: what is not there is no error, what is asked beyond that is refused."""
    port = brokers[-1].port
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        channel.queue_declare("left behind")
        channel.exchange_declare("left", "fanout")

        def ask(method: str, path: str) -> int:
            http_connection = http.client.HTTPConnection("127.0.0.1", management.port, timeout=10)
            http_connection.request(method, path)
            status = http_connection.getresponse().status
            http_connection.close()
            return status

        with Management(port) as management:
            for _ in range(2):
                assert ask("DELETE", "/api/queues/%2F/left%20behind") == 204
                assert ask("DELETE", "/api/exchanges/%2F/left") == 204
            assert ask("GET", "/api/overview") == 501
            assert ask("DELETE", "/api/users/guest") == 501
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
            channel.queue_declare("left behind", passive=True)


def test_results_are_kept(tmp_path: Path) -> None:
    """A result is the same after it was written and read."""
    before = result(test_bad=Outcome("failed", "why", 3))
    keep(tmp_path, "one", before)
    assert kept(tmp_path, "kombu", "one") == before
    assert kept(tmp_path, "kombu", "three") is None


def test_engine_names_the_brokers_ports(tmp_path: Path) -> None:
    """What aio-pika's fixtures ask: pull, create, start, inspect, kill, remove."""

    def ask(method: str, path: str, body: object = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(tmp_path / "engine"))
        connection.request(method, path, json.dumps(body) if body else None)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, json.loads(text) if text else None

    with Engine(tmp_path / "engine", {"5672/tcp": 30123}):
        assert ask("POST", "/images/create?fromImage=any&tag=latest")[0] == 200
        status, created = ask("POST", "/containers/create", {"Image": "any"})
        assert status == 201
        place = f"/containers/{created['Id']}"
        assert ask("POST", f"{place}/start")[0] == 204
        _, shown = ask("GET", f"{place}/json")
        bound = shown["NetworkSettings"]["Ports"]
        assert bound == {"5672/tcp": [{"HostIp": "127.0.0.1", "HostPort": "30123"}]}
        assert ask("POST", f"{place}/kill")[0] == 204
        assert ask("DELETE", place)[0] == 204
