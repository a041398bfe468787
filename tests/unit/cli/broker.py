"""A broker that says what a test wants: one answer to each thing that it hears."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fedq.amqp import method_types as m
from fedq.amqp.client_side import CHANNEL
from fedq.amqp.methods import encode_method

_HANDSHAKE = (
    encode_method(0, m.ConnectionStart()),
    encode_method(0, m.ConnectionTune(2047, 131_072, 0)),
    encode_method(0, m.ConnectionOpenOk()) + encode_method(CHANNEL, m.ChannelOpenOk()),
)


def said(channel: int, *methods: m.Method) -> bytes:
    """Methods, as they are sent."""
    return b"".join(encode_method(channel, method) for method in methods)


@contextmanager
def broker(answers: Sequence[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """Its URL, and what it hears; after the last answer it listens and says nothing."""
    heard: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client:
            for answer in (*_HANDSHAKE, *answers):
                data = client.recv(1 << 20)
                heard.append(data)
                if not data:
                    return
                client.sendall(answer)
            while data := client.recv(1 << 20):
                heard.append(data)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield f"amqp://127.0.0.1:{listener.getsockname()[1]}", heard
        finally:
            thread.join()
