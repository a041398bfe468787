"""A worker that is drained leaves its host's ports to the others, and comes back.

In: whether others of this host take the clients that this worker would refuse. Out: its AMQP ports
closed, and opened again when it takes clients, or nobody else does
(docs/adr/0098-workers-share-a-host.md).

Invariants: a host whose workers are all drained listens, so that its clients hear where to go; who
is connected stays.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from typing import Final

from fedq.node.clients.elsewhere import leaves_port_to_others
from fedq.node.records.state import NodeState
from fedq.shell.clients import listeners
from fedq.shell.clients.amqp_server import AmqpServer
from fedq.shell.config.values import ConfigError, NodeConfig

_LOOK_S: Final = 0.2

logger = logging.getLogger("fedq.node")


class SharedPorts:
    """Watches whether a worker is to listen, while it runs."""

    __slots__ = ("_amqp", "_config", "_is_open", "_securities", "_state", "_task")

    def __init__(
        self, config: NodeConfig, amqp: AmqpServer,
        securities: Sequence[listeners.ClientSecurity | None], state: NodeState,
    ) -> None:  # fmt: skip
        """`securities`: of each listener, in the order of the configuration."""
        self._config = config
        self._amqp = amqp
        self._securities = securities
        self._state = state
        self._is_open = True
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while not self._amqp.takes_none:
            await asyncio.sleep(_LOOK_S)
            leaves = leaves_port_to_others(self._state)
            if leaves and self._is_open:
                logger.info("this worker is drained: others of its host have its new clients")
                self._is_open = False
                self._amqp.close_ports()
            elif not leaves and not self._is_open and not self._amqp.takes_none:
                await self._open()

    async def _open(self) -> None:
        """Listens again; a port that is in the way for a moment is tried again."""
        config, bound = self._config, list[socket.socket]()
        try:
            for index, listener in enumerate(config.amqp):
                key = f"amqp.listen[{index}]"
                bound = listeners.bind(config, key, listener, listeners.SHARED)
                while bound:
                    await self._amqp.listen(bound.pop(), self._securities[index])
        except (ConfigError, OSError) as error:
            logger.warning("this worker takes no clients yet: %s", error)
            for one in bound:
                one.close()
            self._amqp.close_ports()
            return
        if self._amqp.takes_none:
            # The node stops, which it said while this was on its way.
            self._amqp.close_ports()
            return
        logger.info("this worker takes new clients again")
        self._is_open = True
