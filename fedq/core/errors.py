"""The three kinds of error, never mixed.

* `Refused`: expected; a value that is returned and becomes a reply.
* `ChannelError` and `ConnectionError`-like violations: a client broke the protocol or asked for
  what cannot be; raised below and caught in exactly one place, after which that channel or
  connection is closed with the reply code of the AMQP 0-9-1 specification.
* A bug or a lost disk is an `AssertionError` or `NodeFailure`: the node stops.
"""

from dataclasses import dataclass

NO_ROUTE = 312
NO_CONSUMERS = 313
CONTENT_TOO_LARGE = 311
CONNECTION_FORCED = 320
INVALID_PATH = 402
ACCESS_REFUSED = 403
NOT_FOUND = 404
RESOURCE_LOCKED = 405
PRECONDITION_FAILED = 406
FRAME_ERROR = 501
SYNTAX_ERROR = 502
COMMAND_INVALID = 503
CHANNEL_ERROR = 504
UNEXPECTED_FRAME = 505
RESOURCE_ERROR = 506
NOT_ALLOWED = 530
NOT_IMPLEMENTED = 540
INTERNAL_ERROR = 541

REPLY_NAMES = {
    CONTENT_TOO_LARGE: "CONTENT_TOO_LARGE",
    NO_ROUTE: "NO_ROUTE",
    NO_CONSUMERS: "NO_CONSUMERS",
    CONNECTION_FORCED: "CONNECTION_FORCED",
    INVALID_PATH: "INVALID_PATH",
    ACCESS_REFUSED: "ACCESS_REFUSED",
    NOT_FOUND: "NOT_FOUND",
    RESOURCE_LOCKED: "RESOURCE_LOCKED",
    PRECONDITION_FAILED: "PRECONDITION_FAILED",
    FRAME_ERROR: "FRAME_ERROR",
    SYNTAX_ERROR: "SYNTAX_ERROR",
    COMMAND_INVALID: "COMMAND_INVALID",
    CHANNEL_ERROR: "CHANNEL_ERROR",
    UNEXPECTED_FRAME: "UNEXPECTED_FRAME",
    RESOURCE_ERROR: "RESOURCE_ERROR",
    NOT_ALLOWED: "NOT_ALLOWED",
    NOT_IMPLEMENTED: "NOT_IMPLEMENTED",
    INTERNAL_ERROR: "INTERNAL_ERROR",
}


@dataclass(frozen=True, slots=True)
class Refused:
    """An expected refusal: an AMQP reply code and a sentence that says what to do."""

    reply_code: int
    text: str


class Violation(Exception):
    """What a client did wrong; `class_id` and `method_id` name the method that did it."""

    def __init__(self, reply_code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(f"{reply_code} {text}")
        self.reply_code = reply_code
        self.text = text
        self.class_id = class_id
        self.method_id = method_id

    @property
    def reply_text(self) -> str:
        """The text as clients see it, in RabbitMQ's form: `NAME - sentence`."""
        return f"{REPLY_NAMES[self.reply_code]} - {self.text}"


class ChannelViolation(Violation):
    """Closes the channel (specification: channel exception)."""


class ConnectionViolation(Violation):
    """Closes the connection (specification: connection exception)."""


class NodeFailure(Exception):
    """The node cannot keep its promises (lost disk, broken invariant): it must fence and stop."""
