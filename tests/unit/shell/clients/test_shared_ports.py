"""A worker whose host's other workers take its clients closes its ports, and opens them again."""

import asyncio
import socket
from pathlib import Path
from typing import cast

import pytest

from fedq.core.ids import NodeId
from fedq.node.records.state import NodeState
from fedq.shell.clients import shared_ports
from fedq.shell.clients.amqp_server import AmqpServer
from fedq.shell.clients.shared_ports import SharedPorts
from fedq.shell.config.values import Listener, NodeConfig
from tests.unit.shell.fakes import run, until

HOST = "127.0.0.1"


class Ports:
    """The part of a server that listens; told to stop while it opens its first port."""

    def __init__(self, stops: bool) -> None:
        self.stops = stops
        self.takes_none = False
        self.bound: list[socket.socket] = []
        self.opened = 0

    async def listen(self, bound: socket.socket, tls: object) -> None:
        self.bound.append(bound)
        self.opened += 1
        if self.stops:
            self.takes_none = True
            self.close_ports()
        await asyncio.sleep(0)
        if self.stops:
            self.bound.append(bound)

    def close_ports(self) -> None:
        for each in self.bound:
            each.close()
        self.bound.clear()


@pytest.mark.parametrize("stops", [False, True])
def test_ports_are_closed_and_opened_again_unless_the_node_stops_meanwhile(
    stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaves = True
    monkeypatch.setattr(shared_ports, "_LOOK_S", 0.01)
    monkeypatch.setattr(shared_ports, "leaves_port_to_others", lambda state: leaves)
    config = NodeConfig(NodeId("n1"), Path(), (Listener(HOST, 0), Listener(HOST, 0)))

    async def scenario() -> None:
        nonlocal leaves
        ports = Ports(stops)
        ports.bound.append(socket.socket())
        SharedPorts(config, cast(AmqpServer, ports), [None, None], cast(NodeState, None))
        await until(lambda: not ports.bound)
        leaves = False
        await until(lambda: ports.opened == 2)
        if stops:
            await until(lambda: not ports.bound)
        else:
            assert len(ports.bound) == 2
            ports.takes_none = True
            ports.close_ports()

    run(scenario())
