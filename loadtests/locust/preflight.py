"""What cannot work, said before anything starts, with the number that would.

In: what is asked for, and what this process and the brokers allow. Out: sentences. `check` asks
nobody; `ask_broker` opens a connection and declares a queue as subscribers will.
"""

import ipaddress
import resource
import select
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fedq.bench.opening import BrokerFailure, Opener, Opening, goodbye
from fedq.bench.plan import Target
from loadtests.locust.fleet import FleetPlan, subscribing

#: Descriptors of a worker that are not subscribers: its own files, Locust's, gevent's.
WORKER_RESERVE: Final = 200
#: 127.0.0.1 to 127.0.0.250 are used as source addresses.
SOURCES: Final = 250
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_PORTS_DEFAULT: Final = 28_232


def ports_of_a_source() -> int:
    """How many connections one address can have to one port of another."""
    try:
        low, high = _RANGE.read_text("ascii").split()
        return int(high) - int(low) + 1
    except (OSError, ValueError):
        return _PORTS_DEFAULT


def descriptors() -> int:
    """How many files this process may open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def is_loopback(host: str) -> bool:
    """Whether other source addresses than one's own are free to use."""
    try:
        return ipaddress.ip_address(host).is_loopback and ":" not in host
    except ValueError:
        return host == "localhost"


def source_of(targets: Sequence[Target], worker: int) -> str:
    """The address a worker connects from: each has another one, where that works."""
    if worker <= 0 or not all(is_loopback(target.host) for target in targets):
        return ""
    return f"127.0.0.{1 + worker % SOURCES}"


def check(
    subscribers: int, workers: int, targets: Sequence[Target], descriptors: int, ports: int,
    node_connections: int = 0,
) -> list[str]:  # fmt: skip
    """What cannot work of so many subscribers, shared by so many workers and brokers.

    `descriptors`: what each worker may open; `ports`: for each source address and target;
    `node_connections`: what each broker takes, if that is known.
    """
    found = []
    each = -(-subscribers // max(workers, 1))
    room = max(descriptors - WORKER_RESERVE, 0)
    if each > room:
        text = (
            f"{each:,} subscribers in each of {workers} workers, and a process may open "
            f"{descriptors:,} files: raise `ulimit -n` to {each + WORKER_RESERVE:,}"
        )
        if room:
            text += (
                f", or start {-(-subscribers // room)} workers, or ask for "
                f"{room * max(workers, 1):,} subscribers"
            )
        found.append(text)
    sources = workers if all(is_loopback(target.host) for target in targets) else 1
    per_target = -(-subscribers // len(targets))
    most = ports * min(sources, SOURCES)
    if per_target > most:
        found.append(
            f"{per_target:,} connections to each broker from {min(sources, SOURCES)} source "
            f"addresses with {ports:,} ports each: widen net.ipv4.ip_local_port_range, start "
            f"{-(-per_target // ports)} workers (on loopback each has an address of its own), name "
            f"more brokers, or ask for {most * len(targets):,} subscribers"
        )
    if node_connections and per_target > node_connections:
        found.append(
            f"{per_target:,} connections to each of {len(targets)} brokers, which take "
            f"{node_connections:,}: raise their file limit (`ulimit -n`), start "
            f"{-(-subscribers // node_connections)} nodes, or ask for "
            f"{node_connections * len(targets):,} subscribers"
        )
    return found


def ask_broker(
    plan: FleetPlan, target: Target, epoll: "Callable[[], select.epoll]",
    make: type[socket.socket], patience_s: float = 10.0,
) -> str:  # fmt: skip
    """Why a broker would not serve a subscriber, as a sentence; "" if it does."""
    steps = subscribing(plan)
    opening = Opening(target, "a first subscriber", steps, goodbye)
    try:
        Opener([opening], patience_s, epoll(), make).run()
    except BrokerFailure as failure:
        text = str(failure)
        if plan.queue_arguments and "the broker closed" in text:
            names = ", ".join(plan.queue_arguments)
            text += f"; does this broker know the arguments {names}? Leave --queue-argument out"
        return text
    return ""
