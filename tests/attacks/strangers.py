"""Who is nobody: connections that never say who they are (finding H3)."""

import resource
import socket

from tests.attacks.stage import Stage, attack
from tests.integration.harness import serves
from tests.integration.stock import Address
from tests.integration.waiting import until

#: So many descriptors the attacked process may have, and so many connections are made.
DESCRIPTORS = 600
CONNECTIONS = 700


@attack("H3", nodes=3, is_quick=True)
def silent_connections_to_the_peers_port(stage: Stage) -> None:
    """700 connections to the peers' port of a process of 600 descriptors, not a byte sent."""
    _besiege(stage, stage.cluster.nodes[stage.name].peer)


@attack("H3", is_quick=True)
def silent_connections_to_the_admin_port(stage: Stage) -> None:
    """The same to the admin port."""
    _besiege(stage, stage.cluster.nodes[stage.name].admin)


@attack("H3", more={"limits": {"connections": 300}}, is_quick=True)
def silent_connections_take_all_places_of_clients(stage: Stage) -> None:
    """400 connections of a node that takes 300 clients; nobody waits for their time to log in."""
    held: list[socket.socket] = []
    try:
        held.extend(socket.create_connection(stage.address, timeout=5) for _ in range(400))
        until("clients get in beside strangers", lambda: serves(stage.address), seconds=5)
    finally:
        for one in held:
            one.close()


def _besiege(stage: Stage, place: Address) -> None:
    resource.prlimit(stage.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    held: list[socket.socket] = []
    try:
        held.extend(socket.create_connection(place, timeout=5) for _ in range(CONNECTIONS))
        until("clients get in beside strangers", lambda: serves(stage.address))
        until(
            "strangers are shown the door",
            lambda: stage.descriptors() < DESCRIPTORS // 4,
        )
    finally:
        for one in held:
            one.close()
