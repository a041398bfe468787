"""`fedq up` with real node processes: what it starts, shows, keeps, and leaves behind."""

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import yaml

from tests.integration.harness import environment
from tests.integration.standing import wrong
from tests.integration.stock import PERSISTENT, Address, connect
from tests.integration.waiting import patient, until

pytestmark = pytest.mark.slow

START_S = 30.0
STOP_S = patient(20.0)


class Up:
    """A running `fedq up --json`; `events` are those read so far."""

    def __init__(self, *options: str, temporary: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fedq", "up", "--json", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            env=environment() | {"TMPDIR": str(temporary)}, start_new_session=True,
        )  # fmt: skip
        self.events: list[dict[str, Any]] = []
        self._rest = b""

    def wait_for(self, kind: str, node: str | None = None, seconds: float = START_S) -> None:
        """Reads on until such an event came (from now on)."""
        end = time.monotonic() + patient(seconds)
        while time.monotonic() < end:
            for event in self._read(end - time.monotonic()):
                self.events.append(event)
                if event["event"] == kind and node in (None, event["node"]):
                    return
        raise AssertionError(f"no {kind} of {node} within {seconds:g} s; events: {self.events}")

    def _read(self, seconds: float) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            if not select.select([self.process.stdout], [], [], max(seconds, 0))[0]:
                return
            more = os.read(self.process.stdout.fileno(), 65_536)
            if not more:
                raise AssertionError(f"fedq up has ended; {self.errors()}; events: {self.events}")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        yield json.loads(line)

    def errors(self) -> str:
        """What an ended command wrote to stderr."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def nodes(self) -> dict[str, psutil.Process]:
        """Its node processes that live, by name."""
        found: dict[str, psutil.Process] = {}
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess):
                # One that has ended and is not waited for yet has no command line any more.
                if line := child.cmdline():
                    found[Path(line[-1]).parent.name] = child
        return found

    def addresses(self) -> dict[str, str]:
        """The AMQP URL each node had when it was last ready."""
        ready = [event for event in self.events if event["event"] == "ready"]
        return {event["node"]: event["amqp"] for event in ready}

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Ends it as a user would; returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(STOP_S)


@contextmanager
def up(*options: str, temporary: Path) -> Iterator[Up]:
    """`fedq up` for the time of the block; nothing of it is left after that."""
    temporary.mkdir(exist_ok=True)
    command = Up(*options, temporary=temporary)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            for child in psutil.Process(command.process.pid).children():
                child.kill()
            command.process.kill()
            command.process.wait()
        for stream in (command.process.stdout, command.process.stderr):
            assert stream is not None
            stream.close()


def fedq_json(*arguments: str, node: str) -> Any:
    """What a command says with --json."""
    done = subprocess.run(
        [sys.executable, "-m", "fedq", *arguments, "--json", "--node", node],
        env=environment(), capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    # 4: the answer says that something is wrong.
    assert done.returncode in (0, 4), done.stderr
    return json.loads(done.stdout)


def admin_address(process: psutil.Process) -> str:
    """Where a node's configuration puts its admin service."""
    lines = Path(process.cmdline()[-1]).read_text().partition("admin:")[2].splitlines()
    port = next(line.split(":")[1].strip() for line in lines if "port:" in line)
    return f"127.0.0.1:{port}"


def gone(processes: list[psutil.Process]) -> bool:
    """Whether none of them lives."""
    return not any(
        process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes
    )


def amqp(url: str) -> Address:
    """Where a stock client connects."""
    host, _, port = url.removeprefix("amqp://").rpartition(":")
    return Address(host, int(port))


