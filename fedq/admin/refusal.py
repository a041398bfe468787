"""A call that cannot be answered: a gRPC status and a sentence that says what to do.

Raised by anything below the service and turned into the call's status in one place there.
"""

import grpc


class AdminError(Exception):
    """The refusal of a call: `code` is its gRPC status, `text` its sentence."""

    def __init__(
        self, code: grpc.StatusCode, text: str, metadata: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """`metadata`: what a program is to know, by name."""
        super().__init__(text)
        self.code = code
        self.text = text
        self.metadata = metadata


def invalid(text: str) -> AdminError:
    """The refusal of a value that can never be right."""
    return AdminError(grpc.StatusCode.INVALID_ARGUMENT, text)


def not_found(text: str) -> AdminError:
    """The refusal of a call about a thing that does not exist."""
    return AdminError(grpc.StatusCode.NOT_FOUND, text)


def unauthenticated(text: str) -> AdminError:
    """The refusal of a caller who does not say who it is, or cannot prove it."""
    return AdminError(grpc.StatusCode.UNAUTHENTICATED, text)


def denied(text: str) -> AdminError:
    """The refusal of what the caller has no permission for."""
    return AdminError(grpc.StatusCode.PERMISSION_DENIED, text)


def too_often(text: str) -> AdminError:
    """The refusal of what may be asked only a few times a second."""
    return AdminError(grpc.StatusCode.RESOURCE_EXHAUSTED, text)


def unavailable(text: str) -> AdminError:
    """The refusal of what the node cannot know at present; another node, or a later call, may."""
    return AdminError(grpc.StatusCode.UNAVAILABLE, text)
