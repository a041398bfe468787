"""Claim: with gRPC's pollers a frame there and one back takes two thirds of the time.

The processor's time is three quarters of what it is with gRPC's event engine.

`python -m loadtests.micro.peer_streams [ROUNDS]`: two processes, 1,000 small frames a second on one
stream, each answered; both ways of polling in turn, since others use the machine, too.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from typing import Final

import grpc
import grpc.aio
import uvloop
from rich.console import Console
from rich.table import Table

from fedq.shell.host.grpc_environment import SETTINGS
from fedq.shell.peers.channel import CHANNEL_OPTIONS, PEER_SERVER_OPTIONS

RATE: Final = 1_000
SECONDS: Final = 2.0
FRAME: Final = b"x" * 200
METHOD: Final = "/fedq.loadtests.Echo/Link"
ROUNDS: Final = 4
#: What gRPC itself would do, and what nodes tell it to (`fedq.shell`).
WAYS: Final = {
    "event engine": "event_engine_client,event_engine_listener",
    "pollers": "-event_engine_client,-event_engine_listener",
}

Context = grpc.aio.ServicerContext[bytes, bytes]


def say(*figures: float) -> None:
    """Tells the parent."""
    sys.stdout.write(" ".join(map(str, figures)) + "\n")
    sys.stdout.flush()


async def answer(frames: int) -> None:
    """The accepting end: answers so many frames, and says what they cost it in microseconds."""
    ended = asyncio.Event()

    async def link(_: object, context: Context) -> None:
        await context.write(b"welcome")
        before_s = time.process_time()
        for _ in range(frames):
            assert isinstance(await context.read(), bytes)
            await context.write(FRAME)
        say((time.process_time() - before_s) / frames * 1e6)
        ended.set()

    server = grpc.aio.server(options=PEER_SERVER_OPTIONS)
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Link": grpc.stream_stream_rpc_method_handler(link)
    }
    service = METHOD.split("/")[1]
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    say(server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    await ended.wait()
    # What was written last is still to be read.
    await server.stop(grace=1.0)


async def ask(address: str, frames: int) -> None:
    """The dialing end: its cost in microseconds, and the median of all round trips."""
    trips: list[float] = []
    async with grpc.aio.insecure_channel(address, CHANNEL_OPTIONS) as channel:
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(METHOD)()
        await call.read()
        before_s, start_s = time.process_time(), time.perf_counter()
        for number in range(frames):
            await asyncio.sleep(start_s + number / RATE - time.perf_counter())
            sent_s = time.perf_counter()
            await call.write(FRAME)
            assert isinstance(await call.read(), bytes)
            trips.append(time.perf_counter() - sent_s)
        cost_us = (time.process_time() - before_s) / frames * 1e6
        say(cost_us, statistics.median(trips) * 1e6)


def measure(experiments: str) -> list[float]:
    """Cost of a frame at the dialing end, at the accepting one, and the round trip; in µs."""
    environment = os.environ | SETTINGS | {"GRPC_EXPERIMENTS": experiments}

    def start(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "loadtests.micro.peer_streams", *words]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    with start("answer") as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with start("ask", f"127.0.0.1:{port}") as client:
            asked, _ = client.communicate(timeout=60)
        answered, _ = server.communicate(timeout=60)
    cost, trip = map(float, asked.split())
    return [cost, float(answered), trip]


def main() -> int:
    """The command line."""
    frames = int(RATE * SECONDS)
    role = sys.argv[1] if len(sys.argv) > 1 else ""
    if role == "answer":
        uvloop.run(answer(frames))
        return 0
    if role == "ask":
        uvloop.run(ask(sys.argv[2], frames))
        return 0
    rounds = int(role or ROUNDS)
    found: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, experiments in WAYS.items():
            found[way].append(measure(experiments))
    table = Table("polling by", "dialing end, µs", "accepting end, µs", "round trip, µs")
    for way, runs in found.items():
        medians = [statistics.median(column) for column in zip(*runs, strict=True)]
        table.add_row(way, *[f"{each:.0f}" for each in medians])
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