def test_three_nodes_serve_are_shown_and_leave_nothing_behind(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    with up(temporary=temporary) as command:
        command.wait_for("whole")
        nodes = command.nodes()
        assert sorted(nodes) == sorted(command.addresses()) == ["n1", "n2", "n3"]
        for url in command.addresses().values():
            connect(amqp(url)).close()
        status = fedq_json("cluster", "status", node=admin_address(nodes["n2"]))
        assert [(member["node"], member["state"]) for member in status["members"]] == [
            ("n1", "up"), ("n2", "up"), ("n3", "up"),
        ]  # fmt: skip
        assert status["leader"] in nodes
        assert wrong(status) == []
        # More than one has led where the machine has much else to do.
        led = [event["node"] for event in command.events if event["event"] == "leader"]
        assert led
        assert set(led) <= set(nodes)
        assert command.stop(signal.SIGINT) == 0
        assert gone(list(nodes.values()))
    assert list(temporary.iterdir()) == []


def test_a_node_with_workers_is_one_place_for_clients_and_several_members(tmp_path: Path) -> None:
    with up("--nodes", "1", "--workers", "2", temporary=tmp_path / "temporary") as command:
        command.wait_for("whole")
        (supervisor,) = command.nodes().values()
        workers = supervisor.children()
        assert len(workers) == 2
        status = fedq_json("cluster", "status", node=admin_address(supervisor))
        assert [(member["node"], member["state"]) for member in status["members"]] == [
            ("n1", "up"), ("n1.2", "up"),
        ]  # fmt: skip
        assert {member["amqp_address"] for member in status["members"]} == {
            command.addresses()["n1"].removeprefix("amqp://")
        }
        assert command.stop(signal.SIGINT) == 0
        assert gone([supervisor, *workers])


def test_a_queue_is_shown_from_any_node(tmp_path: Path) -> None:
    with up("--nodes", "2", temporary=tmp_path / "temporary") as command:
        command.wait_for("whole")
        connection = connect(amqp(command.addresses()["n1"]))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        for _ in range(7):
            channel.basic_publish("", "orders", b"an order")
        channel.basic_get("orders")
        for process in command.nodes().values():
            queue = fedq_json("queue", "show", "orders", node=admin_address(process))
            assert (queue["ready"], queue["unacknowledged"], queue["messages"]) == (6, 1, 7)
            (fragment,) = queue["fragments"]
            assert fragment["state"] == "serving"
            assert sorted(fragment["in_sync"]) == ["n1", "n2"]
        clients = fedq_json("cluster", "connections", node=admin_address(command.nodes()["n2"]))
        assert [(one["node"], one["user"]) for one in clients["connections"]] == [("n1", "guest")]
        connection.close()
        assert command.stop(signal.SIGTERM) == 0


def test_a_killed_node_is_reported_and_stays_down(tmp_path: Path) -> None:
    with up(temporary=tmp_path / "temporary") as command:
        command.wait_for("whole")
        command.nodes()["n2"].kill()
        command.wait_for("ended", "n2", 5)
        assert command.events[-1]["text"] == "n2 was ended by SIGKILL"
        command.wait_for("down", "n2", 10)
        assert sorted(command.nodes()) == ["n1", "n3"]
        status = fedq_json("cluster", "status", node=admin_address(command.nodes()["n1"]))
        assert [member["state"] for member in status["members"]] == ["up", "down", "up"]
        assert any(problem.startswith("n2 is down") for problem in status["problems"])
        assert command.stop() == 0


def test_with_restart_a_killed_node_comes_back(tmp_path: Path) -> None:
    with up("--restart", temporary=tmp_path / "temporary") as command:
        command.wait_for("whole")
        before = command.nodes()["n3"].pid
        command.nodes()["n3"].kill()
        command.wait_for("restarting", "n3", 10)
        command.wait_for("whole")
        assert command.nodes()["n3"].pid != before
        assert command.stop() == 0


def test_kept_data_keeps_ports_queues_and_messages(tmp_path: Path) -> None:
    options = ["--nodes", "2", "--data", str(tmp_path / "data")]
    with up(*options, temporary=tmp_path / "temporary") as command:
        command.wait_for("whole")
        first = command.addresses()
        connection = connect(amqp(first["n1"]))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"kept", PERSISTENT)
        connection.close()
        assert command.stop() == 0
    with up("--data", str(tmp_path / "data"), temporary=tmp_path / "temporary") as command:
        command.wait_for("whole")
        assert command.addresses() == first
        connection = connect(amqp(first["n2"]))
        _, _, body = connection.channel().basic_get("orders", auto_ack=True)
        assert body == b"kept"
        connection.close()
        assert command.stop() == 0


