"""The token of an admin port without TLS: who can read the node's files may ask it.

In: a node's data directory, its admin port. Out: a token that is new with each start, in the data
directory and in a directory of the user's own by the port's number, where commands find it; and
what a server asks of its callers.

Invariants: only the user that runs the node can read the files, from the moment they exist; a
directory that is not that user's alone is not used, for reading neither.
"""

import contextlib
import logging
import os
import secrets
import stat
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio

TOKEN_NAME: Final = "admin.token"
_TOKEN_BYTES: Final = 32
_TEXT_BYTES_MAX: Final = 256
_HEADER: Final = "authorization"
#: Where every user may make a directory, whatever TMPDIR says to one of its programs.
SHARED_DIRECTORY: Final = Path("/tmp")
#: What anybody may ask: whether the node is well, and which services there are. And what asks for
#: a user and a password itself.
_OPEN: Final = ("/grpc.health.", "/grpc.reflection.", "/fedq.streams.", "/fedq.queue_readers.")

#: What others than members hear at a port of peers.
NOT_HERE: Final = "this is the port of peers: ask the admin port"

logger = logging.getLogger(__name__)


def make(data: Path) -> str:
    """A new token, in the data directory; raises `OSError`."""
    token = secrets.token_hex(_TOKEN_BYTES)
    _write(data / TOKEN_NAME, token)
    return token


def publish(port: int, token: str) -> list[Path]:
    """Puts the token where commands of this user look for that of a port; returns where."""
    paths: list[Path] = []
    for directory in _own_directories(make=True):
        path = directory / f"{port}.token"
        # Elsewhere it may succeed, and there is the data directory: `--data`.
        with contextlib.suppress(OSError):
            _write(path, token)
            paths.append(path)
    if not paths:
        logger.warning("commands find the admin token only with --data, --config or FEDQ_TOKEN")
    return paths


def read(data: Path) -> str:
    """The token of the node with this data directory, "" if there is none; raises `OSError`."""
    try:
        return _read(data / TOKEN_NAME)
    except (FileNotFoundError, NotADirectoryError):
        return ""


def find(port: int) -> str:
    """The token that a node of this user published for its admin port, "" if none did."""
    for directory in _own_directories(make=False):
        with contextlib.suppress(OSError):
            return _read(directory / f"{port}.token")
    return ""


def metadata(token: str) -> tuple[tuple[str, str], ...]:
    """The metadata that go with a call: the token."""
    return ((_HEADER, f"Bearer {token}"),) if token else ()


_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]]"


class TokenGuard(grpc.aio.ServerInterceptor):
    """Lets calls with the token pass, and what anybody may ask."""

    def __init__(self, token: str) -> None:
        self._wanted = f"Bearer {token}".encode()

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> "_Handler | None":
        """Finds the handler of a call, or one that refuses it."""
        details = handler_call_details
        if details.method.startswith(_OPEN) or self._is_right(details):
            return await continuation(details)
        return refusal(
            "this port wants the node's token: run the command as the user that runs the node, "
            f"name its data directory with --data, or set FEDQ_TOKEN to what is in {TOKEN_NAME} "
            "there"
        )

    def _is_right(self, details: grpc.HandlerCallDetails) -> bool:
        shown = [value for name, value in details.invocation_metadata or () if name == _HEADER]
        if len(shown) != 1:
            return False
        value = shown[0]
        given = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
        return secrets.compare_digest(given, self._wanted)


class MembersGuard(grpc.aio.ServerInterceptor):
    """Lets pass what members ask each other, on a peers' port that cannot tell who calls."""

    def __init__(self, services: tuple[str, ...], methods: frozenset[str]) -> None:
        """`services`: whose methods all pass; `methods`: further ones, by "/service/method"."""
        self._prefixes = tuple(f"/{service}/" for service in services)
        self._methods = methods

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> "_Handler | None":
        """Finds the handler of a call, or one that refuses it."""
        method = handler_call_details.method
        if method.startswith(self._prefixes) or method in self._methods:
            return await continuation(handler_call_details)
        return refusal(NOT_HERE)


def refusal(sentence: str) -> _Handler:
    """A handler that says no more than this, with UNAUTHENTICATED."""

    async def refuse(_: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, sentence)

    return grpc.unary_unary_rpc_method_handler(refuse)


# --- files ---------------------------------------------------------------------------------------


def _own_directories(*, make: bool) -> Iterator[Path]:
    """Where tokens may be, the best place first; `make`: they need not be there yet."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    places = [SHARED_DIRECTORY / f"fedq-{os.getuid()}"]
    if runtime:
        places.insert(0, Path(runtime) / "fedq")
    for place in places:
        try:
            if make:
                place.mkdir(mode=0o700, exist_ok=True)
            found = place.lstat()
        except OSError:
            continue
        is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
        if is_own and not stat.S_IMODE(found.st_mode) & 0o077:
            yield place


def _write(path: Path, token: str) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    temporary.unlink(missing_ok=True)
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, f"{token}\n".encode())
    finally:
        os.close(file)
    temporary.rename(path)


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_TEXT_BYTES_MAX).decode("ascii", "replace").strip()
