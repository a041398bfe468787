"""What a run should do: the options of `fedq bench`, checked.

In: values from the command line. Out: a `Plan`, or a `BadPlan` that says what is wrong and what to
do. A plan is one of three kinds: *queues* (producers and consumers of named queues), *fan-out*
(subscribers with a queue each on a fanout exchange), *topics* (queues with many wildcard bindings).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import unquote, urlsplit

#: A body begins with a number and a time of 8 bytes each.
BODY_BYTES_MIN: Final = 16
#: A body must fit into one frame of what brokers agree to by default.
BODY_BYTES_MAX: Final = 131_064
CLIENTS_MAX: Final = 1_000_000
PRODUCERS_MAX: Final = 10_000
DEFAULT_URL: Final = "amqp://guest:guest@127.0.0.1:5672"
_DEFAULT_PORT: Final = 5_672
#: Messages on their way when nothing else bounds them, so that no broker has to page.
_IN_FLIGHT: Final = 50_000
_IN_FLIGHT_BYTES: Final = 64 << 20
_IN_FLIGHT_EACH: Final = 20


class BadPlan(Exception):
    """The options make no sense; the text is a sentence for the user."""


class Kind(StrEnum):
    """The shape of a run."""

    QUEUES = "queues"
    FANOUT = "fan-out"
    TOPICS = "topics"


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a broker, and the user to log in as."""

    host: str
    port: int
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"

    @property
    def place(self) -> str:
        """The broker as host:port, for messages."""
        return f"{self.host}:{self.port}"


def parse_url(text: str) -> Target:
    """The target that an `amqp://user:password@host:port/vhost` names; all but the host may lack.

    A missing or empty path is the virtual host `/`.
    """
    parts = urlsplit(text)
    try:
        port = parts.port or _DEFAULT_PORT
    except ValueError as error:
        # Its words may be a part of a password that has a slash in it.
        raise BadPlan(
            f"--url {_without_password(text)}: its port is no number up to 65535 (in a user or "
            "password write %2F for a slash, %40 for an @)"
        ) from error
    if parts.scheme != "amqp" or not parts.hostname:
        raise BadPlan(
            f"--url {_without_password(text)}: write amqp://user:password@host:port/vhost, without "
            "TLS"
        )
    return Target(
        parts.hostname, port,
        unquote(parts.username or "guest"), unquote(parts.password or "guest"),
        unquote(parts.path[1:]) or "/",
    )  # fmt: skip


def _without_password(url: str) -> str:
    """A URL as it may stand in a log: what is before its last @ may be a password."""
    login, at, rest = url.rpartition("@")
    return f"{login.partition('//')[0]}//…@{rest}" if at else url


