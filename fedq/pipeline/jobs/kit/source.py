"""The stream that a job reads: its options, and whether it is there, before Spark is begun."""

from collections.abc import Mapping
from dataclasses import dataclass

from fedq.pipeline.options import read_options
from fedq.pipeline.planning import count
from fedq.pipeline.stream_client import Stream, StreamClient


@dataclass(frozen=True, slots=True)
class Source:
    """A stream, and how it is read."""

    stream: str
    vhost: str
    #: As Spark hands them to the data source.
    options: Mapping[str, str]


def source_of(options: Mapping[str, str]) -> Source:
    """The source of some options; raises OptionError."""
    read = read_options({"startingOffsets": "earliest", **options}, is_streaming=True)
    return Source(read.stream, read.vhost, dict(options))


def rows_behind(source: Source, ends: Mapping[int, int], retry_s: float) -> int:
    """About how many rows come after the ends; PipelineError if the stream cannot be read."""
    read = read_options(source.options, is_streaming=True)
    stream = Stream(source.vhost, source.stream, retry_s=retry_s)
    with StreamClient(read.urls, read.tls, stream) as client:
        return sum(
            count(each.ranges, max(each.first, ends.get(each.number, 0)), each.next)
            for each in client.describe()
        )
