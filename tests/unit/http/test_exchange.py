"""Requests: their paths, queries and bodies, however odd."""

import asyncio
from typing import Any

import pytest

from fedq.http.bounds import HTTP_BODY_BYTES_MAX
from fedq.http.refusal import HttpRefusal
from fedq.http.serving.exchange import Request


def a_request(
    raw_path: bytes = b"/", query: bytes = b"", parts: tuple[bytes, ...] = (),
    headers: tuple[tuple[bytes, bytes], ...] = (), ends: bool = True,
) -> Request:  # fmt: skip
    """A request whose body comes in these parts; `ends`: all of it does."""
    left = list(parts)

    async def receive() -> dict[str, Any]:
        if not left and not ends:
            return {"type": "http.disconnect"}
        body = left.pop(0) if left else b""
        return {"type": "http.request", "body": body, "more_body": bool(left) or not ends}

    scope = {
        "method": "PUT", "raw_path": raw_path, "query_string": query, "headers": list(headers),
        "client": ("::1", 4711),
    }  # fmt: skip
    return Request(scope, receive)


@pytest.mark.parametrize(
    ("raw", "segments"),
    [
        (b"/api/queues/%2F/jobs", ("api", "queues", "/", "jobs")),
        (b"/api/queues/%2f/a%2Fb/", ("api", "queues", "/", "a/b")),
        (b"/api/queues/%2F/%252F", ("api", "queues", "/", "%2F")),
        (b"/api/exchanges/%2F//publish", ("api", "exchanges", "/", "", "publish")),
        (b"/api/..%2f..", ("api", "../..")),
        (b"/api/%zz", ("api", "%zz")),
        (b"/api/a%00b", ("api", "a\0b")),
        (b"/", ("",)),
    ],
)
def test_a_path_is_cut_before_its_escapes_are_undone(raw: bytes, segments: tuple[str]) -> None:
    assert a_request(raw).segments == segments


def test_a_path_that_is_no_text_leads_nowhere() -> None:
    with pytest.raises(HttpRefusal) as refused:
        a_request(b"/api/%ff%fe")
    assert refused.value.status == 404


def test_a_query_is_bounded_and_its_last_word_counts() -> None:
    assert a_request(query=b"page=1&page=2&name=a+b%2Fc&sort=").query == {
        "page": "2", "name": "a b/c", "sort": "",
    }  # fmt: skip
    for query in (b"&".join(b"a%d=1" % number for number in range(100)), b"a=%ff"):
        with pytest.raises(HttpRefusal) as refused:
            a_request(query=query)
        assert refused.value.status == 400


def test_an_address_of_ipv6_has_brackets() -> None:
    assert a_request().address == "[::1]:4711"


@pytest.mark.parametrize(
    ("parts", "found"),
    [((b'{"a"', b":1}"), {"a": 1}), ((), {}), ((b" \n",), {})],
)
def test_a_body_is_a_table(parts: tuple[bytes, ...], found: dict[str, int]) -> None:
    assert asyncio.run(a_request(parts=parts).table()) == found


@pytest.mark.parametrize(
    "body", [b"[]", b"1", b"{bad", b"\xff", b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b"NaN"]
)
def test_what_is_no_table_is_refused_in_rabbitmqs_words(body: bytes) -> None:
    with pytest.raises(HttpRefusal, match="not_json") as refused:
        asyncio.run(a_request(parts=(body,)).table())
    assert refused.value.status == 400


def test_a_body_that_is_too_long_is_refused_before_it_has_come() -> None:
    said = ((b"content-length", b"%d" % (HTTP_BODY_BYTES_MAX + 1)),)
    endless = tuple(b"x" * 65_536 for _ in range(64))
    for request in (a_request(headers=said, ends=False), a_request(parts=endless)):
        with pytest.raises(HttpRefusal) as refused:
            asyncio.run(request.body())
        assert refused.value.status == 413


def test_a_connection_that_ends_within_a_body_is_no_fault() -> None:
    with pytest.raises(HttpRefusal) as refused:
        asyncio.run(a_request(parts=(b"{",), ends=False).body())
    assert refused.value.status == 400