def parse_sizes(text: str) -> tuple[int, int]:
    """(smallest, largest) body in bytes, from `16` or `16-79`."""
    first, dash, last = text.partition("-")
    if not first.isdigit() or (dash and not last.isdigit()):
        raise BadPlan(f"--size {text}: write a number of bytes, or a range like 16-79")
    return int(first), int(last if dash else first)


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. Times in seconds, rates in messages per second over all producers."""

    targets: tuple[Target, ...] = (Target("127.0.0.1", _DEFAULT_PORT),)
    producers: int = 1
    consumers: int = 1
    queues: int = 1
    size_min: int = BODY_BYTES_MIN
    size_max: int = BODY_BYTES_MIN
    #: None: as fast as the broker takes them.
    rate: float | None = None
    is_persistent: bool = False
    is_durable: bool = False
    #: Each queue belongs to its one consumer's connection.
    is_exclusive: bool = False
    #: Unconfirmed publishes per producer; None: no confirms.
    confirm_window: int | None = None
    #: Unacknowledged deliveries per consumer; None: automatic acknowledgement. 0: no limit.
    prefetch: int | None = None
    #: One acknowledgement for so many deliveries.
    ack_every: int = 1
    subscribers: int = 0
    #: Connections that the subscribers share evenly; 0: one each.
    connections: int = 0
    bindings: int = 0
    bound_queues: int = 1
    idle: int = 0
    #: So many messages in all are stored before anybody consumes, within `seconds`; 0: no filling.
    fill: int = 0
    #: Queues, and what is in them, are left behind.
    is_kept: bool = False
    seconds: float = 10.0
    warm_up_s: float = 2.0
    #: How long nothing may happen before a wait is given up.
    patience_s: float = 30.0
    queue_arguments: Mapping[str, bool | int | str] = field(default_factory=dict)
    consumer_arguments: Mapping[str, bool | int | str] = field(default_factory=dict)
    pids: tuple[int, ...] = ()
    processes: int = 1

    @property
    def kind(self) -> Kind:
        """The kind of run: queues, topics or a fan-out."""
        if self.subscribers:
            return Kind.FANOUT
        return Kind.TOPICS if self.bindings else Kind.QUEUES

    @property
    def queue_count(self) -> int:
        """How many queues are consumed; in a fan-out they belong to the subscribers."""
        return self.bound_queues if self.kind is Kind.TOPICS else self.queues

    @property
    def is_stream(self) -> bool:
        """Whether what is consumed are streams: each of their consumers gets everything."""
        return self.kind is Kind.QUEUES and self.queue_arguments.get("x-queue-type") == "stream"

    @property
    def has_durable_queues(self) -> bool:
        """Whether queues and exchange outlive the broker."""
        return self.is_durable or self.is_persistent

    @property
    def consumer_count(self) -> int:
        """How many consumers of named queues there are; topics have at least one for each."""
        if self.kind is Kind.FANOUT:
            return 0
        if self.kind is Kind.TOPICS:
            return max(self.consumers, self.bound_queues)
        return self.consumers

    @property
    def subscriber_connections(self) -> int:
        """How many connections carry subscribers."""
        return min(self.connections or self.subscribers, self.subscribers)

    @property
    def in_flight_max(self) -> int:
        """Deliveries that the broker may owe before producers wait."""
        by_bytes = _IN_FLIGHT_BYTES // (self.size_max + 128)
        most = max(min(_IN_FLIGHT, by_bytes), _IN_FLIGHT_EACH * max(self.subscribers, 1))
        return max(most, self.fill * max(self.consumers if self.is_stream else 1, 1))

    def fill_of(self, producer: int) -> int:
        """How many of the messages to fill queues with a producer sends."""
        return len(range(producer, self.fill, self.producers))

    @property
    def client_count(self) -> int:
        """How many connections there are in all."""
        return self.producers + self.consumer_count + self.subscriber_connections + self.idle

    def check(self) -> None:
        """Raises `BadPlan` for what cannot be run."""
        for sentence, holds in _RULES:
            if not holds(self):
                raise BadPlan(sentence)


#: What is wrong, and what must hold; the first one that does not is told.
_RULES: Final[tuple[tuple[str, Callable[[Plan], bool]], ...]] = (
    (f"--size: bodies have {BODY_BYTES_MIN} to {BODY_BYTES_MAX} bytes, smallest first",
     lambda plan: BODY_BYTES_MIN <= plan.size_min <= plan.size_max <= BODY_BYTES_MAX),
    (f"--producers: 0 to {PRODUCERS_MAX}",
     lambda plan: 0 <= plan.producers <= PRODUCERS_MAX),
    ("--consumers: 0 or more",
     lambda plan: plan.consumers >= 0),
    ("--queues: 1 or more",
     lambda plan: plan.queues >= 1),
    ("--subscribers and --bindings are two kinds of run: give one of them",
     lambda plan: plan.subscribers == 0 or plan.bindings == 0),
    ("--subscribers acknowledge automatically: leave --prefetch out",
     lambda plan: plan.subscribers == 0 or plan.prefetch is None),
    ("--connections: at most one for each of --subscribers",
     lambda plan: plan.connections == 0 or plan.subscribers >= plan.connections > 0),
    ("--consumers: at least one for each queue, or 0 for none at all",
     lambda plan: plan.kind is not Kind.QUEUES or plan.consumers == 0
     or plan.consumers >= plan.queues),
    ("--exclusive: exactly one consumer for each queue",
     lambda plan: not plan.is_exclusive or plan.consumer_count == plan.queue_count),
    ("--rate: more than 0 messages per second",
     lambda plan: plan.rate is None or plan.rate > 0),
    ("--confirms: a window of 1 or more; leave it out for none",
     lambda plan: plan.confirm_window != 0),
    ("--ack-every: 1 or more",
     lambda plan: plan.ack_every >= 1),
    ("--ack-every: at most --prefetch, or nothing would ever be acknowledged",
     lambda plan: not plan.prefetch or plan.ack_every <= plan.prefetch),
    (f"at most {CLIENTS_MAX} connections",
     lambda plan: 0 <= plan.client_count <= CLIENTS_MAX),
    ("nothing to do: give producers, consumers, subscribers or --idle",
     lambda plan: plan.client_count > 0),
    ("--seconds: more than 0",
     lambda plan: plan.seconds > 0),
    ("--warm-up: 0 or more",
     lambda plan: plan.warm_up_s >= 0),
    ("--patience: more than 0",
     lambda plan: plan.patience_s > 0),
    ("--idle: 0 or more connections",
     lambda plan: plan.idle >= 0),
    ("--subscribers: 0 or more",
     lambda plan: plan.subscribers >= 0),
    ("--bindings: 0 or more",
     lambda plan: plan.bindings >= 0),
    ("--fill: 0 or more messages, and as many as there are producers or none",
     lambda plan: plan.fill == 0 or plan.fill >= plan.producers > 0),
    ("--fill: for queues that are not exclusive, and not with --rate",
     lambda plan: plan.fill == 0
     or (plan.kind is Kind.QUEUES and not plan.is_exclusive and plan.rate is None)),
    ("--processes: 1 to 64",
     lambda plan: 1 <= plan.processes <= 64),
    ("--bound-queues: 1 to --bindings",
     lambda plan: 1 <= plan.bound_queues <= max(plan.bindings, 1)),
)  # fmt: skip
