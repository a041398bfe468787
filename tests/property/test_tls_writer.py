"""What a TLS client gets, against one string of all that was written for it."""

import asyncio
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.limits import TLS_PIECE_BYTES_MAX
from fedq.shell.clients.tls_writer import TlsWriter


class Slow(asyncio.Transport):
    """A transport that says at once that it has enough, whenever it has so many bytes."""

    def __init__(self, mark: int) -> None:
        super().__init__()
        self.mark = mark
        self.came = bytearray()
        self.waiting = 0
        self.most = 0
        self.is_closed = False
        self.writer: TlsWriter

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Its mark is its own."""

    def write(self, data: Any) -> None:
        assert not self.is_closed
        self.came += data
        self.waiting += len(data)
        self.most = max(self.most, self.waiting)
        if self.waiting >= self.mark:
            self.writer.pause()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def read_all(self) -> bool:
        """The client reads all that there is."""
        self.waiting = 0
        return self.writer.resume()

    def close(self) -> None:
        self.is_closed = True


sizes = st.integers(1, 3 * TLS_PIECE_BYTES_MAX)
steps = st.lists(st.lists(sizes, min_size=1, max_size=4) | sizes | st.just("read"), max_size=20)


@given(steps, st.integers(1, 2 * TLS_PIECE_BYTES_MAX))
def test_all_is_written_in_order_and_little_at_a_time(
    script: list[list[int] | int | str], mark: int
) -> None:
    transport = Slow(mark)
    writer = transport.writer = TlsWriter(transport)
    wanted = bytearray()

    def some(size: int) -> memoryview:
        data = bytes([len(wanted) % 251]) * size
        wanted.extend(data)
        return memoryview(data)

    for step in script:
        if isinstance(step, list):
            writer.writelines([some(size) for size in step])
        elif isinstance(step, int):
            writer.write(bytes(some(step)))
        else:
            has_room = transport.read_all()
            assert has_room == (transport.waiting < mark)
        assert writer.get_write_buffer_size() == transport.waiting + len(wanted) - len(
            transport.came
        )
        assert transport.most < mark + TLS_PIECE_BYTES_MAX
    writer.close()
    assert writer.is_closing()
    assert transport.is_closed == (transport.came == wanted)
    while not transport.is_closed:
        transport.read_all()
    assert transport.came == wanted


def test_nothing_waits_for_who_is_gone() -> None:
    transport = Slow(1)
    writer = transport.writer = TlsWriter(transport)
    writer.writelines([bytes(10), bytes(10 * TLS_PIECE_BYTES_MAX)])
    writer.forget()
    assert writer.get_write_buffer_size() == transport.waiting
