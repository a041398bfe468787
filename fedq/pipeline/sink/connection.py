"""A connection of AMQP 0-9-1 for one publisher: opened at once, then sent to and read by turns.

Input: a url, bytes to send. Output: what a broker says, as methods. `ConnectionLost` for a way that
is broken, or a node that goes: another node may do. `PipelineError` for what will not get better by
itself: a password, a permission, a virtual host, an exchange. Blocks; belongs to one thread.
"""

import fcntl
import select
import socket
import ssl
import termios
import time
from array import array
from typing import Final

from fedq.amqp import methods
from fedq.amqp.frames import scan_frame
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import Method, decode_method, encode_method
from fedq.amqp.spec import FRAME_BYTES_MIN, FRAME_METHOD
from fedq.amqp.values import FieldTable
from fedq.core.errors import CONNECTION_FORCED, INTERNAL_ERROR, ConnectionViolation
from fedq.core.limits import FRAME_BYTES_MAX
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.places import NodeUrl, TlsPaths
from fedq.pipeline.sink.encoding import CHANNEL

#: How long a node may take to let a publisher in, in all.
OPEN_S: Final = 15.0
#: A host that is silently gone is noticed, whether something is on its way there or not.
_USER_TIMEOUT_MS: Final = 20_000
_ALIVE: Final = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
_READ_BYTES: Final = 65_536
_SEND_BUFFER_BYTES: Final = 1024 * 1024
#: With these a node that goes, or is cut off, ends connections: others serve on.
_PASSING: Final = (CONNECTION_FORCED, INTERNAL_ERROR)
_PROPERTIES: Final[FieldTable] = {
    "product": "fedq pipeline",
    "capabilities": {
        "authentication_failure_close": True,
        "publisher_confirms": True,
        "basic.nack": True,
        "connection.blocked": True,
    },
}


class ConnectionLost(Exception):
    """A way that is broken, for now; the text says which and how."""


