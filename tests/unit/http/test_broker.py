"""The API as an AMQP client of its own node: where it logs in, and what refusals become."""

import asyncio
from pathlib import Path

import pytest

from fedq.amqp.methods import ConnectionClose, encode_method
from fedq.core.ids import NodeId
from fedq.http.api.broker import Brokers
from fedq.http.refusal import HttpRefusal
from fedq.shell.config.values import ClientTls, Listener, NodeConfig

FILES = ClientTls(Path("a.pem"), Path("a.key"), authority=Path("ca.pem"))


def refused(config: NodeConfig, ports: dict[str, int]) -> HttpRefusal:
    """How an attempt ends to log in there."""

    async def attempt() -> None:
        async with Brokers(config, ports).open("guest", "guest", "/"):
            pass

    with pytest.raises(HttpRefusal) as found:
        asyncio.run(attempt())
    return found.value


def a_config(*amqp: Listener) -> NodeConfig:
    """A node with these listeners."""
    return NodeConfig(NodeId("n1"), Path(), amqp, http=Listener("127.0.0.1", 1))


def test_a_listener_that_wants_certificates_is_of_no_use() -> None:
    found = refused(a_config(Listener("127.0.0.1", 1, FILES)), {})
    assert found.status == 503
    assert "takes passwords" in found.reason


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "::1"])
def test_what_is_not_reached_is_unavailable(host: str) -> None:
    found = refused(a_config(Listener(host, 5672)), {"amqp.listen[0]": 1})
    assert found.status == 503
    assert "try again" in found.reason


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"", 503), (b"HTTP/1.1 400 Bad Request\r\n\r\n", 503), (b"\1\0\0\0\0\0\0\xce", 503),
        (b"\1\0\0\0\0\0\4\0\x0a\0\x33\xce", 503), (b"\1\0\0\xff\xff\xff\xff", 503),
        (b"\1\0\0\0\0\0\2\0\x0a\xce", 503),
    ],
)  # fmt: skip
def test_what_is_no_broker_is_unavailable(said: bytes, status: int) -> None:
    async def attempt() -> HttpRefusal:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(8)
            writer.write(said)
            writer.close()

        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        brokers = Brokers(a_config(Listener("127.0.0.1", port)), {})
        async with server:
            with pytest.raises(HttpRefusal) as found:
                async with brokers.open("guest", "guest", "/"):
                    pass
        return found.value

    assert asyncio.run(attempt()).status == status


def test_a_node_that_takes_no_clients_is_unavailable_and_says_who_does() -> None:
    text = "CONNECTION_FORCED - node n1 is low on memory: connect to another one: n2:5672"

    async def attempt() -> HttpRefusal:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(8)
            writer.write(encode_method(0, ConnectionClose(320, text)))
            writer.close()

        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        brokers = Brokers(a_config(Listener("127.0.0.1", port)), {})
        async with server:
            with pytest.raises(HttpRefusal) as found:
                async with brokers.open("guest", "guest", "/"):
                    pass
        return found.value

    refusal = asyncio.run(attempt())
    assert refusal.status == 503
    assert refusal.reason == "node n1 is low on memory: connect to another one: n2:5672"
