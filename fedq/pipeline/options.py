"""The options of a read, in the words of Spark's Kafka source (docs/adr/0077).

Input: names (in any case) and texts, as Spark hands them over. Output: `ReadOptions`, or
`OptionError`. An option that is not known, or means nothing where it stands, is refused: ignored,
it would be a wrong result.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from fedq.pipeline.failure import OptionError
from fedq.pipeline.given import NUMBER_MAX, Given, flag, number, positive, seconds
from fedq.pipeline.places import NodeUrl, TlsPaths, check_tls, urls_of

_EARLIEST_NUMBER: Final = -2
_LATEST_NUMBER: Final = -1


class Edge(Enum):
    """An end of a stream."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class At:
    """An offset: the first one that is read, or the first one that is not."""

    offset: int


@dataclass(frozen=True, slots=True)
class Since:
    """The first offset whose message came then or later, in milliseconds since 1970."""

    unix_ms: int


Bound: TypeAlias = Edge | At | Since


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a read begins, or ends, in each fragment."""

    default: Bound
    #: By number of the fragment.
    fragments: Mapping[int, Bound]

    def of(self, fragment: int) -> Bound:
        """The bound in one of them."""
        return self.fragments.get(fragment, self.default)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a read was asked for."""

    urls: tuple[NodeUrl, ...]
    tls: TlsPaths
    vhost: str
    stream: str
    start: Bounds
    end: Bounds
    #: Partitions at least, and rows of one micro-batch at most; 0: nothing was said.
    min_partitions: int
    rows_per_trigger: int
    fails_on_loss: bool
    #: Whether nodes are told the filters of a query, as far as they understand them.
    pushes_filters: bool
    #: 0: the broker's default.
    chunk_bytes: int
    retry_s: float


_START: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_END: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_KNOWN: Final = (
    "url", "vhost", "stream", *_START, *_END, "minPartitions", "maxOffsetsPerTrigger",
    "failOnDataLoss", "pushFilters", "chunkBytes", "retryTimeout", "tls.authority",
    "tls.certificate", "tls.key",
)  # fmt: skip


def read_options(options: Mapping[str, str], *, is_streaming: bool) -> ReadOptions:
    """The options of a batch, or of a streaming query; raises OptionError."""
    given = Given(options, _KNOWN)
    urls = urls_of(given.text("url", ""))
    tls = TlsPaths(*(given.text(f"tls.{each}", "") for each in ("authority", "certificate", "key")))
    check_tls(urls, tls)
    stream = given.text("stream", "")
    if not stream:
        raise OptionError("stream: say which stream is to be read")
    if is_streaming:
        wrong = [name for name in _END if given.has(name)]
        if wrong:
            raise OptionError(f"{wrong[0]}: a streaming query has no end")
        if given.parse("pushFilters", False, flag):
            raise OptionError("pushFilters: Spark does not tell filters of a streaming query")
    elif given.has("maxOffsetsPerTrigger"):
        raise OptionError("maxOffsetsPerTrigger: a batch has no triggers")
    start_default = Edge.LATEST if is_streaming else Edge.EARLIEST
    start = _bounds(given, _START, start_default, Edge.EARLIEST)
    end = _bounds(given, _END, Edge.LATEST, Edge.LATEST)
    if not is_streaming:
        _refuse_edge(start, Edge.LATEST, "startingOffsets: a batch that begins at the latest")
        _refuse_edge(end, Edge.EARLIEST, "endingOffsets: a batch that ends at the earliest")
    return ReadOptions(
        urls=urls,
        tls=tls,
        vhost=given.text("vhost", "/"),
        stream=stream,
        start=start,
        end=end,
        min_partitions=given.parse("minPartitions", 0, positive),
        rows_per_trigger=given.parse("maxOffsetsPerTrigger", 0, positive),
        fails_on_loss=given.parse("failOnDataLoss", True, flag),
        pushes_filters=given.parse("pushFilters", False, flag),
        chunk_bytes=given.parse("chunkBytes", 0, chunk_bytes),
        retry_s=given.parse("retryTimeout", 60.0, seconds),
    )


def _bounds(given: Given, names: tuple[str, ...], default: Edge, unnamed: Edge) -> Bounds:
    """Where the read begins or ends; `unnamed`: of fragments that JSON does not name."""
    said = [name for name in names if given.has(name)]
    if len(said) > 1:
        raise OptionError(f"{said[0]} and {said[1]} say the same thing: give one of them")
    if not said:
        return Bounds(default, {})
    [name] = said
    time_name, times_name, _ = names
    if name == time_name:
        return Bounds(Since(given.parse(name, 0, number)), {})
    text = given.text(name, "").strip()
    if name != times_name and text.lower() in (Edge.EARLIEST.value, Edge.LATEST.value):
        return Bounds(Edge(text.lower()), {})
    return Bounds(unnamed, _by_fragment(name, text, are_times=name == times_name))


def _by_fragment(name: str, text: str, *, are_times: bool) -> dict[int, Bound]:
    what = "times" if are_times else "offsets"
    also = "" if are_times else "earliest, latest, or "
    refused = OptionError(f'{name}: {also}JSON with {what} by fragment: {{"0": 23, "1": 42}}')
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise refused from None
    if not isinstance(found, dict) or not found:
        raise refused
    bounds: dict[int, Bound] = {}
    for key, value in found.items():
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not key.isascii() or not key.isdecimal() or not is_number or value > NUMBER_MAX:
            raise refused
        if are_times and value >= 0:
            bounds[int(key)] = Since(value)
        elif not are_times and value >= _EARLIEST_NUMBER:
            edges = {_EARLIEST_NUMBER: Edge.EARLIEST, _LATEST_NUMBER: Edge.LATEST}
            bounds[int(key)] = edges.get(value) or At(value)
        else:
            raise refused
    return bounds


def _refuse_edge(bounds: Bounds, edge: Edge, what: str) -> None:
    if edge in (bounds.default, *bounds.fragments.values()):
        raise OptionError(f"{what} has no rows")


def chunk_bytes(name: str, text: str) -> int:
    """What one answer of a node is to have, in bytes."""
    size = number(name, text)
    if not 64 * 1024 <= size <= 2 * 1024 * 1024:
        raise OptionError(f"{name}: 65536 to 2097152 bytes")
    return size
