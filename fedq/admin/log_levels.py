"""How much a node writes to its log, by subsystem: shown, and changed while it runs.

In: requests. Out: replies, or AdminError; the levels of the process's loggers. A change is of the
process that is asked, holds until it ends, and is told in the log as a warning.
"""

import logging
from typing import Final

from fedq.admin.changes import tell_loudly
from fedq.admin.refusal import invalid
from fedq.shell.pb import admin_pb2 as pb

ALL: Final = "all"
#: Subsystem -> whose lines those are.
SUBSYSTEMS: Final = {
    ALL: "fedq",
    "node": "fedq.node",
    "peers": "fedq.shell.peers",
    "raft": "fedq.shell.raft",
    "disk": "fedq.shell.disk",
    "clients": "fedq.shell.clients",
    "host": "fedq.shell.host",
    "http": "fedq.http",
    "shovels": "fedq.shovel",
    "admin": "fedq.admin",
    "changes": "fedq.changes",
}
LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
#: As the node was started; of one subsystem: as all.
DEFAULT: Final = "default"

_SHOWN_MAX: Final = 40


class LogLevels:
    """The levels of this process's loggers, and what they were when it started."""

    __slots__ = ("_started_with",)

    def __init__(self) -> None:
        self._started_with = logging.getLogger(SUBSYSTEMS[ALL]).level

    async def set(self, request: pb.SetLogLevelRequest) -> pb.SetLogLevelReply:
        """Sets the level of a subsystem."""
        subsystem, level = request.subsystem or ALL, request.level
        if subsystem not in SUBSYSTEMS:
            raise invalid(
                f"there is no subsystem {subsystem[:_SHOWN_MAX]!r}; there are "
                f"{', '.join(SUBSYSTEMS)}"
            )
        if level not in LEVELS and level != DEFAULT:
            raise invalid(
                f"{level[:_SHOWN_MAX]!r} is no level; say {', '.join(LEVELS)} or {DEFAULT}"
            )
        found = logging.getLogger(SUBSYSTEMS[subsystem])
        number = LEVELS.get(level, self._started_with if subsystem == ALL else logging.NOTSET)
        # As a warning: who makes the log silent is seen in it.
        tell_loudly(f"set the log level of {subsystem} to {level}")
        found.setLevel(number)
        return pb.SetLogLevelReply()

    async def list(self) -> pb.ListLogLevelsReply:
        """The level of each subsystem."""
        reply = pb.ListLogLevelsReply()
        for subsystem, name in SUBSYSTEMS.items():
            found = logging.getLogger(name)
            reply.levels.add(
                subsystem=subsystem,
                level=logging.getLevelName(found.getEffectiveLevel()).lower(),
                is_own=subsystem == ALL or found.level != logging.NOTSET,
            )
        return reply
