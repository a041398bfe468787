"""A gate before a node's port, which can be shut: what is sent goes through, and no answer comes.

So tests name the moment at which something is to fail: so many bytes were sent, and of what came of
them the other side knows nothing.
"""

import socket
import threading
from contextlib import suppress

from tests.integration.stock import Address


class Gate:
    """Lets bytes through, both ways, until so many were sent."""

    def __init__(self, place: Address) -> None:
        self._place = place
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._left = -1
        #: Set while answers pass.
        self._is_open = threading.Event()
        self._is_open.set()
        self.is_shut = threading.Event()
        self._begin(self._accept)

    @property
    def place(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def shut_after(self, size: int) -> None:
        """From so many bytes on, which are sent from now on, no answer passes."""
        with self._lock:
            self._left = size

    def open(self) -> None:
        """Lets answers pass again."""
        with self._lock:
            self._left = -1
            self.is_shut.clear()
            self._is_open.set()

    def stop(self) -> None:
        """Ends all connections, and waits for the threads."""
        self._is_open.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            _shut(each)
        for thread in self._threads:
            thread.join(10)
        for each in self._sockets:
            each.close()

    def _begin(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            try:
                node = socket.create_connection((self._place.host, self._place.port))
            except OSError:
                _shut(client)
                continue
            self._sockets.append(node)
            self._begin(self._pump, client, node, True)
            self._begin(self._pump, node, client, False)

    def _pump(self, source: socket.socket, target: socket.socket, is_sent: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if is_sent:
                    self._count(len(data))
                else:
                    self._is_open.wait()
                target.sendall(data)
        _shut(source)
        _shut(target)

    def _count(self, size: int) -> None:
        with self._lock:
            if self._left < 0:
                return
            self._left -= size
            if self._left < 0:
                self._is_open.clear()
                self.is_shut.set()


def _shut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
