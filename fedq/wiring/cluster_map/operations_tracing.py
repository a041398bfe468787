"""The replicated operations on traces and on the firehose, their forms, and the record of a trace.

A part of `fedq.wiring.cluster_map.operations`, which carries them in commands; what they do is in
`fedq.wiring.cluster_map.tracing`. None is proposed before the cluster speaks `versions.TRACING`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from fedq.core.ids import QueueKey
from fedq.wiring.cluster_map.operation_fields import Check, flag, name, text, up_to

#: A trace takes in one message of so many, at most.
SAMPLE_MAX: Final = 1_000_000
#: How the default exchange, which has no name, is named where no name means all.
DEFAULT_EXCHANGE: Final = "amq.default"


@dataclass(frozen=True, slots=True)
class Trace:
    """What a trace takes in, and the stream that it is written to; an empty name means all."""

    vhost: str
    #: `DEFAULT_EXCHANGE` is the one without a name.
    exchange: str
    queue: str
    #: One message in so many; 1: all.
    sample: int
    stream_vhost: str
    stream: str

    @property
    def target(self) -> QueueKey:
        """The stream."""
        return QueueKey(self.stream_vhost, self.stream)


@dataclass(frozen=True, slots=True)
class StartTrace:
    """A trace of this name begins; its stream is there. See `Trace`."""

    name: str
    vhost: str
    exchange: str
    queue: str
    sample: int
    stream_vhost: str
    stream: str


@dataclass(frozen=True, slots=True)
class StopTrace:
    """The trace ends; its stream stays."""

    name: str


@dataclass(frozen=True, slots=True)
class SetFirehose:
    """What happens in the virtual host is published to its exchange for that, or is no more."""

    vhost: str
    on: bool


class TracingChanged(NamedTuple):
    """A trace, or the firehose of a virtual host, began or ended: which table, and whose."""

    table: str
    name: str


TracingOperation: TypeAlias = StartTrace | StopTrace | SetFirehose

#: Name on the wire -> the operation's class and the check of each field.
TRACING_FORMS: Final[dict[str, tuple[Callable[..., TracingOperation], dict[str, Check]]]] = {
    "start_trace": (
        StartTrace,
        {
            "name": name,
            "vhost": text,
            "exchange": text,
            "queue": text,
            "sample": up_to(SAMPLE_MAX),
            "stream_vhost": name,
            "stream": name,
        },
    ),
    "stop_trace": (StopTrace, {"name": text}),
    "set_firehose": (SetFirehose, {"vhost": text, "on": flag}),
}
