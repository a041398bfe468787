"""`fedq health`: one node's word about itself, in exit codes."""

from dataclasses import replace

from tests.unit.admin.served import a_cluster, served, silent_address
from tests.unit.cli.command import fedq, fedq_alone


def test_a_node_that_serves_is_healthy_whatever_the_others_are() -> None:
    cluster = a_cluster()
    cluster["n2"].node_overview = replace(cluster["n2"].node_overview, lease_held=False)
    with served(cluster) as servers:
        done = fedq("health", "--node", servers.address("n1"))
        shown = fedq("health", "--json", "--node", servers.address("n1")).value
    assert (done.exit_code, done.out) == (0, "n1 serves its clients\n")
    assert shown == {"node": "n1", "serves": True, "stopping": False, "closed": ""}


def test_a_node_without_a_majority_is_alive_and_does_not_serve() -> None:
    cluster = a_cluster()
    cluster["n1"].node_overview = replace(cluster["n1"].node_overview, lease_held=False)
    with served(cluster) as servers:
        done = fedq("health", "--node", servers.address("n1"))
        alive = fedq("health", "--alive", "--node", servers.address("n1"))
    assert done.exit_code == 4
    assert done.out.startswith("n1 has no contact with a majority of the nodes")
    assert alive.exit_code == 0


def test_a_node_whose_doors_are_closed_does_not_serve_and_says_why() -> None:
    cluster = a_cluster()
    why = "this cluster is new and lets clients in once 3 members have come up (cluster_size)"
    cluster["n1"].node_overview = replace(cluster["n1"].node_overview, closed=why)
    with served(cluster) as servers:
        done = fedq("health", "--node", servers.address("n1"))
        alive = fedq("health", "--alive", "--json", "--node", servers.address("n1"))
    assert (done.exit_code, done.out) == (4, f"n1 lets no clients in: {why}\n")
    assert alive.exit_code == 0
    assert alive.value == {"node": "n1", "serves": False, "stopping": False, "closed": why}


def test_a_node_that_stops_is_not_healthy() -> None:
    cluster = a_cluster()
    cluster["n1"].node_overview = replace(cluster["n1"].node_overview, stopping=True)
    with served(cluster) as servers:
        done = fedq("health", "--node", servers.address("n1"))
    assert (done.exit_code, done.out) == (4, "n1 stops\n")


def test_nobody_there_is_neither_alive_nor_healthy() -> None:
    with silent_address() as address:
        done = fedq_alone("health", "--alive", "--node", address, "--timeout", "0.5")
    assert done.exit_code == 3
    assert address in done.err
