"""Asks a node's admin service one thing, and turns what goes wrong into a sentence.

In: an endpoint, a call. Out: the reply, or a `CommandError`: exit code 3 when the node was not
reached, 2 when it calls the question wrong, 1 when it refused.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar, cast

import grpc

from fedq.admin.bounds import ADMIN_MESSAGE_BYTES_MAX, QUEUES_PER_PAGE_MAX
from fedq.admin.calls import REFUSAL_METADATA
from fedq.cli.asking.endpoint import Endpoint
from fedq.cli.terminal.failure import FAILED, UNREACHABLE, USAGE, CommandError
from fedq.shell.config import admin_token
from fedq.shell.pb import admin_pb2_grpc

Reply = TypeVar("Reply")


class ListRequest(Protocol):
    """Asks for a list."""

    page_size: int
    page_token: str


class ListReply(Protocol):
    """A page of a list."""

    next_page_token: str


Page = TypeVar("Page", bound=ListReply)

_OPTIONS = [
    ("grpc.max_receive_message_length", ADMIN_MESSAGE_BYTES_MAX),
    # Nodes are asked directly, whatever proxy the environment names.
    ("grpc.enable_http_proxy", 0),
]
_HINT = "is it running, and is --node (or FEDQ_NODE) its admin address?"


class Asker:
    """An open connection to one admin service."""

    __slots__ = ("_endpoint", "_metadata", "stub")

    def __init__(self, endpoint: Endpoint, channel: grpc.Channel) -> None:
        self._endpoint = endpoint
        self._metadata = admin_token.metadata(endpoint.token())
        self.stub = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]

    def ask(self, call: Callable[..., Reply], request: object) -> Reply:
        """The reply of `call`, a method of `stub`."""
        try:
            return call(request, timeout=self._endpoint.timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise _explained(self._endpoint, error) from error

    def pages(self, call: Callable[..., Page], request: ListRequest) -> Iterator[Page]:
        """The replies of `call` to `request`, page by page; this is how each is asked for."""
        request.page_size = request.page_size or QUEUES_PER_PAGE_MAX
        while True:
            page = self.ask(call, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


@contextmanager
def asking(endpoint: Endpoint) -> Iterator[Asker]:
    """Connects for the time of the block."""
    credentials = endpoint.credentials()
    endpoint = _reached(endpoint)
    if credentials is None:
        channel = grpc.insecure_channel(endpoint.address, _OPTIONS)
    else:
        channel = grpc.secure_channel(endpoint.address, credentials, _OPTIONS)
    with channel:
        yield Asker(endpoint, channel)


def _reached(endpoint: Endpoint) -> Endpoint:
    """The endpoint with the first address where somebody listens.

    Finds out with the system's own words why one cannot be reached, before gRPC.
    """
    failures: list[str] = []
    for address in (endpoint.address, *endpoint.others):
        one = replace(endpoint, address=address)
        try:
            socket.create_connection(one.host_and_port, one.timeout_s).close()
        except OSError as error:
            failures.append(f"{address} ({error.strerror or error})")
        else:
            return one
    raise CommandError(f"no node reached at {', '.join(failures)}; {_HINT}", UNREACHABLE)


def _explained(endpoint: Endpoint, error: grpc.RpcError) -> CommandError:
    # The types do not say that a failed call's error is that call, too.
    rpc = cast(grpc.Call, error)
    code, details = rpc.code(), rpc.details() or ""
    if any(key == REFUSAL_METADATA[0][0] for key, _ in rpc.trailing_metadata() or ()):
        return CommandError(details, USAGE if code is grpc.StatusCode.INVALID_ARGUMENT else FAILED)
    match code:
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return CommandError(
                f"{endpoint.address} did not answer within {endpoint.timeout_s:g} s; "
                "ask another node, or wait longer with --timeout",
                UNREACHABLE,
            )
        case grpc.StatusCode.UNAVAILABLE:
            return CommandError(
                f"{endpoint.address} broke the connection; {_tls_hint(endpoint)} ({details})",
                UNREACHABLE,
            )
        case grpc.StatusCode.UNAUTHENTICATED:
            return CommandError(f"{endpoint.address} refused: {details}", USAGE)
        case grpc.StatusCode.UNIMPLEMENTED:
            return CommandError(
                f"{endpoint.address} does not know this question; it is no admin address, or an "
                "older fedq",
            )
        case _:
            return CommandError(f"{endpoint.address} failed to answer: {code.name}: {details}")


def _tls_hint(endpoint: Endpoint) -> str:
    """Why a node that listens may break connections."""
    if endpoint.tls is None:
        return "it may want TLS: give --ca, --cert and --key"
    if endpoint.tls.certificate is None:
        return "it may want a certificate: give --cert and --key"
    return "check that --ca, --cert and --key are of its cluster"
