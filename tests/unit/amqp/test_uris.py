"""AMQP URIs: what they mean, what is wrong with some, and that no sentence has a password."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.uris import AmqpUri, is_near, parse_uri


def parsed(text: str) -> AmqpUri:
    found = parse_uri(text)
    assert isinstance(found, AmqpUri), found
    return found


@pytest.mark.parametrize(
    ("text", "host", "port", "user", "vhost"),
    [
        ("amqp://example.com", "example.com", 5672, "guest", "/"),
        ("amqp://example.com/", "example.com", 5672, "guest", "/"),
        ("amqps://a:b@EXAMPLE.com:1/%2F", "example.com", 1, "a", "/"),
        ("amqps://a%40b:c%2Fd@[::1]/v%2Fw", "::1", 5671, "a@b", "v/w"),
        ("amqp://a:b@/v", "", 5672, "a", "v"),
        ("amqp://a@", "", 5672, "a", "/"),
        (
            "amqp://h?heartbeat=1&auth_mechanism=plain",
            "h",
            5672,
            "guest",
            "/",
        ),
    ],
)
def test_what_a_uri_means(text: str, host: str, port: int, user: str, vhost: str) -> None:
    found = parsed(text)
    assert (found.host, found.port, found.user, found.vhost) == (host, port, user, vhost)


def test_a_uri_is_shown_without_its_password() -> None:
    found = parsed("amqps://a%40b:s3cret@example.com:5680/v%2Fw")
    assert found.password == "s3cret"
    assert found.shown == "amqps://example.com:5680/v%2Fw"
    assert found.masked == "amqps://a%40b:***@example.com:5680/v%2Fw"
    assert parsed("amqp://me:s3cret@/").masked == "amqp://me:***@/%2F"


@pytest.mark.parametrize(
    "text",
    [
        "", "h", "file:///etc/passwd", "http://example.com",
        "amqp:h", "amqp://", "amqp:///v", "amqp://h:0",
        "amqp://h:70000", "amqp://h:s3cret", "amqp://u:s3cret/x@h", "amqp://:s3cret@h",
        "amqp://u:s3cret@h#f", "amqp://u:s3cret@ h", "amqp://u:s3cret@h\n", "amqp://u:s3cret@h\\x",
        "amqp://u:s3cret@h_ö", "amqp://u:s3cret@a/b\0", "amqp://u:s3cret@[fe80::1%25eth0]",
        "amqp://u:s3cret@[::1", "amqp://u:s3cret@%2Frun%2Fsocket", "amqp://u:s3cret@:5672/",
        "amqp://u:s3cret@h?cacertfile=/etc/passwd", "amqps://u:s3cret@h?certfile=/x&keyfile=/y",
        "amqps://u:s3cret@h?verify=maybe", "amqp://u:s3cret@h?auth_mechanism=external",
        "amqp://u:s3cret@h?unknown=1", "amqp://u:s3cret@h?heartbeat=x", "amqp://u:***@h",
        "amqp://u%00:s3cret@h", "amqp://u:s3cret@h/" + "v" * 256, "amqp://" + "h" * 3_000,
        "amqps://u:s3cret@h?server_name_indication=a/b",
    ],
)  # fmt: skip
def test_what_is_no_uri_is_refused_and_no_password_told(text: str) -> None:
    found = parse_uri(text)
    assert isinstance(found, str)
    assert "s3cret" not in found


@pytest.mark.parametrize("said", [None, 1, True, [], {}, ["amqp://h"]])
def test_what_is_no_text_is_no_uri(said: object) -> None:
    assert isinstance(parse_uri(said), str)


@given(st.text(), st.text(alphabet="[]:@/?#%0\\é\n \t&=", max_size=20))
def test_nothing_that_is_said_raises(before: str, after: str) -> None:
    for text in (before, after, f"amqp://{before}{after}", f"amqps://u:p@{after}{before}"):
        assert isinstance(parse_uri(text), AmqpUri | str)


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("localhost", True), ("x.localhost", True), ("127.9.9.9", True), ("::1", True),
        ("169.254.169.254", True), ("fe80::1", True), ("::ffff:169.254.169.254", True),
        ("0.0.0.0", True), ("::", True), ("224.0.0.1", True), ("10.0.0.1", False),
        ("example.com", False), ("2001:db8::1", False),
    ],
)  # fmt: skip
def test_what_is_near(host: str, near: bool) -> None:
    assert is_near(host) is near


@pytest.mark.parametrize(
    "text",
    [
        "amqp://u:p@[1.2.3.4]", "amqp://u[::1]:p@h", "amqp://u:p@[v1.x]", "amqp://u:p@x[::1]",
        "amqp://u:p@[::1]x", "amqp://u:p@[::1::2]", "amqp://u:p@h/[::1]", "amqp://u:p@[::1]/]",
    ],
)  # fmt: skip
def test_brackets_are_refused_in_the_same_words_by_every_release_of_python(text: str) -> None:
    said = parse_uri(text)
    assert isinstance(said, str)
    assert said.startswith("the host of a URI is no name and no address (elsewhere write %5B")
