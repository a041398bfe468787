"""Tools that read streams through the admin port: many at once, in loops, and not at all."""

import base64
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import grpc

from fedq.amqp import method_types as m
from fedq.core.limits import MIB
from fedq.shell.pb import streams_pb2 as pb
from fedq.shell.pb import streams_pb2_grpc
from tests.attacks.attacker import Attacker, message
from tests.attacks.stage import MEMORY_BYTES, Stage, attack

#: Tools, each on a connection of its own.
TOOLS: Final = 4
LASTS_S: Final = 3.0
COUNT: Final = 100_000
STREAM: Final = "attacked"
METADATA: Final = (("authorization", f"Basic {base64.b64encode(b'guest:guest').decode()}"),)


@contextmanager
def _tools(stage: Stage) -> Iterator[list[Any]]:
    """What several tools ask the node through; a stream of 100,000 messages is there."""
    with Attacker(stage.address) as owner:
        owner.open_channels(1)
        arguments: Any = {"x-queue-type": "stream"}
        owner.call(1, m.QueueDeclare(STREAM, durable=True, arguments=arguments), m.QueueDeclareOk)
        for _ in range(COUNT // 1_000):
            owner.send_bytes(message(1, STREAM, bytes(100)) * 1_000)
        owner.confirm(1)
    place = stage.cluster.nodes[stage.name].admin
    own = (("grpc.use_local_subchannel_pool", 1),)
    channels = [grpc.insecure_channel(f"{place.host}:{place.port}", own) for _ in range(TOOLS)]
    try:
        stubs = map(streams_pb2_grpc.StreamsStub, channels)
        yield list(stubs)
    finally:
        for channel in channels:
            channel.close()


def _read(stub: Any, **fields: Any) -> Any:
    request = pb.ReadRequest(vhost="/", stream=STREAM, end=COUNT, **fields)
    return stub.Read(request, metadata=METADATA)


@attack("D16", growth_bytes=MEMORY_BYTES + 64 * MIB, is_quick=True)
def streams_read_by_many_who_take_nothing(stage: Stage) -> None:
    """200 reads of a stream of 100,000 messages, of which nobody takes what comes."""
    with _tools(stage) as stubs:
        calls = [_read(stubs[number % TOOLS], chunk_bytes=2 * MIB) for number in range(200)]
        ended = threading.Event()
        for call in calls:
            call.add_done_callback(lambda _: ended.set())
        assert not ended.wait(LASTS_S), "a read has ended"
        for call in calls:
            call.cancel()


@attack("D16", growth_bytes=MEMORY_BYTES + 64 * MIB, is_quick=True)
def streams_read_in_loops(stage: Stage) -> None:
    """Four tools read all of a stream of 100,000 messages again and again, ten reads each."""

    def read(stub: Any) -> int:
        return sum(len(chunk.lengths) // 4 for chunk in _read(stub))

    with _tools(stage) as stubs, ThreadPoolExecutor(10 * TOOLS) as pool:
        until = time.monotonic() + LASTS_S
        while time.monotonic() < until:
            for count in pool.map(read, stubs * 10):
                assert count == COUNT, f"a read has {count} rows"


@attack("D16", growth_bytes=MEMORY_BYTES + 64 * MIB, is_quick=True)
def streams_sifted_for_what_is_not_there(stage: Stage) -> None:
    """Four tools sift a stream of 100,000 messages for 64 keys it does not have, ten reads each."""
    keys = [b"%064d" % number for number in range(64)]
    nothing = pb.Routes(routing_keys=keys, routing_key_prefixes=keys, exchanges=[b"", b"x"])

    def read(stub: Any) -> int:
        return sum(len(chunk.lengths) // 4 for chunk in _read(stub, routes=nothing))

    with _tools(stage) as stubs, ThreadPoolExecutor(10 * TOOLS) as pool:
        until = time.monotonic() + LASTS_S
        while time.monotonic() < until:
            assert not any(pool.map(read, stubs * 10)), "a message that nobody wanted"
