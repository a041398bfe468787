"""Who may ask a node's admin port: on a machine, the user that runs it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from fedq.core.limits import MIB
from fedq.shell.config import admin_token
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from tests.integration.harness import ROOT, Cluster, NodeProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("admin"), ("a", "b")) as running:
        # Another user would not find these.
        for node in running.nodes.values():
            (_own_tokens() / f"{node.admin.port}.token").unlink()
        yield running


def fedq(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command, with no more than this of FEDQ_… in its environment."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("FEDQ_")}
    elsewhere = {"XDG_RUNTIME_DIR": "/nonexistent", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "fedq", *arguments], check=False, capture_output=True, text=True,
        env=clean | elsewhere | environment, timeout=60,
    )  # fmt: skip


def test_who_cannot_read_the_nodes_files_is_refused_and_told_what_to_do(cluster: Cluster) -> None:
    node = cluster.nodes["a"]
    place = f"{node.admin.host}:{node.admin.port}"
    for command in (["cluster", "members"], ["user", "add", "mallory", "--password", "x"]):
        refused = fedq(*command, "--node", place)
        assert refused.returncode == 2
        assert "wants the node's token" in refused.stderr
        assert "--data" in refused.stderr
    assert "mallory" not in fedq("user", "list", "--node", place, "--data", _data(node)).stdout
    # Health checks need no token: whoever watches the machine may see that the node is there.
    assert fedq("cluster", "members", "--node", place, FEDQ_TOKEN="0" * 64).returncode == 2


def test_who_can_read_them_is_answered(cluster: Cluster) -> None:
    node = cluster.nodes["a"]
    place = f"{node.admin.host}:{node.admin.port}"
    token = admin_token.read(Path(_data(node)))
    config = str(node.directory / "node.yaml")
    for arguments, environment in (
        (["--node", place, "--data", _data(node)], {}),
        (["--config", config], {}),
        (["--node", place], {"FEDQ_TOKEN": token}),
        (["--node", place], {"FEDQ_DATA": _data(node)}),
    ):
        asked = fedq("cluster", "members", *arguments, **environment)
        assert asked.returncode == 0, asked.stderr


def test_without_certificates_the_peers_port_answers_members_only(cluster: Cluster) -> None:
    node = cluster.nodes["a"]
    with grpc.insecure_channel(f"{node.peer.host}:{node.peer.port}") as channel:
        stub = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
        with pytest.raises(grpc.RpcError, match="ask the admin port"):
            stub.PutUser(pb.PutUserRequest(name="mallory"), timeout=5)
        assert stub.LocalNode(pb.LocalNodeRequest(), timeout=5).figures.map_version


def test_requests_are_small(cluster: Cluster) -> None:
    node = cluster.nodes["a"]
    told = admin_token.metadata(admin_token.read(Path(_data(node))))
    with grpc.insecure_channel(f"{node.admin.host}:{node.admin.port}") as channel:
        stub = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
        with pytest.raises(grpc.RpcError, match="larger than max"):
            stub.ShowQueue(pb.ShowQueueRequest(name="x" * MIB), timeout=5, metadata=told)


def _own_tokens() -> Path:
    return admin_token.SHARED_DIRECTORY / f"fedq-{os.getuid()}"


def _data(node: NodeProcess) -> str:
    return str(node.directory / "data")
