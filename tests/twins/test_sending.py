"""Writing to clients by both forms: every byte in its order, however slowly it is taken."""

import asyncio
import contextlib
import random
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.core.ids import ConnectionId
from tests.examples import examples
from tests.twins import KINDS, twin
from tests.unit.shell.fakes import run, until

NAME = "fedq.shell.clients.sending"
HOST = "127.0.0.1"
#: More than the buffers of the kernel hold.
MUCH = 20_000_000


@pytest.fixture(params=KINDS)
def module(request: pytest.FixtureRequest) -> ModuleType:
    """Either form."""
    return twin(NAME, request.param)


class Server:
    """Clients, made as the server of the node makes them."""

    def __init__(self, module: ModuleType, descriptors: bool) -> None:
        """`descriptors`: whether the sockets may be written to."""
        self.by_connection: dict[ConnectionId, Any] = {}
        self.sockets: Any = module.ClientSockets(self.by_connection)
        self.port = 0
        self.paused: list[ConnectionId] = []
        self.lost: list[ConnectionId] = []
        self._module = module
        self._descriptors = descriptors

    def accept(self) -> asyncio.Protocol:
        """The protocol of a new client."""
        server, connection = self, ConnectionId(len(self.by_connection) + 1)

        base: Any = self._module.ClientSocket

        class Client(base, asyncio.Protocol):  # type: ignore[misc]
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                self.transport = transport
                if server._descriptors:
                    self.descriptor = transport.get_extra_info("socket").fileno()
                self.is_open = True

            def pause_writing(self) -> None:
                server.paused.append(connection)

            def connection_lost(self, _: Exception | None) -> None:
                self.is_open = False
                server.lost.append(connection)

        client = self.by_connection[connection] = Client(connection)
        return cast(asyncio.Protocol, client)


