"""A port that was picked is its picker's alone, before and while a server listens there."""

import socket
import subprocess
import sys

from tests.integration.harness import environment
from tests.integration.ports import LOOPBACK, PORTS, free_ports

ANOTHER_PICKS = """
from tests.integration import ports
ports.PORTS = [{port}]
try:
    print(ports.free_ports(1))
except OSError as error:
    print(error)
"""


def another_picks(port: int) -> str:
    command = [sys.executable, "-c", ANOTHER_PICKS.format(port=port)]
    return subprocess.check_output(command, env=environment(), text=True).strip()


def test_a_picked_port_is_kept_from_others_and_free_for_a_server() -> None:
    (port,) = free_ports(1)
    assert port in PORTS
    assert another_picks(port) == f"fewer than 1 free ports in [{port}]"
    with socket.socket() as client:
        assert client.connect_ex((LOOPBACK, port)) != 0
    with socket.create_server((LOOPBACK, port)):
        assert another_picks(port) == f"fewer than 1 free ports in [{port}]"
        socket.create_connection((LOOPBACK, port)).close()
