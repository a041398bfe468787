"""Declares and deletes durable queues through one channel while another client looks at one.

    python -m loadtests.macro.declaring --url amqp://guest:guest@127.0.0.1:5672 --pid 123

In: a broker that runs, its processes. Out: one JSON object: how many queues a second, and a
CPU-second of the broker's, were declared and deleted, and what a passive declaration took
meanwhile. The frames of a window are written at once; answers are read in order, and each is
compared with its request. Exit code 1, with a sentence, when the broker refuses or hangs up.
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from typing import Any, Final

from fedq.amqp import method_types as m
from fedq.amqp.values import FieldTable
from fedq.bench.histogram import Histogram
from fedq.cli.asking.amqp_client import AmqpClient
from fedq.cli.terminal.failure import CommandError
from loadtests.macro.brokers import tree_cpu_s

#: The queue that the other client looks at, and how long it rests in between.
LOOKED_AT: Final = "fedq-bench-looked-at"
_REST_S: Final = 0.005
_ANSWER_S: Final = 60.0


def parser() -> argparse.ArgumentParser:
    """The command line; what `make bench` says to every generator, and two numbers."""
    made = argparse.ArgumentParser(prog="python -m loadtests.macro.declaring", allow_abbrev=False)
    made.add_argument("--url", action="append", required=True, help="a node; the first declares")
    made.add_argument("--pid", action="append", type=int, default=[], help="a broker's process")
    made.add_argument("--seconds", type=float, default=0.0, help="it takes as long as it takes")
    made.add_argument("--warm-up", type=float, default=0.0, help="not used")
    made.add_argument("--queues", type=int, default=2_000, help="declared, and deleted again")
    made.add_argument("--window", type=int, default=100, help="requests under way at once")
    made.add_argument("--queue-argument", action="append", default=[], help="name=number")
    return made


def arguments_of(given: list[str]) -> FieldTable:
    """The arguments of the queues."""
    pairs = [one.partition("=") for one in given]
    return {name: int(value) for name, _, value in pairs}


def pipelined(client: AmqpClient, requests: list[m.Method], window: int) -> Iterator[m.Method]:
    """The answers to requests of which `window` are under way at once, in order."""
    answered = 0
    for at in range(0, len(requests), window):
        client.tell(*requests[at : at + window])
        for request in requests[at : at + window]:
            answered += 1
            if isinstance(request, m.QueueDeclare):
                declared = client.answer(m.QueueDeclareOk)
                if declared.queue != request.queue:
                    raise CommandError(f"{declared.queue} was answered in place of {request.queue}")
                yield declared
            else:
                yield client.answer(m.QueueDeleteOk)


def measured(
    client: AmqpClient, requests: list[m.Method], window: int, pids: list[int], name: str
) -> dict[str, Any]:
    """How fast the requests were answered, and what processor time each took of the broker."""
    used_s, began = sum(tree_cpu_s(pid) for pid in pids), time.monotonic()
    count = sum(1 for _ in pipelined(client, requests, window))
    seconds = time.monotonic() - began
    used_s = sum(tree_cpu_s(pid) for pid in pids) - used_s
    return {
        f"{name}_per_second": round(count / seconds, 1),
        f"{name}_cpu_us": round(used_s * 1e6 / count, 1),
        f"{name}_per_cpu_second": round(count / used_s, 1) if used_s else None,
    }


def look(url: str, is_over: Event, told: Any) -> None:
    """Declares one queue passively, again and again.

    Tells that it has begun, then what each took; or, at either point, what failed.
    """
    taken = Histogram()
    try:
        with AmqpClient(url, None, _ANSWER_S) as client:
            while True:
                began = time.monotonic_ns()
                client.call(m.QueueDeclare(LOOKED_AT, passive=True), m.QueueDeclareOk)
                taken.record((time.monotonic_ns() - began) // 1_000)
                if taken.count == 1:
                    told.send({})
                if is_over.wait(_REST_S):
                    break
    except CommandError as error:
        told.send(str(error))
        return
    told.send(taken.summary())


def heard(ours: Any) -> dict[str, Any]:
    """What the other process tells next. Raises `CommandError`."""
    try:
        told: dict[str, Any] | str = ours.recv()
    except EOFError:
        raise CommandError("the client that looks at a queue died") from None
    if isinstance(told, str):
        raise CommandError(f"the client that looks at a queue: {told}")
    return told


@contextmanager
def looked_at(url: str, found: dict[str, Any]) -> Iterator[None]:
    """Has another process look meanwhile; `found` has what it took. Raises `CommandError`."""
    is_over = multiprocessing.Event()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=look, args=(url, is_over, theirs), daemon=True)
    process.start()
    # Its end alone is open from now on: if it dies, that is heard.
    theirs.close()
    try:
        heard(ours)
        yield
        is_over.set()
        found["passive_us"] = heard(ours)
    finally:
        process.kill()
        process.join()


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All that is measured. Raises `CommandError`."""
    arguments = arguments_of(options.queue_argument)
    names = [f"fedq-bench-declared-{number}" for number in range(options.queues)]
    declares: list[m.Method] = [
        m.QueueDeclare(name, durable=True, arguments=arguments) for name in names
    ]
    deletes: list[m.Method] = [m.QueueDelete(name) for name in names]
    found: dict[str, Any] = {"options": vars(options), "seconds": 0.0}
    began = time.process_time(), time.monotonic()
    with AmqpClient(options.url[0], None, _ANSWER_S) as client:
        client.call(m.QueueDeclare(LOOKED_AT, durable=True), m.QueueDeclareOk)
        with looked_at(options.url[-1], found):
            found |= measured(client, declares, options.window, options.pid, "declared")
            found |= measured(client, deletes, options.window, options.pid, "deleted")
        client.call(m.QueueDelete(LOOKED_AT), m.QueueDeleteOk)
    found["seconds"] = time.monotonic() - began[1]
    found["generator_share"] = (time.process_time() - began[0]) / found["seconds"]
    return found


def main() -> int:
    """Prints what was measured."""
    options = parser().parse_args()
    try:
        found = run(options)
    except CommandError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    sys.stdout.write(f"{json.dumps(found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
