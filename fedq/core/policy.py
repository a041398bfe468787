"""What a queue's arguments ask of its fragments, as plain values.

`fedq.wiring.cluster_map.queue_arguments` reads them from a declaration; fragments and nodes obey
them. The meanings are RabbitMQ's; times in milliseconds, sizes in bytes of message bodies.
"""

from typing import Final, NamedTuple

DROP_HEAD: Final = "drop-head"
REJECT_PUBLISH: Final = "reject-publish"
REJECT_PUBLISH_DLX: Final = "reject-publish-dlx"
OVERFLOWS: Final = (DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX)


#: How large a segment of a stream is before the next one begins, if nothing is said.
SEGMENT_BYTES: Final = 500_000_000


class StreamPolicy(NamedTuple):
    """What is kept of a stream (`x-queue-type: stream`); what goes goes by whole segments."""

    #: `x-max-length-bytes`, of all segments together; None: without bound.
    max_bytes: int | None = None
    #: `x-max-age`, of a segment's youngest message; None: for ever.
    max_age_ms: int | None = None
    #: `x-stream-max-segment-size-bytes`.
    segment_bytes: int = SEGMENT_BYTES


class QueuePolicy(NamedTuple):
    """The semantics of one queue beyond first in, first out."""

    #: `x-message-ttl`: how long a message may wait; None: for ever.
    message_ttl_ms: int | None = None
    #: `x-expires`: how long the queue may be unused; None: for ever.
    expires_ms: int | None = None
    #: `x-max-length` and `x-max-length-bytes`, of ready messages.
    max_length: int | None = None
    max_bytes: int | None = None
    #: `x-overflow`: one of OVERFLOWS.
    overflow: str = DROP_HEAD
    #: `x-dead-letter-exchange`; "" is the default exchange, None: what dies is dropped.
    dead_letter_exchange: str | None = None
    #: `x-dead-letter-routing-key`; None: the message keeps its own.
    dead_letter_key: str | None = None
    #: `x-delivery-limit`: how often a message may come back; None: for ever.
    delivery_limit: int | None = None
    #: Deliveries that came back are told to consumers in `x-delivery-count`.
    counts_returns: bool = False
    #: `x-max-priority`: the highest priority; 0: messages have none.
    max_priority: int = 0
    #: `x-single-active-consumer`.
    single_active: bool = False
    #: It is a stream: messages stay when they are read. None: it is not.
    stream: StreamPolicy | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether its length is limited; each fragment has its part of that."""
        return self.max_length is not None or self.max_bytes is not None

    @property
    def one_place(self) -> bool:
        """Whether its semantics are exact only while the queue is in one place (one fragment)."""
        return (
            self.single_active
            or self.max_priority > 0
            or self.is_bounded
            or self.stream is not None
        )


PLAIN: Final = QueuePolicy()

#: Why a message died, as notes in the journal and words in `x-death`.
REJECTED: Final = 1
EXPIRED: Final = 2
TOO_LONG: Final = 3
RETURNED_TOO_OFTEN: Final = 4
#: It could not be dead-lettered, whatever it died of: it stays where it is, out of reach.
QUARANTINED: Final = 5
#: What those hear who wait for dead letters there.
QUARANTINE_REASON: Final = "fedq-quarantine"
DEATHS: Final = {
    REJECTED: "rejected",
    EXPIRED: "expired",
    TOO_LONG: "maxlen",
    RETURNED_TOO_OFTEN: "delivery_limit",
}
