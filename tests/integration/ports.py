"""Free loopback ports that stay free for whoever picked them."""

import random
import socket
from collections import deque

LOOPBACK = "127.0.0.1"
#: Below the range from which the kernel draws the ports of clients: a restarted node gets its own.
PORTS = range(20_000, 32_000)
#: Ports this process keeps to itself, those it picked last: more than any one test needs.
KEPT = 256
kept: deque[socket.socket] = deque()


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, and nobody else who asks gets, while they are among the last `KEPT`.

    A socket that does not listen stays bound to each: whoever binds with SO_REUSEADDR, as servers
    do, may listen there, and another process that probes for a free port, as the tests that run
    beside these do, finds it taken even before its server starts.
    """
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        probe = socket.socket()
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            probe.close()
            continue
        # Not before it is bound: the probe itself must not share a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.append(probe)
        found.append(port)
        if len(found) == count:
            break
    else:
        raise OSError(f"fewer than {count} free ports in {PORTS}")
    while len(kept) > KEPT:
        kept.popleft().close()
    return found


def is_free(port: int) -> bool:
    """Whether nobody uses the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
