"""`fedq node` with `workers`: processes that share a port, under one supervisor."""

import re
import stat
from contextlib import closing
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
import yaml

from fedq.shell.config.workers import PORT_STEP
from tests.integration.conftest import Connect
from tests.integration.harness import Cluster, NodeProcess, eventually, run
from tests.integration.ports import LOOPBACK, free_ports, is_free
from tests.integration.standing import wrong
from tests.integration.stock import PERSISTENT, Address, connect
from tests.integration.test_cli_up import gone
from tests.integration.test_probes import ServiceManager
from tests.integration.waiting import patient, until

pytestmark = pytest.mark.slow

END_S = patient(30.0)
WELL_S = 80.0
#: Nobody is taken for dead because the machine has much else to do; a process that ends is noticed.
PATIENT = {"lease_ms": 2_000, "suspect_ms": 6_000}
LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (INFO|WARNING) +h(\.\d)? .+")
#: So many that a worker without any would be a wonder: one in a million runs.
CONNECTIONS = 40
QUEUES = 4


class Host(Cluster):
    """A host with workers: one node by its configuration, and what its supervisor has started."""

    def __init__(self, directory: Path, workers: int, **more: object) -> None:
        peer = {"host": LOOPBACK, "port": peer_port()}
        more = {"workers": workers, "peer": peer, "timing": PATIENT} | more
        super().__init__(directory, ("h",), more=more)
        self._count = workers

    @property
    def node(self) -> NodeProcess:
        return self.nodes["h"]

    @property
    def log(self) -> str:
        path = self.node.directory / "node.log"
        return path.read_text() if path.exists() else ""

    def start_all(self) -> None:
        self.node.start()
        self.wait_ready()

    def wait_ready(self, times: int = 1) -> None:
        sentence = f"all {self._count} workers are ready"
        until("all are ready", lambda: self.log.count(sentence) == times, END_S)

    def wait_well(self) -> None:
        """Waits until status finds nothing wrong: what a start found is told for a minute."""
        until("all is well", lambda: not wrong(self.ask("cluster", "status")), WELL_S)

    def workers(self) -> dict[str, psutil.Process]:
        """Its worker processes, by name."""
        found = {}
        assert self.node.process is not None
        for child in psutil.Process(self.node.process.pid).children():
            line = child.cmdline()
            number = line[line.index("--worker") + 1].partition("/")[0]
            found["h" if number == "1" else f"h.{number}"] = child
        return found

    def stop(self) -> None:
        """Ends the supervisor at once, and what it has started."""
        workers = self.workers() if self.node.is_running else {}
        super().stop()
        for each in workers.values():
            if each.is_running():
                each.kill()


def peer_port() -> int:
    """A port of which those that further workers derive from it are free, too."""
    while True:
        (port,) = free_ports(1)
        if all(is_free(port + step) for step in (PORT_STEP, 2 * PORT_STEP)):
            return port


@pytest.mark.patience(200)
def test_clients_of_one_port_are_spread_and_a_dead_worker_comes_back(
    tmp_path: Path, open_connection: Connect
) -> None:
    with Host(tmp_path, 3) as host:
        host.wait_well()
        clients = [open_connection(host.node.amqp) for _ in range(CONNECTIONS)]
        sockets = host.node.directory / "data" / "workers" / "sockets"
        assert not sockets.exists() or stat.S_IMODE(sockets.stat().st_mode) == 0o700
        # Each has links to both others, and none over a port.
        linked = Path("/proc/net/unix").read_text().split("\n")
        open_there = [line for line in linked if f"{sockets}/" in line and " 03 " in line]
        # (Where the path of the test's directory leaves room for that.)
        assert len(open_there) >= 6 or len(str(sockets)) > 105
        known = host.ask("cluster", "connections")["connections"]
        assert sorted({one["node"] for one in known}) == ["h", "h.2", "h.3"]
        for number, client in enumerate(clients):
            channel = client.channel()
            channel.confirm_delivery()
            # Most publish to a queue that another worker serves.
            channel.queue_declare(f"q{number % QUEUES}", durable=True)
            channel.basic_publish("", f"q{number % QUEUES}", b"%d" % number, PERSISTENT)
        primaries = [host.primary_of(f"q{number}") for number in range(QUEUES)]
        killed = next((node for node in primaries if node != "h"), "h.2")
        host.workers()[killed].kill()
        got: set[bytes] = set()
        eventually("all messages come", lambda: drain(host.node.amqp, got) == CONNECTIONS, 30)
        until("it is told", lambda: f"worker {killed} was ended by SIGKILL" in host.log, END_S)
        host.wait_ready(2)
        assert f"starting worker {killed} again" in host.log
        host.wait_well()
        last = [*host.workers().values()]
        assert len(last) == 3
        assert host.terminate("h") == 0
        assert gone(last)
    lines = host.log.splitlines()
    assert [line for line in lines if not LOG_LINE.fullmatch(line)] == []
    assert lines[-1].endswith("fedq h stopped with all its workers")


