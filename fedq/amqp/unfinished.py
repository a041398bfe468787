"""Contents of one connection that have not come to their ends: what they take, and where they go.

Inputs: contents that begin, grow, and end, as the channels of the connection report them. Outputs:
the bytes held, a violation when these are too many, and a `Begun` for each content that one read
has left unfinished, so that the node can refuse it before its body has come.
"""

from fedq.amqp.commands import Begun, Command
from fedq.amqp.spec import BASIC, BASIC_PUBLISH
from fedq.core.errors import (
    CONTENT_TOO_LARGE,
    RESOURCE_ERROR,
    ChannelViolation,
    ConnectionViolation,
)


class Unfinished:
    """The unfinished contents of a connection; one object for all of its channels."""

    __slots__ = ("_begun", "bytes_held", "bytes_max", "count")

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max`: of one body, and of all bodies of the connection together."""
        self.bytes_max = bytes_max
        self.bytes_held = 0
        #: How many there are.
        self.count = 0
        #: Those that began in this read: their channels, and routes.
        self._begun: dict[int, bytes] | None = None

    def begin(self, channel: int, route: bytes) -> None:
        """Notes that the method frame of a publish came without its content."""
        self.count += 1
        if self._begun is None:
            self._begun = {}
        self._begun[channel] = route

    def announce(self, size: int) -> None:
        """Notes that a header promises a body; 311, which closes the channel, if too large."""
        if size > self.bytes_max:
            text = f"a body of {size} bytes: at most {self.bytes_max}; send it in pieces"
            raise ChannelViolation(CONTENT_TOO_LARGE, text, BASIC, BASIC_PUBLISH)

    def grow(self, size: int) -> None:
        """Notes more bytes of a body; 506 if the connection's bodies are too much together."""
        self.bytes_held += size
        if self.bytes_held > self.bytes_max:
            text = (
                f"more than {self.bytes_max} bytes of messages that are not complete: send fewer "
                "large messages at a time on one connection"
            )
            raise ConnectionViolation(RESOURCE_ERROR, text, BASIC, BASIC_PUBLISH)

    def end(self, channel: int, size: int) -> None:
        """Notes that a content, of which so many bytes were held, is complete or given up."""
        self.count -= 1
        self.bytes_held -= size
        if self._begun:
            self._begun.pop(channel, None)

    def tell(self, commands: list[Command]) -> None:
        """Adds, at the end of a read, the commands for contents that were left unfinished."""
        if self._begun:
            commands += [Begun(channel, route) for channel, route in self._begun.items()]
            self._begun = None
