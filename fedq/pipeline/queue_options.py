"""The options of a query that reads a queue (docs/adr/0107).

Input: names (in any case) and texts, as Spark hands them over. Output: `QueueOptions`, or
`OptionError`, as in `fedq.pipeline.options`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fedq.core.limits import NAME_BYTES_MAX, RESERVED_AT_ONCE_MAX
from fedq.pipeline.failure import OptionError
from fedq.pipeline.given import Given, positive, seconds
from fedq.pipeline.options import chunk_bytes
from fedq.pipeline.places import NodeUrl, TlsPaths, check_tls, urls_of

_KNOWN: Final = (
    "url", "vhost", "queue", "readerName", "maxMessagesPerTrigger", "chunkBytes", "retryTimeout",
    "tls.authority", "tls.certificate", "tls.key",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """What a query was asked for."""

    urls: tuple[NodeUrl, ...]
    tls: TlsPaths
    vhost: str
    queue: str
    reader: str
    #: Rows of one micro-batch at most.
    rows_per_trigger: int
    #: 0: the broker's default.
    chunk_bytes: int
    retry_s: float


def names_a_queue(options: Mapping[str, str]) -> bool:
    """Whether a queue is to be read, not a stream; raises OptionError if both are named."""
    names = {name.lower() for name in options}
    if {"queue", "stream"} <= names:
        raise OptionError("queue and stream: name one of them")
    return "queue" in names


def read_queue_options(options: Mapping[str, str], *, is_streaming: bool) -> QueueOptions:
    """The options of a query; raises OptionError."""
    if not is_streaming:
        raise OptionError(
            "queue: a batch read has no commit, with which messages leave a queue; use readStream "
            "with trigger(availableNow=True)"
        )
    given = Given(options, _KNOWN)
    urls = urls_of(given.text("url", ""))
    tls = TlsPaths(*(given.text(f"tls.{each}", "") for each in ("authority", "certificate", "key")))
    check_tls(urls, tls)
    queue, reader = given.text("queue", ""), given.text("readerName", "")
    if not queue:
        raise OptionError("queue: say which queue is to be read")
    if not reader:
        raise OptionError(
            "readerName: name the reader; what it has read and not committed stays reserved for it"
        )
    if len(reader.encode()) > NAME_BYTES_MAX:
        raise OptionError(f"readerName: at most {NAME_BYTES_MAX} bytes")
    return QueueOptions(
        urls=urls,
        tls=tls,
        vhost=given.text("vhost", "/"),
        queue=queue,
        reader=reader,
        rows_per_trigger=given.parse("maxMessagesPerTrigger", RESERVED_AT_ONCE_MAX, positive),
        chunk_bytes=given.parse("chunkBytes", 0, chunk_bytes),
        retry_s=given.parse("retryTimeout", 60.0, seconds),
    )
