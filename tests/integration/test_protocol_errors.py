"""Right and wrong frames on raw sockets, one case per rule, compared with what RabbitMQ says.

    FEDQ_TEST_AMQP=127.0.0.1:5672 pytest tests/integration/test_protocol_errors.py

runs the same table against a RabbitMQ, which must answer as its column says.
"""

import socket
from collections.abc import Iterator

import pytest

from fedq.amqp.frames import scan_frame
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import (
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    decode_method,
    encode_method,
    name_of,
)
from tests.integration.conftest import OTHER_BROKER
from tests.integration.protocol_cases import (
    CHANNEL,
    CHANNELS,
    CONNECTIONS,
    GREETED,
    HANDSHAKES,
    OPEN,
    SILENCE,
    Case,
    tune_ok,
)
from tests.integration.stock import Address

pytestmark = pytest.mark.slow

#: A channel that no case uses: its opening is answered when all before it is.
MARK = 2_000
MARKED = f"{MARK} channel.open-ok"
READ_BYTES = 65_536
#: RabbitMQ takes three seconds before it hangs up on who has not logged in.
PATIENCE_S = 10.0
#: So long without a byte is silence. Only RabbitMQ is silent in some cases: fedq answers every one,
#: and no test of it waits for this.
SILENCE_S = 2.0


def answers(address: Address, data: bytes, patience_s: float) -> Iterator[str]:
    """What the broker says, as cases write it, and then `silence` or the `end`."""
    with socket.create_connection(address, timeout=PATIENCE_S) as client:
        client.sendall(data)
        received = b""
        while True:
            found = scan_frame(received, 0, 1 << 20)
            if found is None:
                try:
                    more = client.recv(READ_BYTES)
                except ConnectionResetError:
                    more = b""
                except TimeoutError:
                    yield "silence"
                    return
                if not more:
                    yield "end"
                    return
                received += more
                continue
            kind, channel, start, end = found
            if kind == 1:
                yield _said(channel, received[start:end])
            received = received[end + 1 :]
            client.settimeout(patience_s)


def _said(channel: int, payload: bytes) -> str:
    method = decode_method(payload)
    text = f"{channel} {name_of(method)}"
    if isinstance(method, ConnectionClose | ChannelClose):
        return f"{text} {method.reply_code} {method.class_id}.{method.method_id}"
    return text


def check(address: Address, opening: bytes, heard_first: list[str], case: Case) -> None:
    """The broker answers as its column says, and then to the mark, if it still listens."""
    wanted = list(case.rabbit if OTHER_BROKER and case.why else case.answers)
    patience_s = PATIENCE_S
    if wanted == list(SILENCE):
        wanted, patience_s = [], SILENCE_S
    mark = encode_method(MARK, ChannelOpen()) if heard_first[1:] else b""
    marked = not mark
    said: list[str] = []
    rest = list(heard_first)
    for answer in answers(address, opening + case.data + mark, patience_s):
        if answer == MARKED:
            marked = True
        elif answer in rest:
            assert OTHER_BROKER or answer == rest[0], "answers keep the order of the requests"
            rest.remove(answer)
        elif answer != "silence":
            said.append(answer)
        is_over = answer.startswith("0 connection.close ") or answer in ("silence", "end")
        # RabbitMQ's channels overtake each other: there the mark alone says little.
        if is_over or (marked and not rest and len(said) >= len(wanted)):
            break
    assert said == wanted
    assert not rest or OTHER_BROKER


@pytest.mark.parametrize("case", HANDSHAKES, ids=lambda case: case.name)
def test_handshakes(brokers: list[Address], case: Case) -> None:
    check(brokers[-1], b"", ["0 connection.start"], case)


OPENING = GREETED + tune_ok() + OPEN
OPENED = ["0 connection.start", "0 connection.tune", "0 connection.open-ok"]


@pytest.mark.parametrize("case", CONNECTIONS, ids=lambda case: case.name)
def test_connections(brokers: list[Address], case: Case) -> None:
    check(brokers[-1], OPENING, OPENED, case)


@pytest.mark.parametrize("case", CHANNELS, ids=lambda case: case.name)
def test_channels(brokers: list[Address], case: Case) -> None:
    check(brokers[-1], OPENING + CHANNEL, [*OPENED, "1 channel.open-ok"], case)


@pytest.mark.parametrize(
    "greeting", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"]
)
def test_other_protocols_are_told_ours(brokers: list[Address], greeting: bytes) -> None:
    with socket.create_connection(brokers[-1], timeout=15) as client:
        client.sendall(greeting)
        assert client.recv(READ_BYTES) == PROTOCOL_HEADER
