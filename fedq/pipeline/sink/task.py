"""A task that publishes a partition's rows, each once (docs/adr/0081).

Input: rows, what the write was asked for, and who it is: the job, the batch, the partition. Output:
how many rows, when all are confirmed; or `PipelineError`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final, TypeAlias

from fedq.core.limits import PUBLISHER_SERIES_END
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.places import NodeUrl
from fedq.pipeline.sink.connection import Connection
from fedq.pipeline.sink.encoding import Encoder
from fedq.pipeline.sink.options import WriteOptions
from fedq.pipeline.sink.ordering import Rows, Sorter, pieces_of
from fedq.pipeline.sink.publisher import Publisher

#: Bytes that are sent as one block, about.
BLOCK_BYTES: Final = 256 * 1024
#: Rows of a batch in one partition, and batches: together they are a number of 63 bits.
_BATCH_SHIFT: Final = 32
_BATCHES_MAX: Final = 1 << 30
_ROUTES_MAX: Final = 65_536

Routes: TypeAlias = dict[tuple[str, str], None]
#: Routes that this process has published to, by where; an executor's Python serves many tasks.
_known: dict[tuple[tuple[NodeUrl, ...], str], Routes] = {}


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of which work a task is: the same for all its attempts."""

    job: str
    batch: int
    partition: int
    #: Of a streaming query, whose batches follow each other: of none but the last are there
    #: repeats.
    is_streaming: bool = False

    @property
    def steady_name(self) -> str:
        """The publisher's name where repeats have the same rows in the same order."""
        return f"{self.job}/{self.partition}"

    def name_of(self, digest: str) -> str:
        """The publisher's name for rows with this hash.

        Those of a streaming query are a series, of which queues remember the last few.
        """
        if self.is_streaming:
            return f"{self.job}/{self.partition}{PUBLISHER_SERIES_END}{self.batch}/{digest}"
        return f"{self.job}/{self.batch}/{self.partition}/{digest}"

    @property
    def steady_sequence(self) -> int:
        """The number of the first row under the steady name; raises PipelineError."""
        if self.batch >= _BATCHES_MAX:
            raise PipelineError(
                f"batch {self.batch} of the query: with rowOrder=deterministic numbers end at "
                f"{_BATCHES_MAX}; begin a new checkpoint"
            )
        return (self.batch << _BATCH_SHIFT) + 1


def publish_rows(rows: Iterable[Rows], options: WriteOptions, part: Part) -> int:
    """Publishes a partition; how many rows it had, when all are confirmed."""
    with closing(Publisher(openers_of(options), options.retry_s)) as publisher:
        if not options.is_once:
            return _Sending(publisher, options, "").run(_cut(rows), 1)
        if options.is_ordered:
            sending = _Sending(publisher, options, part.steady_name)
            return sending.run(_cut(rows), part.steady_sequence)
        with Sorter() as sorter:
            for each in rows:
                sorter.add(each)
            sending = _Sending(publisher, options, part.name_of(sorter.digest()))
            return sending.run(sorter.rows(), 1)


def openers_of(options: WriteOptions) -> list[Callable[[], Connection]]:
    """For each url what opens a connection there."""
    return [_opener(url, options) for url in options.urls]


def _opener(url: NodeUrl, options: WriteOptions) -> Callable[[], Connection]:
    return lambda: Connection(url, options.tls, options.vhost)


def _cut(rows: Iterable[Rows]) -> Iterator[Rows]:
    for each in rows:
        yield from pieces_of(each)


class _Sending:
    """Rows on their way to a publisher, in blocks."""

    def __init__(self, publisher: Publisher, options: WriteOptions, name: str) -> None:
        self._publisher = publisher
        self._is_mandatory = options.is_mandatory
        self._name = name
        self._routes = _known.setdefault((options.urls, options.vhost), {})
        self._pieces: list[bytes] = []
        self._size = 0
        self._count = 0

    def run(self, rows: Iterable[Rows], first: int) -> int:
        """Publishes rows, numbered from `first` on; how many they were."""
        try:
            return self._run(rows, first)
        except PipelineError:
            # Perhaps a route that was known leads nowhere now: all of them are tried again.
            self._routes.clear()
            raise

    def _run(self, rows: Iterable[Rows], first: int) -> int:
        encoder: Encoder | None = None
        sequence = first
        for front, bodies in rows:
            if encoder is None:
                # An empty partition needs no connection.
                encoder = Encoder(
                    self._publisher.frame_bytes_max, self._name, is_mandatory=self._is_mandatory
                )
            if sequence + len(bodies) - first > 1 << _BATCH_SHIFT:
                raise PipelineError("a partition has more rows than there are numbers: divide it")
            if self._is_mandatory and front.route not in self._routes:
                # Nothing may be behind a row that no queue takes (docs/adr/0081).
                self._add(encoder.encode(front, bodies[:1], sequence), 1)
                self._flush()
                self._publisher.finish()
                self._keep(front.route)
                sequence, bodies = sequence + 1, bodies[1:]
            if bodies:
                self._add(encoder.encode(front, bodies, sequence), len(bodies))
                sequence += len(bodies)
            if self._size >= BLOCK_BYTES:
                self._flush()
        self._flush()
        if encoder is not None:
            self._publisher.finish()
        return sequence - first

    def _add(self, data: bytes, count: int) -> None:
        self._pieces.append(data)
        self._size += len(data)
        self._count += count

    def _flush(self) -> None:
        if self._count:
            self._publisher.publish(b"".join(self._pieces), self._count)
        self._pieces, self._size, self._count = [], 0, 0

    def _keep(self, route: tuple[str, str]) -> None:
        if len(self._routes) >= _ROUTES_MAX:
            self._routes.clear()
        self._routes[route] = None
