"""A call that cannot be answered: a gRPC status and a sentence that says what to do.

Raised by anything below the service and turned into the call's status in one place there.
"""

import grpc


class AdminError(Exception):
    """`code` is the gRPC status of the call, `text` its sentence."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def invalid(text: str) -> AdminError:
    """A value that can never be right."""
    return AdminError(grpc.StatusCode.INVALID_ARGUMENT, text)


def not_found(text: str) -> AdminError:
    """A thing that does not exist."""
    return AdminError(grpc.StatusCode.NOT_FOUND, text)


def too_often(text: str) -> AdminError:
    """What may be asked a few times a second was asked more often."""
    return AdminError(grpc.StatusCode.RESOURCE_EXHAUSTED, text)


def unavailable(text: str) -> AdminError:
    """The node asked cannot know at present; another one, or a later call, may."""
    return AdminError(grpc.StatusCode.UNAVAILABLE, text)
