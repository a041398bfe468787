"""The HTTP ports of a node: bound before it starts, served while it runs.

In: a configuration, and what the node's process made of it. Out: nothing but answers. Invariant: a
node without `http` and `metrics` in its configuration has no thread for them.
"""

import asyncio
from functools import partial

from fedq.http.api.application import ApiApplication
from fedq.http.api.call import Served
from fedq.http.metrics.application import MetricsApplication
from fedq.http.metrics.samples import Sources
from fedq.http.questions import NodeLoop
from fedq.http.serving.thread import HttpThread, MakeApplication, Port, close_all
from fedq.shell.clients import listeners
from fedq.shell.config.values import Listener, NodeConfig
from fedq.shell.renewal import Renewable, RenewableListener, Renewal


class HttpPorts:
    """The HTTP ports of one node."""

    def __init__(self, config: NodeConfig) -> None:
        """Binds them, so that a wrong setting stops the start. Raises `ConfigError`."""
        self._config = config
        self._secure: list[Renewable] = []
        self._bound: dict[str, Port] = {}
        self._thread: HttpThread | None = None
        try:
            for key, listener in (("http", config.http), ("metrics", config.metrics)):
                if listener is not None:
                    self._bound[key] = self._bind(key, listener)
        except BaseException:
            close_all(self._bound.values())
            raise

    def _bind(self, key: str, listener: Listener) -> Port:
        tls = None
        if listener.tls is not None:
            tls = listeners.client_tls(self._config, key, listener.tls).context
            self._secure.append(RenewableListener(key, listener.tls, tls))
        return Port(listeners.bind(self._config, key, listener), tls)

    @property
    def numbers(self) -> dict[str, int]:
        """The port of each listener, by its key."""
        return {key: port.bound[0].getsockname()[1] for key, port in self._bound.items()}

    async def start(self, sources: Sources, served: Served) -> None:
        """Serves from now on; to be called on the node's loop once it runs."""
        # One for both: what it paces is the node's time.
        node = NodeLoop(asyncio.get_running_loop())
        known = served._replace(ports={**served.ports, **self.numbers})
        makes: dict[str, MakeApplication] = {
            "http": lambda: ApiApplication(node, known),
            "metrics": lambda: MetricsApplication(node, sources),
        }
        ports = [(port, makes[key]) for key, port in self._bound.items()]
        if ports:
            renewal = partial(Renewal, self._config, self._secure)
            self._thread = HttpThread(ports, renewal)
            await self._thread.start()

    async def stop(self) -> None:
        """Answers nobody any more."""
        if self._thread is not None:
            await self._thread.stop()
        close_all(self._bound.values())
