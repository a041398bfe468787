"""Nodes that join by a name with several addresses, plainly and over TLS, and over TLS alone."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import yaml

from fedq.core.ids import NodeId
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.config.yaml import Value
from fedq.shell.peers.admitting import JOIN_METHOD
from fedq.shell.peers.channel import SERVICE, open_channel
from tests.integration.newcomers import newcomer
from tests.integration.ports import LOOPBACK, free_ports
from tests.integration.test_joining_refused import Site, code_of, play, request, said
from tests.integration.test_member_questions import certified
from tests.integration.test_planned_moves import member
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]

#: Of the name: nobody is at the first, somebody who is no member at the second, a node at the last.
NOBODY, NO_MEMBER = "127.0.0.2", "127.0.0.3"
NAME = "cluster.example.com"
FILES = ("authority", "certificate", "key")

Resolve = Callable[..., list[tuple[Any, ...]]]


def resolving(name: str, *addresses: str) -> Resolve:
    """The resolver, which knows these addresses of a name."""
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *args: Any, **more: Any) -> list[tuple[Any, ...]]:
        if host != name:
            return list(real(host, port, *args, **more))
        return [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(port)))
            for address in addresses
        ]

    return resolve


class NoMember:
    """Somebody at a port of peers who lets nobody in, and counts who asks."""

    def __init__(self, port: int) -> None:
        self.asked = 0
        self._server = grpc.aio.server()
        handler: Any = grpc.unary_unary_rpc_method_handler(self._refuse)
        generic = grpc.method_handlers_generic_handler(SERVICE, {"Join": handler})
        self._server.add_generic_rpc_handlers((generic,))
        self._server.add_insecure_port(f"{NO_MEMBER}:{port}")

    async def _refuse(self, _: bytes, context: Any) -> bytes:
        self.asked += 1
        await context.abort(grpc.StatusCode.UNAVAILABLE, "no member yet")
        return b""

    async def __aenter__(self) -> "NoMember":
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)


def test_a_name_with_several_addresses_is_asked_at_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(made: Site) -> None:
        monkeypatch.setattr(
            socket, "getaddrinfo", resolving("localhost", NOBODY, NO_MEMBER, LOOPBACK)
        )
        await made.start(made.config("a"))
        port = made.ports["a"]
        async with NoMember(port) as other:
            joining = made.config("b", join=[f"localhost:{port}"])
            two = await made.start(joining)
            assert two.node.state.map.roster.keys() == {"a", "b"}
            assert other.asked == 1

    play(tmp_path, scene)


def test_over_tls_a_certificate_names_the_host_and_not_its_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "certs"
    directory.mkdir()
    make_authority(directory)

    def certificates(name: str) -> dict[str, Value]:
        files = make_node_certificate(directory, NodeId(name), [LOOPBACK, NAME])
        return {each: str(getattr(files, each)) for each in FILES}

    async def scene(made: Site) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", resolving(NAME, NOBODY, LOOPBACK))
        await made.start(made.config("a", certificates=certificates("a")))
        by_name: list[Value] = [f"{NAME}:{made.ports['a']}"]
        two = await made.start(made.config("b", join=by_name, certificates=certificates("b")))
        assert two.node.state.map.roster.keys() == {"a", "b"}

    play(tmp_path, scene)


def test_a_link_takes_the_next_address_of_its_peer_where_nobody_listens(tmp_path: Path) -> None:
    """Names of peers are resolved by gRPC: what becomes of several addresses is its promise."""

    async def scene(made: Site) -> None:
        await made.start(made.config("a"))
        port = made.ports["a"]
        async with open_channel(f"ipv4:{NOBODY}:{port},{LOOPBACK}:{port}", None) as channel:
            call: Any = channel.unary_unary(JOIN_METHOD)
            asked = call(request(f"{LOOPBACK}:{free_ports(1)[0]}"), metadata=said("z"))
            assert await code_of(asked) is grpc.StatusCode.OK

    play(tmp_path, scene)


def test_a_process_joins_over_tls(tmp_path: Path) -> None:
    cluster, _ = certified(tmp_path, ("a",))
    node = cluster.nodes["a"]
    path = node.directory / "node.yaml"
    form = yaml.safe_load(path.read_text())
    form["peer"] = {"host": node.peer.host, "port": node.peer.port}
    path.write_text(yaml.safe_dump(form))
    with cluster:
        own = make_node_certificate(tmp_path / "certs", NodeId("b"), [LOOPBACK])
        files = {each: str(getattr(own, each)) for each in FILES}
        newcomer(cluster, "b", "a", {"certificates": files}).start()
        cluster.wait_served("b", 60.0)
        until("b votes", lambda: member(cluster, "b")["role"] == "voter", 60.0)
        # Each reads the other, which takes certificates both ways.
        for name in ("a", "b"):
            members = cluster.ask("cluster", "members", node=name)["members"]
            assert all(each["figures"] is not None for each in members)
