"""Operators' tools that ask too much: lists in loops, connections closed again and again."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc

from fedq.amqp import method_types as m
from fedq.amqp.methods import encode_method
from fedq.shell.config.admin_token import TOKEN_NAME
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from tests.attacks.attacker import Attacker
from tests.attacks.crowds import crowd, hang_up, login
from tests.attacks.stage import AMPLE, AMPLE_GROWTH, Stage, attack

#: Tools that ask at the same time, and the questions of each that wait for their answers.
TOOLS: Final = 4
QUESTIONS: Final = 50
LASTS_S: Final = 6.0
PAGE: Final = 500
MORE: dict[str, Any] = {
    "limits": {**AMPLE["limits"], "connections": 4_000},
    "users": {"guest": "guest", "crowd": "crowd"},
}
QUEUE = "attacked"
_LISTS: Final = ("BrowseConnections", "BrowseChannels", "BrowseConsumers", "BrowseSubscribers")


@contextmanager
def _tools(stage: Stage) -> Iterator[list[Any]]:
    """What several tools ask the node through, each on a connection of its own."""
    place = stage.cluster.nodes[stage.name].admin
    own = (("grpc.use_local_subchannel_pool", 1),)
    channels = [grpc.insecure_channel(f"{place.host}:{place.port}", own) for _ in range(TOOLS)]
    try:
        yield [admin_pb2_grpc.AdminStub(each) for each in channels]  # type: ignore[no-untyped-call]
    finally:
        for channel in channels:
            channel.close()


def _ask_in_loops(stage: Stage, ask: Callable[[Any, Any], Any]) -> None:
    """For a while each tool has so many questions open; `ask(stub, metadata)` begins one."""
    token = (stage.cluster.nodes[stage.name].directory / "data" / TOKEN_NAME).read_text().strip()
    metadata = (("authorization", f"Bearer {token}"),)
    with _tools(stage) as stubs:
        until = time.monotonic() + LASTS_S
        waiting: list[tuple[Any, Any]] = []
        answers = 0
        while time.monotonic() < until:
            for stub in stubs:
                mine = sum(1 for owner, _ in waiting if owner is stub)
                waiting += [(stub, ask(stub, metadata)) for _ in range(QUESTIONS - mine)]
            waiting[0][1].exception()
            answers += sum(1 for _, each in waiting if each.done() and not each.exception())
            waiting = [(stub, each) for stub, each in waiting if not each.done()]
        assert answers, "no question was answered"


def _consuming(connections: int, consumers: int) -> list[bytes]:
    consumes = [
        encode_method(1, m.BasicConsume(QUEUE, f"a consumer of many: {each}", no_wait=True))
        for each in range(consumers)
    ]
    begin = encode_method(1, m.ChannelOpen())
    last = encode_method(1, m.BasicQos(0, 1, False))
    return [login("crowd", "crowd") + begin + b"".join(consumes) + last] * connections


@contextmanager
def _crowded(stage: Stage) -> Iterator[None]:
    """2,000 connections with ten consumers each are there."""
    with Attacker(stage.address) as owner:
        owner.open_channels(1)
        owner.call(1, m.QueueDeclare(QUEUE), m.QueueDeclareOk)
        members = crowd(stage.address, _consuming(2_000, 10), m.BasicQosOk)
        try:
            yield
        finally:
            hang_up(members)


@attack("D9", more=MORE, growth_bytes=AMPLE_GROWTH)
def lists_of_clients_in_loops(stage: Stage) -> None:
    """Four tools ask for pages of 500 connections, channels and consumers, 50 at a time each."""
    with _crowded(stage):
        request = pb.BrowseRequest(page_size=PAGE)
        kinds = itertools.cycle(_LISTS)
        _ask_in_loops(
            stage,
            lambda stub, metadata: getattr(stub, next(kinds)).future(request, metadata=metadata),
        )


@attack("D9", more=MORE, growth_bytes=AMPLE_GROWTH)
def lists_of_queues_in_loops(stage: Stage) -> None:
    """The same with pages of 500 of 2,000 queues."""
    with Attacker(stage.address) as owner:
        owner.open_channels(1)
        for number in range(2_000):
            owner.send(1, m.QueueDeclare(f"q{number:05}", no_wait=True))
        owner.confirm(1)
        request = pb.ListQueuesRequest(page_size=PAGE)
        _ask_in_loops(
            stage, lambda stub, metadata: stub.ListQueues.future(request, metadata=metadata)
        )


@attack("D9", more=MORE, growth_bytes=AMPLE_GROWTH)
def lists_of_connections_with_many_channels(stage: Stage) -> None:
    """60 connections have 2,047 channels each, and one tool lists connections in a loop."""
    opens = b"".join(encode_method(number, m.ChannelOpen()) for number in range(2, 2_048))
    words = login("crowd", "crowd") + opens + encode_method(1, m.ChannelOpen())
    words += encode_method(1, m.BasicQos(0, 1, False))
    members = crowd(stage.address, [words] * 60, m.BasicQosOk, at_once=1)
    request = pb.BrowseRequest(page_size=PAGE)
    try:
        _ask_in_loops(
            stage, lambda stub, metadata: stub.BrowseConnections.future(request, metadata=metadata)
        )
    finally:
        hang_up(members)


@attack("D9", more=MORE, growth_bytes=AMPLE_GROWTH)
def connections_are_closed_again_and_again(stage: Stage) -> None:
    """Four tools have all of a user's 2,000 connections closed, 50 times at once each."""
    with _crowded(stage):
        request = pb.CloseConnectionsRequest(user="crowd", reason="enough")
        _ask_in_loops(
            stage, lambda stub, metadata: stub.CloseConnections.future(request, metadata=metadata)
        )
