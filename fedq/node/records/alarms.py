"""What a node is short of that takes in no more, in RabbitMQ's words.

Input: what the node found out about itself, or what another one says in its heartbeats. Output: the
beginning of the reason that blocked clients hear.
"""

from typing import NamedTuple

from fedq.core.peer_messages import Heartbeat


class Alarm(NamedTuple):
    """Which bounds a node has reached; it takes in no more as long as there is one."""

    memory: bool
    disk: bool

    @property
    def reason(self) -> str:
        """RabbitMQ's words for it."""
        short_of = ("memory",) * self.memory + ("disk",) * self.disk
        return "low on " + " & ".join(short_of)


def alarm_in(heartbeat: Heartbeat) -> Alarm | None:
    """What its sender is short of; None: it takes in what comes.

    An older release does not say which bound it has reached: then it may be either.
    """
    if not heartbeat.full:
        return None
    memory, disk = heartbeat.memory_full, heartbeat.disk_low
    return Alarm(memory, disk) if memory or disk else Alarm(True, True)