def drain(address: Address, got: set[bytes]) -> int:
    """Takes out what the queues have; how many messages have come in all."""
    with connect(address) as client:
        channel = client.channel()
        for number in range(QUEUES):
            while (body := channel.basic_get(f"q{number}", auto_ack=True)[2]) is not None:
                got.add(body)
    return len(got)


def test_workers_end_with_a_supervisor_that_is_killed_and_nobody_else_gets_in(
    tmp_path: Path,
) -> None:
    with Host(tmp_path, 2) as host:
        file = host.node.directory / "other.yaml"
        values = yaml.safe_load((host.node.directory / "node.yaml").read_text())
        for key, text in (
            ("data", "is in use by process"),
            ("peer", f"{LOOPBACK}:{values['peer']['port']} is in use"),
            ("amqp", f"amqp.listen[0].port: {host.node.amqp.host}:{host.node.amqp.port} is in use"),
        ):
            amqp, peer = free_ports(1)[0], peer_port()
            other = {
                "node": "i", "workers": 2, "data": "other-data", "admin": None,
                "amqp": {"listen": [{"host": LOOPBACK, "port": amqp}]},
                "peer": {"host": LOOPBACK, "port": peer},
            }  # fmt: skip
            file.write_text(yaml.safe_dump(other | {key: values[key]}))
            done = run("node", "--config", str(file))
            assert (done.code, done.out) == (2, "")
            assert text in done.err
        assert not (host.node.directory / "other-data").exists()

        workers = [*host.workers().values()]
        host.kill("h")
        until("the workers have ended, too", lambda: gone(workers), END_S)
        assert host.log.count(" stopped") == 2


def test_a_drained_worker_leaves_its_share_of_new_clients_to_the_others(
    tmp_path: Path, open_connection: Connect
) -> None:
    # Nobody dies: a machine that is busy is to cut off nobody, either.
    patience = {"heartbeat_ms": 500, "lease_ms": 7_000, "suspect_ms": 16_000}
    with Host(tmp_path, 3, timing=patience) as host:
        host.ask("cluster", "status", "--wait", "20")
        host.ask("cluster", "drain", "h.2", "--wait", "60")
        until("the others have them", lambda: "h.2: this worker is drained" in said(host), END_S)
        # One that still listened would refuse a third of them.
        for _ in range(CONNECTIONS):
            open_connection(host.node.amqp)
        assert "h.2" not in places(host)
        host.ask("cluster", "undrain", "h.2")
        until("it is back", lambda: "this worker takes new clients again" in host.log, END_S)
        for _ in range(CONNECTIONS):
            open_connection(host.node.amqp)
        assert "h.2" in places(host)
        assert host.terminate("h") == 0


def places(host: Host) -> set[str]:
    """The workers that have clients."""
    return {one["node"] for one in host.ask("cluster", "connections")["connections"]}


def said(host: Host) -> str:
    """The log, without times: "node: text"."""
    return re.sub(r"(?m)^\S+ \S+ [A-Z]+ +(\S+) ", r"\1: ", host.log)


def test_systemd_hears_of_all_workers_from_their_supervisor_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "notify"
    monkeypatch.setenv("NOTIFY_SOCKET", str(place))
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    with closing(ServiceManager(place)) as manager, Host(tmp_path / "host", 2) as host:
        until("it is ready", lambda: "READY=1" in manager.said(), END_S)
        all_ready, one_ready = (f"STATUS={count} of 2 workers are ready" for count in (2, 1))
        assert manager.said()[:2] == ["READY=1", all_ready]
        until("it beats", lambda: manager.said().count("WATCHDOG=1") > 2, END_S)
        host.workers()["h.2"].kill()
        until("it is told of", lambda: one_ready in manager.said(), END_S)
        until("and that it is back", lambda: manager.said().count(all_ready) == 2, END_S)
        assert "STOPPING=1" not in manager.said()
        assert host.node.process is not None
        supervisor = host.node.process.pid
        assert host.terminate("h") == 0
        assert manager.said().count("READY=1") == manager.said().count("STOPPING=1") == 1
        assert manager.senders == {supervisor}


def test_a_worker_that_cannot_start_ends_all_with_its_reason(tmp_path: Path) -> None:
    host = Host(tmp_path, 2)
    place = host.node.directory / "data" / "workers"
    place.mkdir(parents=True)
    (place / "2").write_text("no directory")
    (place / "7").mkdir()
    host.node.start()
    try:
        assert host.node.process is not None
        assert host.node.process.wait(END_S) == 2
    finally:
        host.stop()
    assert "cannot be used" in host.log
    assert "stops with all its workers: worker h.2 ended with exit code 2" in host.log
    told = "holds what worker {} had, which is not started any more"
    assert told.format("h.7") in host.log
    assert told.format("h.2") not in host.log
    # The node alone has their votes in its map, too: it may wait for them.
    file = host.node.directory / "node.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"workers": 1}))
    host.stop()
    host.node.start()
    try:
        until("both are told of", lambda: told.format("h.2") in host.log, END_S)
    finally:
        # It is alone, and has started nobody.
        Cluster.stop(host)
