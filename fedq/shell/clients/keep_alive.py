"""Connections whose other end is gone without a word (a cable, a machine, a firewall) end.

Heartbeats do that for clients that agreed to them. Not all do, and who is blocked is not heard; so
the system is asked to look: it sends probes when nothing has come for `KEEPALIVE_IDLE_S`. A client
that is there answers without knowing. (What is under way to one that is not is given up by the
system's own patience, some 15 minutes. TCP_USER_TIMEOUT would be quicker, but it also ends clients
that are there and do not read for so long.)
"""

import socket
from typing import Final

from fedq.core.limits import KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES

#: By the name of the option, which not every system has.
_OPTIONS: Final = {
    "TCP_KEEPIDLE": KEEPALIVE_IDLE_S,
    "TCP_KEEPINTVL": KEEPALIVE_INTERVAL_S,
    "TCP_KEEPCNT": KEEPALIVE_PROBES,
}


def keep_alive(connection: socket.socket) -> None:
    """Has the system look after the connection, as far as it can."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS.items():
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
