"""One request to the HTTP API of a node, for commands that need what it alone has.

In: a URL with a user and a password. Out: a status and JSON, or a `CommandError` that says what to
do. A password goes to loopback, or over TLS; elsewhere as far as the URL says `http`.
"""

import http.client
import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson

from fedq.cli.terminal.failure import FAILED, UNREACHABLE, USAGE, CommandError

_PORT = 15_672


def ask_http(
    url: str, authority: Path | None, timeout_s: float, method: str, path: str,
    body: bytes | None = None,
) -> tuple[int, Any]:  # fmt: skip
    """Status and JSON of the answer; raises `CommandError` for what is refused."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise CommandError(
            # (Without what is before an @, which may be a password.)
            f"{url.rpartition('@')[2]!r} is no address of the HTTP API: "
            f"http://USER:PASSWORD@127.0.0.1:{_PORT}",
            USAGE,
        )
    place = f"{parts.hostname}:{parts.port or _PORT}"
    login = f"{unquote(parts.username or 'guest')}:{unquote(parts.password or 'guest')}"
    headers = {
        "authorization": "Basic " + b64encode(login.encode()).decode(),
        "content-type": "application/json",
    }
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=authority)
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port or _PORT, timeout=timeout_s, context=context
            )
        else:
            connection = http.client.HTTPConnection(
                parts.hostname, parts.port or _PORT, timeout=timeout_s
            )
        try:
            connection.request(method, f"/api/{path}", body, headers)
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        raise CommandError(
            f"no HTTP API reached at {place} ({error}); does node.yaml have `http: {{}}`?",
            UNREACHABLE,
        ) from error
    try:
        found = orjson.loads(said) if said else None
    except orjson.JSONDecodeError as error:
        raise CommandError(f"{place} answered with what is no JSON", FAILED) from error
    if answer.status >= 400:
        reason = found.get("reason") if isinstance(found, dict) else None
        raise CommandError(f"{place} refused ({answer.status}): {reason or answer.reason}", FAILED)
    return answer.status, found
