"""One work: what the generator is told, on how many nodes, what is read off, what is aimed at."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from loadtests.macro import figures
from loadtests.macro.figures import Aim, Figure

WINDOW: Final = "200"

#: The generator of nearly all works.
BENCH: Final = ("-m", "fedq", "bench", "--json", "--quiet")


class Group(Enum):
    """Works that may share a broker; brokers alternate from group to group."""

    QUEUES = "queues"
    LATENCY = "latency"
    TOPICS = "topics"
    FANOUT = "fanout"
    MANY = "many"
    STREAMS = "streams"
    DEEP = "deep"
    BESIDE = "beside"
    JOIN = "join"
    CLUSTER = "cluster"
    PACED = "paced"
    DECLARE = "declare"

    @property
    def nodes(self) -> int:
        """How many nodes the broker has."""
        of_three = (Group.CLUSTER, Group.JOIN, Group.PACED, Group.DECLARE)
        return 3 if self in of_three else 1

    @property
    def is_scaled(self) -> bool:
        """Whether its works fill queues of the size that the command line gives."""
        return self in (Group.DEEP, Group.JOIN)


class Scene(Enum):
    """What is done around a load, and measured, too (`loadtests.macro.scenes`)."""

    RESTART = "restart"
    JOIN = "join"


class Row(NamedTuple):
    """A figure of a work, and what is aimed at."""

    figure: Figure
    aim: Aim | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """One load."""

    name: str
    about: str
    group: Group
    #: For the generator.
    options: tuple[str, ...]
    rows: tuple[Row, ...]
    #: Only for the broker of this name: arguments of the queue.
    fedq: tuple[str, ...] = ()
    rabbitmq: tuple[str, ...] = ()
    #: To how many of the broker's nodes the clients are spread.
    addresses: int = 1
    needs_fresh_broker: bool = False
    is_in_quick: bool = True
    #: Than usual: few messages a second need more seconds.
    times_longer: int = 1
    #: Measured so often in each round, the brokers in turn, as all works of its group.
    times_oftener: int = 1
    #: Under load before measuring. After ten thousand set-ups a broker has something to clear up.
    warm_up_s: float = 1.0
    #: How long connecting, declaring and ending may take beside the measured time.
    patience_s: float = 40.0
    #: Only when it is named: it takes long, or needs much disk.
    is_on_request: bool = False
    #: fedq's bound of memory; None: its default.
    memory_bytes: int | None = None
    #: What is measured has so long, whatever the usual seconds; None: the usual ones.
    deadline_s: float | None = None
    scene: Scene | None = None
    #: Options of another load that goes on meanwhile, at a low priority.
    beside: tuple[str, ...] = ()
    #: A queue of its own keeps one persistent message meanwhile.
    has_old_message: bool = False
    #: RabbitMQ has nothing like it.
    is_own: bool = False
    #: What generates the load, as arguments of Python.
    generator: tuple[str, ...] = BENCH


TRANSIENT: Final = ("--auto-ack",)
RELIABLE: Final = ("--persistent", "--confirms", WINDOW, "--prefetch", WINDOW)


def replicas(count: int) -> tuple[str, ...]:
    """The argument by which fedq makes so many copies."""
    return ("--queue-argument", f"x-fedq-replicas={count}")


#: RabbitMQ's way of having copies; one on each of three nodes.
QUORUM: Final = ("--queue-argument", "x-queue-type=quorum")
SPEED: Final = (Row(figures.PER_SECOND),)
