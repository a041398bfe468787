"""Refusals of HTTP requests, in the form of RabbitMQ's management API.

`{"error": …, "reason": …}` with a status. What the admin service refuses with a gRPC status becomes
one here, and nowhere else.
"""

from typing import Final

import grpc

from fedq.admin.refusal import AdminError

_STATUSES: Final = {
    grpc.StatusCode.INVALID_ARGUMENT: (400, "bad_request"),
    grpc.StatusCode.NOT_FOUND: (404, "Object Not Found"),
    grpc.StatusCode.ALREADY_EXISTS: (400, "bad_request"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (503, "service_unavailable"),
    grpc.StatusCode.UNAUTHENTICATED: (401, "not_authorized"),
    grpc.StatusCode.PERMISSION_DENIED: (401, "not_authorised"),
}
_OTHERS: Final = (503, "service_unavailable")


class HttpRefusal(Exception):
    """A request that is not carried out: its status, and what the answer says."""

    def __init__(
        self, status: int, error: str, reason: str, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers


def bad_request(reason: str) -> HttpRefusal:
    """The refusal of what can never be right."""
    return HttpRefusal(400, "bad_request", reason)


def not_there() -> HttpRefusal:
    """The refusal of a path that leads to nothing, in RabbitMQ's words."""
    return HttpRefusal(404, "Object Not Found", "Not Found")


def not_allowed(reason: str) -> HttpRefusal:
    """The refusal of what the user has no right to; RabbitMQ says 401 there, too."""
    return HttpRefusal(401, "not_authorised", reason)


def unavailable(reason: str) -> HttpRefusal:
    """The refusal of what cannot be done at present."""
    return HttpRefusal(503, "service_unavailable", reason)


def refusal_of(error: AdminError) -> HttpRefusal:
    """The refusal that says what an answer of the admin service said."""
    status, name = _STATUSES.get(error.code, _OTHERS)
    return HttpRefusal(status, name, error.text)
