"""What those who run nodes ask of them: probes, `fedq health`, and systemd's socket."""

import json
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.harness import Cluster
from tests.integration.ports import free_ports
from tests.integration.waiting import until

pytestmark = pytest.mark.slow

WITHIN_S = 20.0
NAMES = ("a", "b", "c")


class ServiceManager:
    """The socket of a service manager, and all that was said there."""

    def __init__(self, place: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(str(place))
        self._socket.setblocking(False)
        self._said: list[str] = []
        #: The processes that have said anything.
        self.senders: set[int] = set()

    def said(self) -> list[str]:
        """Everything so far, in order."""
        while True:
            try:
                data, more, _, _ = self._socket.recvmsg(4_096, socket.CMSG_SPACE(12))
            except BlockingIOError:
                return self._said
            self._said.append(data.decode())
            ((_, _, credentials),) = more
            self.senders.add(struct.unpack("3i", credentials)[0])

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServiceManager]:
    manager = ServiceManager(tmp_path / "notify")
    yield manager
    manager.close()


@pytest.fixture
def probed(tmp_path: Path) -> Iterator[tuple[Cluster, dict[str, int]]]:
    """Three nodes with their ports of probes, none of which runs yet."""
    ports = dict(zip(NAMES, free_ports(3), strict=True))
    cluster = Cluster(tmp_path / "cluster", NAMES)
    for name, port in ports.items():
        with (cluster.nodes[name].directory / "node.yaml").open("a") as settings:
            settings.write(f"metrics:\n  port: {port}\n")
    yield cluster, ports
    cluster.stop()


def probe(port: int, path: str) -> tuple[int, str]:
    """The status of a probe, and its words; 0: nobody is there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=WITHIN_S) as answer:
            return answer.status, json.load(answer)["status"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["reason"]
    except OSError:
        return 0, ""


def test_a_node_that_waits_for_others_is_alive_and_ready_when_it_serves(
    probed: tuple[Cluster, dict[str, int]], manager: ServiceManager, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    cluster, ports = probed
    with monkeypatch.context() as started_by_systemd:
        started_by_systemd.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        started_by_systemd.setenv("WATCHDOG_USEC", "1000000")
        cluster.nodes["a"].start()
    waits = "waits for contact with a majority of the nodes"
    until("systemd hears that it is ready", lambda: "READY=1" in manager.said(), WITHIN_S)
    until("it beats", lambda: manager.said().count("WATCHDOG=1") > 2, WITHIN_S)
    assert f"STATUS={waits}" in manager.said()
    until("it is alive", lambda: probe(ports["a"], "/live") == (200, waits), WITHIN_S)
    assert probe(ports["a"], "/ready") == (503, f"a {waits}")
    assert cluster.ask("health", node="a")["serves"] is False

    for name in ("b", "c"):
        cluster.nodes[name].start()
    ready = (200, "serves its clients")
    until("it is ready", lambda: probe(ports["a"], "/ready") == ready, WITHIN_S)
    assert cluster.ask("health", node="a")["serves"] is True
    until("it says so", lambda: "STATUS=serves its clients" in manager.said(), WITHIN_S)
    until("so is another", lambda: probe(ports["b"], "/ready") == ready, WITHIN_S)

    cluster.ask("cluster", "drain", "a", node="b")
    until("no clients are to come", lambda: probe(ports["a"], "/ready")[0] == 503, WITHIN_S)
    assert "is drained" in probe(ports["a"], "/ready")[1]
    assert probe(ports["a"], "/live")[0] == 200
    assert cluster.ask("health", node="a")["serves"] is True

    assert "STOPPING=1" not in manager.said()
    assert cluster.terminate("a") == 0
    assert "STOPPING=1" in manager.said()
