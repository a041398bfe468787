"""A request as its handlers see it, and what they answer; between them and ASGI.

Inputs: ASGI's scope and messages. Outputs: a `Request`, whose body is read only on demand and only
so far; answers as bytes, whole or in parts.

A path is cut at its slashes before its escapes are undone: `%2F` in it, the name of the default
virtual host, is no slash.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, unquote_to_bytes

import orjson

from fedq.http.bounds import HTTP_BODY_BYTES_MAX, HTTP_HEAD_BYTES_MAX, HTTP_TABLE_BYTES_MAX
from fedq.http.refusal import HttpRefusal, bad_request, not_there

JSON: Final = "application/json"
#: What `parse_qsl` may find; more is nobody's query.
_QUERY_FIELDS_MAX: Final = 64
Receive: TypeAlias = Any
Send: TypeAlias = Any

#: A row of an answer.
Row: TypeAlias = dict[str, Any]


class Request:
    """One request; its body waits to be read."""

    __slots__ = ("_receive", "_scope", "_will_read", "headers", "method", "query", "segments")

    def __init__(self, scope: Mapping[str, Any], receive: Receive) -> None:
        """Raises `HttpRefusal` for a path or a query that cannot be read."""
        self._scope = scope
        self._receive = receive
        self.method: str = scope["method"]
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        head = sum([len(name) + len(value) for name, value in self.headers])
        if head + len(scope["raw_path"]) + len(scope["query_string"]) > HTTP_HEAD_BYTES_MAX:
            # What came in one piece was parsed as such.
            text = f"a request's head has at most {HTTP_HEAD_BYTES_MAX} bytes; send less"
            raise HttpRefusal(431, "bad_request", text)
        self.segments = _segments(scope["raw_path"])
        self.query = _query(scope["query_string"])

    @property
    def address(self) -> str:
        """Where it comes from, "host:port"."""
        host, port = self._scope["client"] or ("", 0)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def header(self, name: bytes) -> str | None:
        """A header that is given once; None: it is not."""
        found = [value for known, value in self.headers if known == name]
        return found[0].decode("latin-1") if len(found) == 1 else None

    def flag(self, name: str) -> bool:
        """Whether a word of the query is "true"."""
        return self.query.get(name, "") == "true"

    async def body(self, bytes_max: int = HTTP_BODY_BYTES_MAX) -> bytes:
        """The whole body; raises `HttpRefusal` 413 when it is too long, before it has come."""
        said = self.header(b"content-length")
        if said is not None and said.isdecimal() and int(said[:20]) > bytes_max:
            raise _too_long(bytes_max)
        found = bytearray()
        more = True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise HttpRefusal(400, "bad_request", "the connection ended within the request")
            found += message["body"]
            more = message["more_body"]
            if len(found) > bytes_max:
                raise _too_long(bytes_max)
        return bytes(found)

    async def table(self) -> Row:
        """The body as a JSON object; nothing at all is an empty one."""
        return table_of(await self.body(HTTP_TABLE_BYTES_MAX))


def table_of(data: bytes) -> Row:
    """A body as a JSON object; nothing at all is an empty one."""
    if not data.strip():
        return {}
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise bad_request("not_json") from None
    if not isinstance(found, dict):
        raise bad_request("not_json")
    return found


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back: a status, a body or its parts, and more headers."""

    status: int = 200
    body: bytes = b""
    kind: str = JSON
    parts: AsyncIterator[bytes] | None = None
    headers: tuple[tuple[str, str], ...] = field(default=())


def json_answer(value: object, status: int = 200) -> Answer:
    """An answer with one JSON value; whatever is no Unicode in it was escaped before."""
    return Answer(status, orjson.dumps(value))


def refusal_answer(refusal: HttpRefusal) -> Answer:
    """What a refused request hears."""
    said = {"error": refusal.error, "reason": refusal.reason}
    return Answer(refusal.status, orjson.dumps(said), headers=refusal.headers)


async def send_answer(answer: Answer, send: Send, *, last: bool) -> None:
    """Sends an answer; `last`: the connection ends with it, as its request was not read."""
    headers = [(b"cache-control", b"no-cache"), (b"x-content-type-options", b"nosniff")]
    if answer.body or answer.parts is not None:
        headers.append((b"content-type", answer.kind.encode()))
    if answer.parts is None and answer.status != 204:
        headers.append((b"content-length", b"%d" % len(answer.body)))
    headers += [(name.encode(), value.encode()) for name, value in answer.headers]
    if last:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if answer.parts is not None:
        async for part in answer.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})


def _segments(raw_path: bytes) -> tuple[str, ...]:
    """The parts of a path, each with its escapes undone."""
    path = raw_path.removeprefix(b"/").removesuffix(b"/")
    try:
        return tuple(unquote_to_bytes(part).decode() for part in path.split(b"/"))
    except UnicodeDecodeError:
        raise not_there() from None


def _query(query: bytes) -> dict[str, str]:
    """The words of a query; of repeated ones the last counts."""
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict",
            max_num_fields=_QUERY_FIELDS_MAX,
        )  # fmt: skip
    except ValueError:
        raise bad_request("the query cannot be read") from None
    return dict(pairs)


def _too_long(bytes_max: int) -> HttpRefusal:
    text = f"the body of this request has at most {bytes_max} bytes; send less"
    return HttpRefusal(413, "bad_request", text)
