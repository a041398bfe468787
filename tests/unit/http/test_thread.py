"""The HTTP thread on real sockets: whoever is slow, rude or many costs a bounded amount."""

import asyncio
import gc
import http.client
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import pytest

from fedq.core.limits import HTTP_CONNECTIONS_MAX
from fedq.http.bounds import HTTP_BODY_BYTES_MAX, HTTP_HEAD_BYTES_MAX, HTTP_TABLE_BYTES_MAX
from fedq.http.refusal import not_there
from fedq.http.serving.connection import ServedConnection
from fedq.http.serving.doorkeeper import Doorkeeper
from fedq.http.serving.exchange import Answer, Request, json_answer
from fedq.http.serving.thread import HttpThread, Port
from tests.integration.waiting import patient, until

#: What a connection may take, where a test waits for its end.
SHORT_S = 0.5
PATIENCE_S = patient(20.0)
LARGE = b"x" * (32 * 1024 * 1024)


#: Requests that are never answered.
under_way: list[Request] = []


class Nothing:
    """What lives beside the thread: nothing."""

    def stop(self) -> None:
        """Has nothing to end."""


async def answer(request: Request) -> Answer:
    """An application with a path for each thing that can go wrong."""
    match request.segments:
        case ("hello",):
            return json_answer({"hello": request.address.rpartition(":")[0]})
        case ("echo",):
            return json_answer(await request.table())
        case ("fault",):
            raise ZeroDivisionError("on purpose")
        case ("large",):
            return Answer(parts=_large())
        case ("never",):
            under_way.append(request)
            await asyncio.Event().wait()
    raise not_there()


async def _large() -> AsyncIterator[bytes]:
    for start in range(0, len(LARGE), 65_536):
        yield LARGE[start : start + 65_536]


