"""Streams that are not let in: what the caller hears, and how much of it is in the log."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NoReturn, cast

import grpc
import pytest

from fedq.core.ids import Incarnation, NodeId
from fedq.core.limits import FAILED_LOGINS_TOLD
from fedq.shell.peers.calling import Context
from fedq.shell.peers.channel import HELLO_METADATA, NODE_METADATA
from fedq.shell.peers.desk import PeerDesk, agreed_settings
from fedq.shell.peers.hello import Hello, Process, encode_hello
from fedq.shell.peers.server import PeerServer, PeerSink

VOTERS = {NodeId(name): "" for name in ("n1", "n2", "n3")}
AGREED = agreed_settings(VOTERS, 1_000, 3_000)


def hello(name: str, directory: str = "") -> Hello:
    return Hello(
        NodeId(name), Process(Incarnation(1), "start", 0), AGREED, belongs_to="c1",
        directory=directory,
    )  # fmt: skip


class Aborted(Exception):
    """What a call ends with."""


class Call:
    """A call of somebody who says this of itself."""

    def __init__(self, said: Hello) -> None:
        self.said = said
        self.code: grpc.StatusCode | None = None

    def invocation_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return ((NODE_METADATA, self.said.node), (HELLO_METADATA, encode_hello(self.said)))

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        self.code = code
        raise Aborted(details)


def calls(said: Callable[[int], Hello], count: int) -> list[grpc.StatusCode | None]:
    """The codes with which so many calls end at n1, which knows n2's new directory."""

    async def run() -> list[grpc.StatusCode | None]:
        desk = PeerDesk(hello("n1"), 3.0, lambda: 0.0, lambda *_: None)
        desk.belongs_to = lambda: "c1"
        desk.directory_of = lambda name: "new disk" if name == "n2" else ""
        desk.neighbours = [*VOTERS][1:]
        sink = PeerSink(cast(Any, None), lambda *_: None, lambda *_: None)
        server = PeerServer(desk, [*VOTERS][1:], sink, is_secure=False)
        codes = []
        for number in range(count):
            call = Call(said(number))
            with pytest.raises(Aborted):
                await server._admit(cast(Context, call))
            codes.append(call.code)
        return codes

    return asyncio.run(run())


def test_a_flood_of_refused_calls_is_a_few_lines_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    codes = calls(lambda number: hello(f"x{number}"), 500)
    assert set(codes) == {grpc.StatusCode.PERMISSION_DENIED}
    assert len(caplog.records) == FAILED_LOGINS_TOLD
    assert "refused 'x0' at" in caplog.text


def test_a_peer_that_is_refused_for_ever_new_reasons_is_a_few_lines_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    codes = calls(lambda number: hello("n3")._replace(belongs_to=f"c{number + 2}"), 500)
    assert set(codes) == {grpc.StatusCode.FAILED_PRECONDITION}
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * FAILED_LOGINS_TOLD


def test_who_was_forgotten_hears_that_its_name_is_another_machine_s() -> None:
    assert calls(lambda _: hello("n2", "old disk"), 1) == [grpc.StatusCode.NOT_FOUND]
