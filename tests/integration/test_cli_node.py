"""`fedq node` as a process: its log, its exit codes, and the ways to stop it."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.integration.harness import environment
from tests.integration.ports import LOOPBACK, free_ports
from tests.integration.stock import Address, connect
from tests.integration.waiting import patient, until

pytestmark = pytest.mark.slow

END_S = patient(15.0)
LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (INFO|WARNING) +alone .+")


def configure(directory: Path, amqp_port: int, admin_port: int) -> Path:
    """A node alone on these ports."""
    values = {
        "node": "alone",
        "data": "data",
        "amqp": {"listen": [{"host": LOOPBACK, "port": amqp_port}]},
        "admin": {"host": LOOPBACK, "port": admin_port},
    }
    file = directory / "node.yaml"
    file.write_text(yaml.safe_dump(values))
    return file


@contextmanager
def node(
    file: Path, *options: str, until_it_says: str = " ready: amqp://"
) -> Iterator[subprocess.Popen[bytes]]:
    """The process, once it is ready or says so; its log is `node.log` beside the configuration."""
    log = file.parent / "node.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedq", "node", "--config", str(file), *options],
            stdin=subprocess.PIPE, stdout=stream, stderr=stream, env=environment(),
        )  # fmt: skip
    try:
        until("the node is ready", lambda: until_it_says in log.read_text(), END_S)
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def run_to_its_end(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A node that should end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "fedq", "node", *arguments],
        env=environment(), capture_output=True, text=True, timeout=END_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_node_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    amqp, admin = free_ports(2)
    with node(configure(tmp_path, amqp, admin)) as process:
        connect(Address(LOOPBACK, amqp)).close()
        process.send_signal(number)
        assert process.wait(END_S) == 0
    lines = (tmp_path / "node.log").read_text().splitlines()
    assert all(LOG_LINE.fullmatch(line) for line in lines), lines
    assert lines[-1].endswith("stopped")


def test_a_node_that_asks_to_be_let_in_is_stopped_cleanly(tmp_path: Path) -> None:
    amqp, admin, peer, nobody = free_ports(4)
    file = configure(tmp_path, amqp, admin)
    more = {"peer": {"host": LOOPBACK, "port": peer}, "join": [f"{LOOPBACK}:{nobody}"]}
    file.write_text(file.read_text() + yaml.safe_dump(more))
    with node(file, until_it_says="not let in by") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == 0


def test_what_rotates_logs_does_not_end_the_node(tmp_path: Path) -> None:
    amqp, admin = free_ports(2)
    with node(configure(tmp_path, amqp, admin), "--log-format", "json") as process:
        process.send_signal(signal.SIGHUP)
        log = tmp_path / "node.log"
        until("the log says so", lambda: "SIGHUP changes nothing" in log.read_text(), END_S)
        connect(Address(LOOPBACK, amqp)).close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == 0
    for line in log.read_text().splitlines():
        event = json.loads(line)
        assert (event["node"], event["level"]) in {("alone", "info"), ("alone", "warning")}
        assert event["message"]


def test_the_node_ends_with_its_stdin_only_when_told_to(tmp_path: Path) -> None:
    amqp, admin = free_ports(2)
    with node(configure(tmp_path, amqp, admin), "--stop-with-stdin") as process:
        assert process.stdin is not None
        process.stdin.write(b"what is written here does not matter\n")
        process.stdin.flush()
        connect(Address(LOOPBACK, amqp)).close()
        process.stdin.close()
        assert process.wait(END_S) == 0
    with node(configure(tmp_path, amqp, admin)) as process:
        assert process.stdin is not None
        process.stdin.close()
        connect(Address(LOOPBACK, amqp)).close()
        assert process.poll() is None


def test_a_quiet_node_writes_nothing_when_all_is_well(tmp_path: Path) -> None:
    amqp, admin = free_ports(2)
    file = configure(tmp_path, amqp, admin)
    with node(file, "--log-level", "INFO"):
        pass
    process = subprocess.Popen(
        [sys.executable, "-m", "fedq", "node", "--config", str(file), "--log-level", "warning"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(),
    )  # fmt: skip
    until("the node serves", lambda: is_open(amqp), END_S)
    process.terminate()
    output, _ = process.communicate(timeout=END_S)
    assert (process.returncode, output) == (0, b"")


def is_open(port: int) -> bool:
    """Whether something listens there."""
    try:
        socket.create_connection((LOOPBACK, port), 1).close()
    except OSError:
        return False
    return True


def test_a_port_in_use_is_a_wrong_configuration(tmp_path: Path) -> None:
    amqp, admin = free_ports(2)
    file = configure(tmp_path, amqp, admin)
    with socket.create_server((LOOPBACK, amqp)):
        done = run_to_its_end("--config", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"fedq: {file}:")
    assert f"{LOOPBACK}:{amqp} is in use" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_directory_that_another_node_uses_is_a_wrong_configuration(tmp_path: Path) -> None:
    ports = free_ports(4)
    with node(configure(tmp_path, *ports[:2])):
        second = tmp_path / "second"
        second.mkdir()
        file = configure(second, *ports[2:])
        file.write_text(file.read_text().replace("data: data", "data: ../data"))
        done = run_to_its_end("--config", str(file))
    assert done.returncode == 2
    assert "data" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_doctor_says_that_a_node_runs_there(tmp_path: Path) -> None:
    file = configure(tmp_path, *free_ports(2))
    command = [sys.executable, "-m", "fedq", "doctor", "--config", str(file), "--json"]

    def examined() -> tuple[int, dict[str, list[str]]]:
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=END_S, check=False
        )
        found: dict[str, list[str]] = {}
        for each in json.loads(done.stdout)["checks"]:
            found.setdefault(each["check"], []).append(each["state"])
        return done.returncode, found

    code, found = examined()
    assert (code, found["ports"], found["data directory"]) == (0, ["ok", "ok"], ["ok"])
    with node(file):
        code, found = examined()
    assert (code, found["ports"]) == (1, ["error", "error"])
    assert found["data directory"] == ["ok", "warning"]


def test_a_node_under_optimisation_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-m", "fedq", "node"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=END_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("fedq: Python runs with -O")
    assert list(tmp_path.iterdir()) == []
