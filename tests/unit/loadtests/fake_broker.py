"""A broker in the loop of a test: it lets anybody subscribe, and sends what the test says."""

import select
import socket
from collections.abc import Callable

from fedq.amqp import methods as m
from fedq.amqp.content import encode_properties
from fedq.amqp.frames import frame, scan_frame
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import Method, decode_method, encode_method
from fedq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, HEADER_IDS
from fedq.bench.blocks import CHANNEL
from fedq.bench.plan import Target
from fedq.bench.scripts import tag_of

_FRAME_MAX = 131_072


def delivery(number: int, time_ns: int, tag: int) -> bytes:
    """A delivery of the generator's form, to the one consumer of a subscriber."""
    body = number.to_bytes(8, "little") + time_ns.to_bytes(8, "little")
    deliver = m.BasicDeliver(tag_of(0).decode(), tag, False, "fedq-load", "")
    header = HEADER_IDS.to_bytes(4, "big") + len(body).to_bytes(8, "big") + encode_properties({})
    return (
        encode_method(CHANNEL, deliver)
        + frame(FRAME_HEADER, CHANNEL, header)
        + frame(FRAME_BODY, CHANNEL, body)
    )


class _Session:
    """One client, as the broker sees it."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.data = b""
        self.is_subscribed = False
        self.tag = 0


class FakeBroker:
    """Listens on a free port; `turn` does what is to be done, without waiting."""

    def __init__(self, refuses: Method | None = None) -> None:
        """`refuses`: the answer to every queue.declare."""
        self._refuses = refuses
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._listener.setblocking(False)
        self.sessions: list[_Session] = []

    @property
    def target(self) -> Target:
        """Where it is."""
        return Target("127.0.0.1", self._listener.getsockname()[1])

    @property
    def subscribed(self) -> list[_Session]:
        """Who has subscribed."""
        return [session for session in self.sessions if session.is_subscribed]

    def turn(self) -> None:
        """Accepts, reads and answers."""
        while select.select([self._listener], [], [], 0)[0]:
            connected, _ = self._listener.accept()
            connected.setblocking(False)
            self.sessions.append(_Session(connected))
        for session in list(self.sessions):
            try:
                data = session.socket.recv(_FRAME_MAX)
            except BlockingIOError:
                continue
            if not data:
                self.drop(session)
                continue
            session.data += data
            self._read(session)

    def _read(self, session: _Session) -> None:
        if session.data.startswith(PROTOCOL_HEADER):
            session.data = session.data[len(PROTOCOL_HEADER) :]
            self._say(session, 0, m.ConnectionStart(0, 9, {}, b"PLAIN", b"en_US"))
        while (found := scan_frame(session.data, 0, _FRAME_MAX)) is not None:
            kind, channel, start, end = found
            if kind == FRAME_METHOD:
                self._answer(session, channel, decode_method(session.data[start:end]))
            session.data = session.data[end + 1 :]

    def _answer(self, session: _Session, channel: int, method: Method) -> None:
        answers: dict[type[Method], Callable[[], Method]] = {
            m.ConnectionStartOk: lambda: m.ConnectionTune(2_047, _FRAME_MAX, 0),
            m.ConnectionOpen: m.ConnectionOpenOk,
            m.ChannelOpen: m.ChannelOpenOk,
            m.QueueDeclare: lambda: self._refuses or m.QueueDeclareOk("made-here", 0, 0),
            m.QueueBind: m.QueueBindOk,
            m.BasicConsume: lambda: m.BasicConsumeOk(tag_of(0).decode()),
            m.ConfirmSelect: m.ConfirmSelectOk,
        }
        made = answers.get(type(method))
        if made is not None:
            self._say(session, channel, made())
        session.is_subscribed |= isinstance(method, m.BasicConsume)

    def _say(self, session: _Session, channel: int, method: Method) -> None:
        session.socket.sendall(encode_method(channel, method))

    def send(self, session: _Session, *numbers: int, time_ns: int = 0) -> None:
        """Delivers messages with these numbers to a subscriber, in one piece."""
        data = b""
        for number in numbers:
            session.tag += 1
            data += delivery(number, time_ns, session.tag)
        session.socket.sendall(data)

    def drop(self, session: _Session) -> None:
        """Hangs up."""
        self.sessions.remove(session)
        session.socket.close()

    def close(self) -> None:
        """Ends everything."""
        for session in list(self.sessions):
            self.drop(session)
        self._listener.close()