class Connection:
    """An open connection with one channel, whose publishes are confirmed."""

    def __init__(self, url: NodeUrl, tls: TlsPaths, vhost: str) -> None:
        """Opens it; raises ConnectionLost or PipelineError."""
        self.address = url.address
        self.frame_bytes_max = FRAME_BYTES_MAX
        self._data = b""
        #: What came while something else was waited for.
        self._early: list[Method] = []
        self._deadline = time.monotonic() + OPEN_S
        try:
            self._socket = socket.create_connection((url.host, url.port), OPEN_S)
        except OSError as error:
            raise ConnectionLost(f"{self.address}: {error.strerror or error}") from error
        try:
            self._prepare(url, tls)
            self._shake_hands(url, vhost)
            self._ask(CHANNEL, methods.ChannelOpen(), methods.ChannelOpenOk)
            self._ask(CHANNEL, methods.ConfirmSelect(), methods.ConfirmSelectOk)
            self._socket.setblocking(False)
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        """Ends it, and says so where there is room for it."""
        try:
            self._socket.send(encode_method(0, methods.ConnectionClose(200, "done")))
        except OSError:
            # Then the broker sees that the socket is closed.
            return
        finally:
            self._socket.close()

    def check_exchange(self, name: str) -> None:
        """Raises PipelineError if there is no such exchange."""
        self._socket.setblocking(True)
        self._deadline = time.monotonic() + OPEN_S
        asked = methods.ExchangeDeclare(name, passive=True)
        self._ask(CHANNEL, asked, methods.ExchangeDeclareOk)
        self._socket.setblocking(False)

    # --- in the course of publishing --------------------------------------------------------------

    def send(self, data: memoryview) -> int:
        """Sends what there is room for; how many bytes that were."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            # The broker may have said why it hangs up.
            self.receive()
            raise self._lost(error) from error

    def on_its_way(self) -> int:
        """How many bytes were sent that the node's host has not taken; 0 where that is unknown."""
        count = array("i", [0])
        try:
            fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, count)
        except OSError:
            return 0
        return count[0]

    def wait(self, *, wants_to_send: bool, seconds: float) -> None:
        """Waits until something can be read, or sent if that is wanted."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if wants_to_send else 0))
        poll.poll(seconds * 1_000)

    def receive(self) -> list[Method]:
        """What has come; empty: nothing has. A close of the broker is raised."""
        if self._early:
            early, self._early = self._early, []
            return early
        try:
            data = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return []
        except OSError as error:
            raise self._lost(error) from error
        if not data:
            raise ConnectionLost(f"{self.address}: the node hung up")
        self._data += data
        return self._methods()

    def _methods(self) -> list[Method]:
        """The methods that are whole; contents of what is returned are passed over."""
        found: list[Method] = []
        at = 0
        try:
            while (each := scan_frame(self._data, at, self.frame_bytes_max)) is not None:
                kind, _, start, end = each
                at = end + 1
                if kind == FRAME_METHOD:
                    method = decode_method(self._data[start:end])
                    self._look_at(method)
                    found.append(method)
        except ConnectionViolation as violation:
            raise PipelineError(
                f"{self.address}: this is not AMQP 0-9-1: {violation.text}"
            ) from None
        self._data = self._data[at:]
        return found

    def _look_at(self, method: Method) -> None:
        """Raises what a broker says by closing something."""
        if isinstance(method, methods.ConnectionClose | methods.ChannelClose):
            what = f"{self.address}: {method.reply_code} {method.reply_text}"
            if method.reply_code in _PASSING:
                raise ConnectionLost(what)
            raise PipelineError(what)

    def _lost(self, error: OSError) -> ConnectionLost:
        return ConnectionLost(f"{self.address}: {error.strerror or error}")

    # --- opening ----------------------------------------------------------------------------------

    def _prepare(self, url: NodeUrl, tls: TlsPaths) -> None:
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            for name, value in (*_ALIVE, ("TCP_USER_TIMEOUT", _USER_TIMEOUT_MS)):
                # Those that the system has.
                option = getattr(socket, name, None)
                if option is not None:
                    self._socket.setsockopt(socket.IPPROTO_TCP, option, value)
            if url.is_secure:
                context = _context_of(tls)
                self._socket = context.wrap_socket(self._socket, server_hostname=url.host)
        except ssl.SSLCertVerificationError as error:
            raise PipelineError(
                f"{self.address}: {error.verify_message}: look at its certificate, "
                "and at tls.authority"
            ) from error
        except OSError as error:
            raise self._lost(error) from error

    def _shake_hands(self, url: NodeUrl, vhost: str) -> None:
        self._send_all(PROTOCOL_HEADER)
        self._expect(methods.ConnectionStart)
        proof = f"\0{url.user}\0{url.password}".encode()
        answer = methods.ConnectionStartOk(_PROPERTIES, "PLAIN", proof, "en_US")
        tune = self._ask(0, answer, methods.ConnectionTune)
        assert isinstance(tune, methods.ConnectionTune), "what was asked for"
        offered = tune.frame_max or FRAME_BYTES_MAX
        self.frame_bytes_max = max(FRAME_BYTES_MIN, min(offered, FRAME_BYTES_MAX))
        # No heartbeats: a task of Spark computes between two rows, as long as it takes.
        accepted = methods.ConnectionTuneOk(tune.channel_max, self.frame_bytes_max, 0)
        self._send_all(encode_method(0, accepted))
        self._ask(0, methods.ConnectionOpen(vhost), methods.ConnectionOpenOk)

    def _ask(self, channel: int, method: Method, answer: type[Method]) -> Method:
        self._send_all(encode_method(channel, method))
        return self._expect(answer)

    def _send_all(self, data: bytes) -> None:
        try:
            self._socket.settimeout(max(0.001, self._deadline - time.monotonic()))
            self._socket.sendall(data)
        except OSError as error:
            raise self._lost(error) from error

    def _expect(self, answer: type[Method]) -> Method:
        """Reads until the answer is there; what else comes is kept for later."""
        while True:
            came = self._methods()
            for index, method in enumerate(came):
                if isinstance(method, answer):
                    self._early += came[index + 1 :]
                    return method
                self._early.append(method)
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise ConnectionLost(f"{self.address}: no answer within {OPEN_S:g} s")
            try:
                self._socket.settimeout(left)
                data = self._socket.recv(_READ_BYTES)
            except OSError as error:
                raise self._lost(error) from error
            if not data:
                raise ConnectionLost(f"{self.address}: the node hung up during the handshake")
            self._data += data


def _context_of(tls: TlsPaths) -> ssl.SSLContext:
    """What TLS trusts and shows; raises PipelineError for files that are of no use."""
    try:
        context = ssl.create_default_context(cafile=tls.authority)
        if tls.certificate:
            context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:
        raise PipelineError(f"tls.…: these files cannot be used: {error}") from error
    return context