def test_on_a_terminal_a_live_table_shows_the_nodes(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fedq", "up", "--nodes", "1"],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        env=environment() | {"TMPDIR": str(tmp_path), "TERM": "xterm", "COLUMNS": "120"},
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown = b""

    def shows(wanted: bytes) -> bool:
        nonlocal shown
        if select.select([ours], [], [], 0.1)[0]:
            shown += os.read(ours, 65_536)
        return wanted in shown

    try:
        until("it is ready", lambda: shows(b"n1 is ready: amqp://"), START_S)
        until("the table has a heading", lambda: shows(b"CONNECTIONS"), 5)
        until("the table has a leader", lambda: shows(b"leader"), 5)
        assert b"Ctrl-C stops all nodes" in shown
        process.send_signal(signal.SIGINT)
        until("the node has stopped", lambda: shows(b"n1 stopped"), STOP_S)
        assert process.wait(STOP_S) == 0
    finally:
        # Its node ends with it.
        process.kill()
        process.wait()
        os.close(ours)


def test_the_nodes_logs_hold_nothing_but_their_own_lines(tmp_path: Path) -> None:
    options = ["--nodes", "2", "--data", str(tmp_path / "data")]
    with up(*options, temporary=tmp_path / "temporary") as command:
        command.wait_for("whole")
        config = yaml.safe_load((tmp_path / "data" / "n1" / "node.yaml").read_text())
        host, _, port = config["peers"]["n1"].rpartition(":")
        with socket.create_connection((host, int(port)), 5) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            # The handshake has failed when the node hangs up.
            while stranger.recv(4_096):
                continue
        assert command.stop() == 0
    for name in ("n1", "n2"):
        lines = (tmp_path / "data" / name / "node.log").read_text().splitlines()
        assert [line for line in lines if f" {name} " not in line] == []
        assert lines[-1].endswith(f"fedq {name} stopped")


def test_a_second_signal_does_not_wait_for_a_node_that_hangs(tmp_path: Path) -> None:
    with up("--nodes", "1", temporary=tmp_path / "temporary") as command:
        command.wait_for("whole")
        nodes = command.nodes()
        nodes["n1"].suspend()
        command.process.send_signal(signal.SIGINT)
        command.wait_for("stopping", seconds=5)
        began = time.monotonic()
        assert command.stop(signal.SIGINT) == 0
        assert time.monotonic() - began < patient(5)
        assert gone(list(nodes.values()))


def test_nodes_end_with_a_command_that_is_killed(tmp_path: Path) -> None:
    with up("--nodes", "2", temporary=tmp_path / "temporary") as command:
        command.wait_for("whole")
        nodes = list(command.nodes().values())
        command.process.kill()
        command.process.wait()
        until("the nodes have ended, too", lambda: gone(nodes), STOP_S)


def test_a_node_that_cannot_start_ends_the_command_with_its_reason(tmp_path: Path) -> None:
    options = ["--nodes", "2", "--data", str(tmp_path / "data")]
    with up(*options, temporary=tmp_path / "temporary") as command:
        command.wait_for("whole")
        assert command.stop() == 0
    (tmp_path / "data" / "n2" / "data").rename(tmp_path / "elsewhere")
    (tmp_path / "data" / "n2" / "data").write_text("no directory")
    with up(*options, temporary=tmp_path / "temporary") as command:
        command.wait_for("ended", "n2")
        nodes = list(command.nodes().values())
        assert command.process.wait(STOP_S) == 1
        sentence = command.errors()
        assert gone(nodes)
    assert sentence.startswith("fedq: n2 ended with exit code 2: fedq: ")
    assert "cannot be used" in sentence
    assert sentence.count("\n") == 1
