"""What clients send to log in."""

import pytest

from fedq.amqp.sasl import credentials
from fedq.amqp.values import encode_table


def test_plain() -> None:
    assert credentials("PLAIN", b"\0guest\0secret") == ("guest", "secret")
    assert credentials("PLAIN", b"someone\0Zo\xc3\xab\0") == ("Zoë", "")


def test_amqplain() -> None:
    response = encode_table({"LOGIN": "guest", "PASSWORD": "secret"})[4:]
    assert credentials("AMQPLAIN", response) == ("guest", "secret")


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b""), ("PLAIN", b"guest\0guest"), ("PLAIN", b"\0a\0b\0c"),
        ("PLAIN", b"\0\xff\0x"),
        ("AMQPLAIN", b""), ("AMQPLAIN", b"\x05LOGIN"),
        ("AMQPLAIN", encode_table({"LOGIN": "a"})[4:]),
        ("AMQPLAIN", encode_table({"LOGIN": 1, "PASSWORD": "x"})[4:]), ("EXTERNAL", b"\0a\0b"),
    ],
)  # fmt: skip
def test_what_holds_no_credentials_is_none(mechanism: str, response: bytes) -> None:
    assert credentials(mechanism, response) is None