@asynccontextmanager
async def connected(
    module: ModuleType, count: int, descriptors: bool = True
) -> AsyncIterator[tuple[Server, list[socket.socket]]]:
    """A server and so many clients, which do not read by themselves."""
    loop = asyncio.get_running_loop()
    one = Server(module, descriptors)
    server = await loop.create_server(one.accept, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    with contextlib.ExitStack() as stack:
        clients: list[socket.socket] = []
        for number in range(1, count + 1):
            clients.append(stack.enter_context(socket.create_connection((HOST, port))))
            clients[-1].setblocking(False)
            await until(lambda: len(one.by_connection) == number)  # noqa: B023 - awaited here
            await until(lambda: one.by_connection[ConnectionId(number)].is_open)  # noqa: B023
        try:
            yield one, clients
        finally:
            server.close()
            for each in one.by_connection.values():
                each.transport.abort()
            await until(lambda: len(one.lost) == count)


async def received(client: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer if the connection ends before."""
    loop = asyncio.get_running_loop()
    found = bytearray()
    while len(found) < size:
        data = await loop.sock_recv(client, min(size - len(found), 1 << 20))
        if not data:
            break
        found += data
    return bytes(found)


C1, C2, C3 = ConnectionId(1), ConnectionId(2), ConnectionId(3)
SIZES = st.one_of(st.integers(1, 40), st.integers(1, 200_000), st.just(3_000_000))
WRITES = st.lists(st.lists(SIZES, min_size=1, max_size=4), min_size=1, max_size=8)


@given(writes=WRITES, reads=st.lists(st.integers(0, 4_000_000), max_size=8))
@settings(max_examples=examples(25), deadline=None)
@pytest.mark.parametrize("descriptors", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_keep_their_order_however_slowly_they_are_taken(
    kind: str, descriptors: bool, writes: list[list[int]], reads: list[int]
) -> None:
    async def scenario() -> None:
        wanted, found = bytearray(), bytearray()
        async with connected(twin(NAME, kind), 1, descriptors) as (one, (client,)):
            for number, sizes in enumerate(writes):
                source = random.Random(number)
                parts = [source.randbytes(size) for size in sizes]
                wanted += b"".join(parts)
                one.sockets.write(C1, parts)
                some = min(reads[number] if number < len(reads) else 0, len(wanted) - len(found))
                found += await received(client, some)
            found += await received(client, len(wanted) - len(found))
        assert found == wanted

    run(scenario())


def test_more_parts_than_the_kernel_takes_at_once(module: ModuleType) -> None:
    async def scenario() -> None:
        for size in (1, 9_000):
            parts = [bytes([number % 251]) * size for number in range(2_500)]
            async with connected(module, 1) as (one, (client,)):
                one.sockets.write(C1, parts)
                one.sockets.write(C1, [b"end"])
                wanted = b"".join(parts) + b"end"
                assert await received(client, len(wanted)) == wanted

    run(scenario())


def test_who_does_not_take_its_bytes_is_paused_and_goes_on(module: ModuleType) -> None:
    async def scenario() -> None:
        async with connected(module, 1) as (one, (client,)):
            large = random.Random(1).randbytes(MUCH)
            one.sockets.write(C1, [large])
            assert one.paused == [C1]
            one.sockets.write(C1, [b"be", b"hind"])
            assert await received(client, MUCH) == large
            assert await received(client, 6) == b"behind"
            assert one.by_connection[C1].transport.get_write_buffer_size() == 0
            one.sockets.write(C1, [b"again"])
            assert one.by_connection[C1].transport.get_write_buffer_size() == 0 or (
                module is twin(NAME, "pure")
            )
            assert await received(client, 5) == b"again"

    run(scenario())


def test_all_and_the_next_ones_and_those_that_are_not_there(module: ModuleType) -> None:
    async def scenario() -> None:
        async with connected(module, 3) as (one, clients):
            gone = ConnectionId(9)
            one.by_connection[C2].is_open = False
            one.sockets.write(gone, [b"nobody"])
            one.sockets.write_all({C1: [b"a"], gone: [b"nobody"], C2: [b"closed"], C3: [b"c"]})
            order = deque([C3, C1, gone, C3, C1])
            waiting = {C1: [b"1", b"2"], C3: [b"3"], gone: [b"nobody"]}
            one.sockets.write_next(order, waiting, 1)
            assert list(order) == [C1, gone, C3, C1]
            assert list(waiting) == [C1, gone]
            waiting[C3] = [b"4"]
            one.sockets.write_next(order, waiting, 10)
            assert not order
            assert not waiting
            for each in one.by_connection.values():
                each.transport.close()
            found = [await received(client, 100) for client in clients]
            assert found == [b"a12", b"", b"c34"]

    run(scenario())


def test_pieces_from_one_place_on_for_those_that_are_there(module: ModuleType) -> None:
    async def scenario() -> None:
        large = random.Random(1).randbytes(MUCH)
        async with connected(module, 3) as (one, clients):
            sockets = list(one.by_connection.values())
            module.write_pieces(sockets, [b"a", b"b", b"c"], 1, 2)
            module.write_pieces(sockets, [large, b"", b"d"], 0, 3)
            module.write_pieces(sockets, [b"behind", b"e", b"f"], 0, 3)
            sockets[1].is_open = False
            module.write_pieces(sockets, [b"", b"closed", b""], 0, 3)
            assert await received(clients[0], MUCH) == large
            module.write_pieces(sockets, [b".", b"", b""], 0, 3)
            for each in sockets:
                each.transport.close()
            found = [await received(client, 100) for client in clients]
            assert found == [b"behind.", b"be", b"df"]

    run(scenario())


def test_a_connection_that_was_reset_is_left_to_its_transport(module: ModuleType) -> None:
    async def scenario() -> None:
        async with connected(module, 2) as (one, clients):
            # Nobody reads here, so nobody has heard of it.
            one.by_connection[C1].transport.pause_reading()
            clients[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            clients[0].close()
            for _ in range(3):
                one.sockets.write_all({C1: [b"lost"], C2: [b"x"]})
            assert await received(clients[1], 3) == b"xxx"
            await until(lambda: one.lost == [C1])
            one.sockets.write(C1, [b"late"])

    run(scenario())
