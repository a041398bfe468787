"""Answers the few questions that aiormq's and aio-pika's tests ask a container engine.

Their fixtures want a broker in a container, through the engine's socket at `DOCKER_HOST`: pull an
image, create, start, inspect, kill, remove. Here every "container" is the broker that runs already,
and inspecting it names the broker's ports. So the tests' files stay as they are. Input: where the
socket shall be, and the broker's ports. Invariant: nothing is started or stopped from here.
"""

import json
import socketserver
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from conformance.serving import Serving


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, ports: Mapping[str, int]) -> None:
        super().__init__(str(path), _Handler)
        self.ports = ports


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def address_string(self) -> str:
        """The base class expects an address with a port; a Unix socket has none."""
        return "local"

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not worth a line."""

    def _answer(self, status: int, value: Any = None) -> None:
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        # The peer of an answer without a body may be gone already.
        if body:
            self.wfile.write(body)

    def do_POST(self) -> None:
        """Pull, create, start, stop, kill."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/containers/create"):
            self._answer(201, {"Id": "broker", "Warnings": []})
        elif self.path.startswith("/images/create"):
            self._answer(200, {"status": "present"})
        else:
            self._answer(204)

    def do_GET(self) -> None:
        """Inspect."""
        bound = {
            name: [{"HostIp": "127.0.0.1", "HostPort": str(port)}]
            for name, port in self.server.ports.items()
        }
        self._answer(200, {"Id": "broker", "NetworkSettings": {"Ports": bound}})

    def do_DELETE(self) -> None:
        """Remove."""
        self._answer(204)


class Engine(Serving):
    """The server, as a context manager; ends with it."""

    def __init__(self, path: Path, ports: Mapping[str, int]) -> None:
        """`path` of the Unix socket; `ports` as the engine names them: `{"5672/tcp": 30123}`."""
        super().__init__(_Server(path, ports))
