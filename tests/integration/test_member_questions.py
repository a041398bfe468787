"""A cluster with certificates: members ask each other, and nobody else gets an answer there."""

from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from fedq.core.ids import NodeId
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.config.values import CertificateFiles
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from fedq.shell.peers.channel import NODE_METADATA, channel_credentials
from tests.integration.harness import Cluster
from tests.integration.ports import LOOPBACK

pytestmark = pytest.mark.slow


def certified(directory: Path, names: tuple[str, ...]) -> tuple[Cluster, CertificateFiles]:
    """A cluster whose nodes have certificates; and those of a stranger on the same host."""
    certs = directory / "certs"
    make_authority(certs)
    cluster = Cluster(directory, names)
    for name, node in cluster.nodes.items():
        own = make_node_certificate(certs, NodeId(name), [LOOPBACK])
        path = node.directory / "node.yaml"
        files = {"authority": own.authority, "certificate": own.certificate, "key": own.key}
        content = yaml.safe_load(path.read_text())
        content["certificates"] = {kind: str(file) for kind, file in files.items()}
        path.write_text(yaml.safe_dump(content))
    return cluster, make_node_certificate(certs, NodeId("stranger"), [LOOPBACK])


def test_members_are_told_what_a_stranger_is_not(tmp_path: Path) -> None:
    cluster, stranger = certified(tmp_path, ("a", "b"))
    with cluster:
        for name in cluster.nodes:
            members = cluster.ask("cluster", "members", node=name)["members"]
            assert all(each["figures"] is not None for each in members)
        node = cluster.nodes["a"]
        place = f"{node.peer.host}:{node.peer.port}"
        shown: tuple[tuple[str, str], ...]
        for shown in ((), ((NODE_METADATA, "b"),)):
            with grpc.secure_channel(place, channel_credentials(stranger)) as channel:
                stub: Any = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
                for call, request in (
                    (stub.LocalNode, pb.LocalNodeRequest()),
                    (stub.BrowseConnections, pb.BrowseRequest()),
                    (stub.PutUser, pb.PutUserRequest(name="mallory")),
                ):
                    with pytest.raises(grpc.RpcError, match="ask the admin port") as caught:
                        call(request, metadata=shown, timeout=5)
                    error: Any = caught.value
                    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        users = cluster.ask("user", "list", node="b")["users"]
        assert [each["name"] for each in users] == ["guest"]
