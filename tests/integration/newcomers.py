"""Nodes that join a cluster of processes which was not made with them."""

from typing import Any

import yaml

from tests.integration.harness import PLAINLY, Cluster, NodeProcess
from tests.integration.ports import LOOPBACK, free_ports


def newcomer(cluster: Cluster, name: str, known: str, more: dict[str, Any]) -> NodeProcess:
    """One more node of the cluster, not started yet, which asks a known one to let it in."""
    directory = cluster.nodes[known].directory.parent / name
    directory.mkdir()
    command = [*PLAINLY, "node", "--config", str(directory / "node.yaml")]
    node = cluster.nodes[name] = NodeProcess(name, directory, command, free_ports(3))
    form: dict[str, Any] = {
        "node": name,
        "data": "data",
        "amqp": {"listen": [{"host": node.amqp.host, "port": node.amqp.port}]},
        "admin": {"host": node.admin.host, "port": node.admin.port},
        "peer": {"host": node.peer.host, "port": node.peer.port},
        "join": [f"{LOOPBACK}:{cluster.nodes[known].peer.port}"],
        **more,
    }
    (directory / "node.yaml").write_text(yaml.safe_dump(form))
    return node
