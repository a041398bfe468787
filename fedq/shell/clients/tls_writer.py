"""The way out to a client that speaks TLS: its transport gets as much as it can write, no more.

A TLS transport encrypts at once whatever it is given, and keeps that until the client reads: of one
long message for many clients that do not read, a copy for each. Here what is long waits as it is,
shared by all who get it, and is handed over in pieces while the transport has room.

In: parts to write, and the transport's word that it has enough, or room again. Out: the same bytes
in the same order. Invariants: the transport has been given `TLS_PIECE_BYTES_MAX` at most since it
had room last; what waits is not copied; a transport that is closed before all is written closes
when it is.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from fedq.amqp.content import Body
from fedq.core.limits import TLS_PIECE_BYTES_MAX, TLS_UNREAD_BYTES_MAX


class TlsWriter(asyncio.Transport):
    """Stands for a client's TLS transport, and feeds it piece by piece."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport: Final = transport
        self._parts: deque[Body] = deque()
        self._bytes = 0
        #: The transport has enough.
        self._is_paused = False
        self._closes = False
        transport.set_write_buffer_limits(high=TLS_UNREAD_BYTES_MAX)

    # --- what is written ---

    def write(self, data: Any) -> None:
        """Writes a part, or keeps it until there is room."""
        if self._parts or self._is_paused or len(data) > TLS_PIECE_BYTES_MAX:
            self.writelines([data])
        else:
            self._transport.write(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Writes many parts, or keeps them until there is room."""
        for part in list_of_data:
            self._parts.append(part)
            self._bytes += len(part)
        self._hand_over()

    def get_write_buffer_size(self) -> int:
        """The bytes that are not written yet."""
        return self._bytes + self._transport.get_write_buffer_size()

    def _hand_over(self) -> None:
        while self._parts and not self._is_paused:
            self._transport.writelines(self._next_piece())
        if self._closes and not self._parts:
            self._transport.close()

    def _next_piece(self) -> list[Body]:
        """The next piece: as many parts as make one, or the beginning of a longer part."""
        piece: list[Body] = []
        room = TLS_PIECE_BYTES_MAX
        while self._parts and room > 0:
            part = self._parts.popleft()
            if len(part) > room:
                view = memoryview(part)
                self._parts.appendleft(view[room:])
                part = view[:room]
            piece.append(part)
            room -= len(part)
            self._bytes -= len(part)
        return piece

    # --- what the transport says ---

    def pause(self) -> None:
        """Pauses: the transport has enough."""
        self._is_paused = True

    def resume(self) -> bool:
        """Resumes; whether all that waited has been handed over, and there is room still."""
        self._is_paused = False
        self._hand_over()
        return not self._is_paused

    # --- what is asked of it ---

    def close(self) -> None:
        """Closes when all is written."""
        self._closes = True
        if not self._parts:
            self._transport.close()

    def abort(self) -> None:
        """Closes at once."""
        self.forget()
        self._transport.abort()

    def forget(self) -> None:
        """Forgets all that waits."""
        self._parts.clear()
        self._bytes = 0

    def is_closing(self) -> bool:
        """Whether nothing may be written any more."""
        return self._closes or self._transport.is_closing()

    def can_write_eof(self) -> bool:
        """Whether the connection can be half closed: with TLS it cannot."""
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the transport knows of the connection."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Stops reading the client."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Reads the client again."""
        self._transport.resume_reading()