@contextmanager
def served(request_s: float = 30.0) -> Iterator[tuple[str, int]]:
    """The address of an HTTP thread."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", 0))
    ports = [(Port([bound], None), lambda: answer)]
    thread = HttpThread(ports, Nothing, request_s)
    address: tuple[str, int] = bound.getsockname()
    try:
        asyncio.run(thread.start())
        yield address
    finally:
        asyncio.run(thread.stop())
        bound.close()
        assert "fedq-http" not in [each.name for each in threading.enumerate()]


def ask(
    address: tuple[str, int], path: str, method: str = "GET", body: bytes = b"",
    headers: dict[str, str] | None = None,
) -> tuple[int, bytes]:  # fmt: skip
    """One request on a connection of its own: status and body."""
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body or None, headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def is_cut(connection: socket.socket) -> bool:
    """Whether the other end hangs up, whatever it says before."""
    connection.settimeout(PATIENCE_S)
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


def test_requests_are_answered_and_connections_kept() -> None:
    with served() as address:
        connection = http.client.HTTPConnection(*address, timeout=PATIENCE_S)
        for _ in range(3):
            connection.request("GET", "/hello")
            assert connection.getresponse().read() == b'{"hello":"127.0.0.1"}'
        connection.request("HEAD", "/hello")
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"")
        connection.close()
        assert ask(address, "/echo", "PUT", b'{"a":1}') == (200, b'{"a":1}')
        assert ask(address, "/none")[0] == 404


def test_a_fault_ends_one_request_alone(caplog: pytest.LogCaptureFixture) -> None:
    with served() as address:
        status, body = ask(address, "/fault")
        assert status == 500
        assert b"ZeroDivision" not in body, "strangers read no details"
        assert ask(address, "/hello")[0] == 200
    assert "ZeroDivisionError: on purpose" in caplog.text


@pytest.mark.parametrize(
    "said",
    [
        b"", b"G", b"GET /hello HTTP/1.1\r\nhost: a\r\nx: ",
        b"PUT /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n{",
        b"PUT /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{",
        b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n",
    ],
)  # fmt: skip
def test_whoever_is_slow_is_cut(said: bytes) -> None:
    with served(SHORT_S) as address, socket.create_connection(address) as slow:
        slow.sendall(said)
        # The one that does not take its answer has a small window to fill.
        if b"/large" in said:
            gone = threading.Event()
            until("the slow reader is cut", lambda: _is_gone(slow, gone), PATIENCE_S)
        else:
            assert is_cut(slow)
        assert ask(address, "/hello")[0] == 200


def _is_gone(connection: socket.socket, gone: threading.Event) -> bool:
    """Whether the other end has reset the connection, without reading from it."""
    try:
        connection.sendall(b"\r\n")
    except OSError:
        gone.set()
    return gone.is_set()


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00" * 50, b"\0" * 100,
        b"GET  HTTP/1.1\r\n\r\n",
        b"GET /hello HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"GET /hello HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"GET /hello HTTP/1.1\r\n" + b"x: y\r\n" * HTTP_HEAD_BYTES_MAX + b"\r\n",
        b"GET /" + b"a" * 20 * HTTP_HEAD_BYTES_MAX,
        b"GET /hello HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 10 * HTTP_HEAD_BYTES_MAX,
        b"PUT /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(said: bytes) -> None:
    with served() as address, socket.create_connection(address) as rude:
        with suppress(OSError):  # It may be refused before all was sent.
            rude.sendall(said)
        assert is_cut(rude)
        assert ask(address, "/hello")[0] == 200


def test_a_body_that_is_too_long_is_refused() -> None:
    with served() as address, socket.create_connection(address) as rude:
        length = b"content-length: %d\r\n" % (HTTP_BODY_BYTES_MAX + 1)
        rude.sendall(b"PUT /echo HTTP/1.1\r\nhost: a\r\n" + length + b"\r\n")
        rude.settimeout(PATIENCE_S)
        assert rude.recv(65_536).startswith(b"HTTP/1.1 413")
        assert is_cut(rude)
        assert ask(address, "/hello")[0] == 200


def test_a_table_that_is_long_is_refused_where_nothing_is_published() -> None:
    """As JSON it takes thirty times as much memory."""
    with served() as address:
        body = b'{"a":"' + b"x" * HTTP_TABLE_BYTES_MAX + b'"}'
        connection = http.client.HTTPConnection(*address, timeout=PATIENCE_S)
        connection.request("PUT", "/echo", body)
        assert connection.getresponse().status == 413
        connection.close()
        assert ask(address, "/hello")[0] == 200


def test_a_stop_that_comes_with_a_connection_ends() -> None:
    """Before, who was cut before being served was waited for without end."""

    async def stops() -> None:
        door = Doorkeeper()
        listener = socket.create_server(("127.0.0.1", 0))
        with listener, socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            door.admit(accepted, None, never_made)
            async with asyncio.timeout(PATIENCE_S):
                await door.close()
            assert len(door) == 0
            assert accepted.fileno() == -1

    asyncio.run(stops())


def never_made(on_end: Callable[[], None]) -> ServedConnection:
    raise AssertionError("it is cut before it is served")


def test_a_head_that_is_too_long_is_refused_however_it_comes() -> None:
    with served() as address:
        long = "a" * HTTP_HEAD_BYTES_MAX
        assert ask(address, f"/{long}")[0] in (400, 431)
        assert ask(address, "/hello", headers={"x": long})[0] in (400, 431)


def test_requests_that_come_together_are_answered_in_order() -> None:
    with served() as address, socket.create_connection(address) as eager:
        eager.settimeout(PATIENCE_S)
        eager.sendall(b"GET /hello HTTP/1.1\r\nhost: a\r\n\r\n" * 50)
        found = b""
        while found.count(b'{"hello"') < 50:
            found += eager.recv(65_536)
        assert found.count(b"200 OK") == 50


def test_a_crowd_makes_room_and_nobody_is_shut_out() -> None:
    with served() as address, ExitStack() as crowd:
        idle = [
            crowd.enter_context(socket.create_connection(address))
            for _ in range(3 * HTTP_CONNECTIONS_MAX)
        ]
        for _ in range(5):
            assert ask(address, "/hello")[0] == 200
        assert all(is_cut(each) for each in idle[:HTTP_CONNECTIONS_MAX]), "the oldest go first"


def test_those_who_are_busy_stay_and_the_next_is_turned_away() -> None:
    under_way.clear()
    with served() as address, ExitStack() as crowd:
        for count in range(1, HTTP_CONNECTIONS_MAX + 1):
            busy = crowd.enter_context(socket.create_connection(address))
            busy.sendall(b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n")
            until("it is under way", partial(_are_under_way, count), PATIENCE_S)
        with pytest.raises((http.client.HTTPException, OSError)):
            ask(address, "/hello")
        crowd.close()
        until("there is room again", lambda: _is_served(address), PATIENCE_S)
    under_way.clear()


def _are_under_way(count: int) -> bool:
    return len(under_way) == count


def _is_served(address: tuple[str, int]) -> bool:
    try:
        return ask(address, "/hello")[0] == 200
    except (http.client.HTTPException, OSError):
        return False


def test_it_stops_whatever_is_open() -> None:
    with served() as address, ExitStack() as crowd:
        for said in (b"", b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n", b"GET /lar"):
            crowd.enter_context(socket.create_connection(address)).sendall(said)
        assert ask(address, "/hello")[0] == 200
    gc.collect()
