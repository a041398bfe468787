"""A small server that answers test suites, in a thread of its own; a context manager."""

import threading
from socketserver import BaseServer
from types import TracebackType
from typing import Self


class Serving:
    """Serves from the beginning of the block to its end."""

    def __init__(self, server: BaseServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
