"""What a run with queue policies is made of, drawn from the seed by dice of its own.

Input: a seed and the plan that its other dice made. Output: queues with policies (time to live,
length, dead letters, delivery limits, priorities, a single active consumer), whoever publishes to
them and consumes from them, transactions on one queue, and tenants of queues that expire.

Seeds without policies keep the history that they had before there were any.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from fedq.amqp.values import TableValue
from fedq.core.seeds import Rng, derive
from tests.sim.world import MS

#: How many of the seeds are about policies.
SHARE = 0.4
#: A time to live that no run outlives: nothing may expire by it.
FOR_EVER_MS = 3_600_000
#: The longest time to live, delay and `x-expires` that runs out within a run.
SHORT_MS_MAX = 1_500
SINK = "sink"
#: How many consumers there may be.
WORKERS = (0, 1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class PolicyQueue:
    """A shared queue and what its arguments ask; None and 0 stand for what is not asked."""

    name: str
    durable: bool = True
    replicas: int = 0
    fragments: int = 1
    ttl_ms: int | None = None
    max_length: int | None = None
    max_bytes: int | None = None
    overflow: str = "drop-head"
    #: The queue that its dead letters go to.
    target: str | None = None
    limit: int | None = None
    max_priority: int = 0
    single: bool = False
    #: x-fedq-replicate; "": not given.
    mode: str = ""

    def arguments(self) -> dict[str, TableValue]:
        """The declaration's arguments."""
        wanted: dict[str, TableValue | None] = {
            "x-fedq-replicas": self.replicas or None,
            "x-fedq-fragments": self.fragments or None,
            "x-fedq-replicate": self.mode or None,
            "x-message-ttl": self.ttl_ms,
            "x-max-length": self.max_length,
            "x-max-length-bytes": self.max_bytes,
            "x-overflow": self.overflow if self.has_length else None,
            "x-dead-letter-exchange": None if self.target is None else "",
            "x-dead-letter-routing-key": self.target,
            "x-delivery-limit": self.limit,
            "x-max-priority": self.max_priority or None,
            "x-single-active-consumer": self.single or None,
        }
        return {name: value for name, value in wanted.items() if value is not None}

    @property
    def has_length(self) -> bool:
        """Whether a length limits it."""
        return self.max_length is not None or self.max_bytes is not None

    @property
    def refuses(self) -> bool:
        """Whether publishers may be told that it is full."""
        return self.has_length and self.overflow != "drop-head"

    @property
    def one_place(self) -> bool:
        """Whether it has one fragment, or is to keep one by the rule of docs/SEMANTICS.md."""
        asks = self.single or self.max_priority > 0 or self.has_length
        return self.fragments == 1 or (self.fragments == 0 and asks)

    def copies(self, nodes: int) -> int:
        """Copies of each message in a whole cluster of so many nodes."""
        return 1 if self.mode == "none" else min(self.replicas or 2, nodes)


@dataclass(frozen=True, slots=True)
class SenderPlan:
    """What a publisher sends to queues with policies. Chances are per message."""

    queues: tuple[str, ...]
    messages: int
    burst: int
    gap_us: int
    persistent: float
    #: Times to live and delays in milliseconds, priorities: one is drawn for each message.
    expirations: tuple[int | None, ...] = (None,)
    delays: tuple[int, ...] = (0,)
    priorities: tuple[int | None, ...] = (None,)
    vanish: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """How a consumer of a queue with policies works. Chances are per delivery or per look."""

    queue: str
    prefetch: int
    work_us: int
    priority: int = 0
    requeue: float = 0.0
    reject: float = 0.0
    vanish: float = 0.0
    cancel: float = 0.0
    #: It does one message after the other; otherwise all that it has at once.
    one_by_one: bool = False


@dataclass(frozen=True, slots=True)
class TransactorPlan:
    """A client that acknowledges tokens and publishes marks, a few of each in a transaction."""

    pause_us: int
    rollback: float
    vanish: float


@dataclass(frozen=True, slots=True)
class TenantPlan:
    """A client that uses a queue with `x-expires`, then leaves it alone."""

    expires_ms: int
    fragments: int
    uses: int
    #: How it uses the queue: by "declare", "get" or "consume".
    how: str


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """Everything about policies in a run."""

    queues: tuple[PolicyQueue, ...]
    senders: tuple[SenderPlan, ...]
    workers: tuple[WorkerPlan, ...]
    #: The queue of tokens and marks, if there are transactors.
    ledger_queue: PolicyQueue | None = None
    tokens: int = 0
    transactors: tuple[TransactorPlan, ...] = ()
    tenants: tuple[TenantPlan, ...] = ()
    #: How far each node's wall clock is from the true time.
    skews_ms: tuple[int, ...] = field(default=())
    #: Processes die in this way, and nothing else goes wrong ("none": nothing at all does, since
    #: much is judged in calm phases only); None: faults are as the other dice say.
    kills: str | None = None

    def skew_ms(self, number: int) -> int:
        """That of the node with this number."""
        return self.skews_ms[number] if number < len(self.skews_ms) else 0

    @property
    def skew_ms_max(self) -> int:
        """The most by which two wall clocks differ."""
        return max(self.skews_ms, default=0) - min(self.skews_ms, default=0)

    def describe(self) -> list[str]:
        """In a few lines, for a failure's report."""
        lines = [*map(str, self.queues), *map(str, self.senders), *map(str, self.workers)]
        if self.ledger_queue is not None:
            lines += [f"{self.tokens} tokens in {self.ledger_queue}", *map(str, self.transactors)]
        return [*lines, *map(str, self.tenants), f"clocks off by {self.skews_ms} ms"]


def draw_policies(
    seed: int, nodes: int, safety_us: int, lite: bool, copy_all: bool = False
) -> PolicyPlan | None:
    """The policies of a seed's run; None: it has none. `copy_all`: see `swarm.draw`."""
    generator = derive(seed, "queue arguments")
    if generator.random() >= SHARE:
        return None
    if _chance(generator, 0.25):
        return _draw_transactions(generator, lite)
    if _chance(generator, 0.12):
        tenants = tuple(_draw_tenant(generator) for _ in range(generator.choice((2, 3, 4))))
        return PolicyPlan((), (), (), tenants=tenants)
    if _chance(generator, 0.35):
        return generator.choice(_SPECIAL)(generator)
    queues = _draw_queues(generator)
    queues = queues if copy_all else _draw_modes(seed, queues)
    names = tuple(queue.name for queue in queues if queue.name != SINK)
    workers = [_draw_worker(generator, names, lite) for _ in range(generator.choice(WORKERS))]
    if len(names) < len(queues) and _chance(generator, 0.4):
        # Somebody reads dead letters as they come, and sees whether they died too early.
        workers.append(WorkerPlan(SINK, generator.choice((0, 3)), 1 * MS))
    skew_ms = generator.choice((0, 0, 0, 200))
    return PolicyPlan(
        queues=queues,
        senders=tuple(
            _draw_sender(generator, names, queues, lite, safety_us)
            for _ in range(generator.choice((1, 2, 3)))
        ),
        workers=tuple(workers),
        skews_ms=tuple(generator.randint(0, skew_ms) for _ in range(nodes)),
        kills=generator.choice((None, None, None, "none", "single")),
    )


def _chance(generator: Rng, probability: float) -> bool:
    return generator.random() < probability


def _draw_queues(generator: Rng) -> tuple[PolicyQueue, ...]:
    names = [f"pq{number}" for number in range(generator.choice((1, 1, 2)))]
    # Dead letters go to a queue without policies, most often; or round in a circle, or nowhere.
    targets: list[str | None] = [SINK, SINK, SINK, None, generator.choice(names)]
    found = [_draw_queue(generator, name, generator.choice(targets)) for name in names]
    if any(queue.target == SINK for queue in found):
        found.append(PolicyQueue(SINK, _chance(generator, 0.8), generator.choice((0, 0, 3))))
    return tuple(found)


def _draw_modes(seed: int, queues: tuple[PolicyQueue, ...]) -> tuple[PolicyQueue, ...]:
    """What of them is copied, with dice of its own."""
    dice = derive(seed, "modes of queues")
    if not _chance(dice, 0.3):
        return queues
    modes = [dice.choice(("", "persistent", "persistent", "none")) for _ in queues]
    return tuple(
        replace(queue, mode=mode, replicas=0 if mode == "none" else queue.replicas)
        for queue, mode in zip(queues, modes, strict=True)
    )


def _draw_queue(generator: Rng, name: str, target: str | None) -> PolicyQueue:
    ttl_ms = max_length = max_bytes = limit = None
    if _chance(generator, 0.4):
        ttl_ms = generator.choice((generator.randint(20, SHORT_MS_MAX), 0, FOR_EVER_MS))
    if _chance(generator, 0.35):
        max_length = generator.choice((0, 1, 3, 10, 40))
    if _chance(generator, 0.1):
        max_bytes = generator.choice((100, 1_000))
    if _chance(generator, 0.35):
        limit = generator.choice((0, 1, 4, 20))
    return PolicyQueue(
        name=name,
        durable=_chance(generator, 0.8),
        replicas=generator.choice((0, 0, 0, 1, 3)),
        fragments=generator.choice((0, 1, 1, 1, 2, 3)),
        ttl_ms=ttl_ms,
        max_length=max_length,
        max_bytes=max_bytes,
        overflow=generator.choice(("drop-head", "reject-publish", "reject-publish-dlx")),
        target=target,
        limit=limit,
        max_priority=generator.choice((0, 0, 0, 1, 5)),
        single=_chance(generator, 0.25),
    )


def _draw_sender(
    generator: Rng,
    names: tuple[str, ...],
    queues: tuple[PolicyQueue, ...],
    lite: bool,
    safety_us: int,
) -> SenderPlan:
    messages = generator.randint(5, 80)
    burst = generator.choice((1, 1, 5, 20))
    paced_us = safety_us * burst // messages
    expirations: tuple[int | None, ...] = (None,)
    if _chance(generator, 0.3):
        expirations = (None, 0, FOR_EVER_MS, generator.randint(1, SHORT_MS_MAX))
    ranked = any(queue.max_priority for queue in queues)
    return SenderPlan(
        queues=names if _chance(generator, 0.5) else names[:1],
        messages=messages,
        burst=burst,
        gap_us=generator.choice((2 * MS, 20 * MS, paced_us, paced_us)),
        persistent=generator.choice((0.5, 1.0, 1.0)),
        expirations=expirations,
        delays=(0, generator.randint(1, SHORT_MS_MAX)) if _chance(generator, 0.2) else (0,),
        priorities=(None, 0, 1, 3, 9) if ranked else (None,),
        vanish=0.0 if lite else generator.choice((0.0, 0.0, 0.1)),
    )


def _draw_worker(generator: Rng, names: tuple[str, ...], lite: bool) -> WorkerPlan:
    priority = generator.choice((0, 0, 0, 1, 5, -1))
    return WorkerPlan(
        queue=names[0] if _chance(generator, 0.7) else generator.choice(names),
        # Whoever is better and always idle must get everything.
        prefetch=generator.choice((0, 0, 3, 50) if priority > 0 else (0, 1, 1, 3, 50)),
        work_us=generator.choice((1, 5, 30, 200, 800)) * MS,
        priority=priority,
        requeue=generator.choice((0.0, 0.2, 0.7, 0.95)),
        reject=generator.choice((0.0, 0.05, 0.3)),
        vanish=0.0 if lite else generator.choice((0.0, 0.0, 0.1)),
        cancel=generator.choice((0.0, 0.1)),
    )


def _draw_transactions(generator: Rng, lite: bool) -> PolicyPlan:
    queue = PolicyQueue("books", durable=True, replicas=generator.choice((0, 0, 1, 3)))
    transactors = tuple(
        TransactorPlan(
            pause_us=generator.choice((1, 10, 30)) * MS,
            rollback=generator.choice((0.0, 0.2)),
            vanish=0.0 if lite else generator.choice((0.0, 0.1)),
        )
        for _ in range(generator.choice((1, 2, 3)))
    )
    tokens = generator.randint(40, 150)
    # That a transaction is whole shows best where all processes die, and the disks with them.
    kills = "all_stop" if _chance(generator, 0.5) else None
    return PolicyPlan((queue,), (), (), queue, tokens, transactors, kills=kills)


def _draw_stubborn(generator: Rng) -> PolicyPlan:
    """Messages come back for a long time, while their fragment's node dies."""
    queue = PolicyQueue("pq0", replicas=generator.choice((0, 3)), target=SINK, limit=20)
    sender = SenderPlan(("pq0",), generator.randint(5, 20), 5, 20 * MS, 1.0)
    workers = [
        WorkerPlan("pq0", 3, generator.choice((10, 30, 60)) * MS, requeue=0.95)
        for _ in range(generator.choice((2, 3)))
    ]
    return PolicyPlan((queue, PolicyQueue(SINK)), (sender,), tuple(workers), kills="single")


def _draw_busy(generator: Rng) -> PolicyPlan:
    """More messages than one consumer keeps up with, and fewer than all together do."""
    queue = PolicyQueue("pq0", fragments=1, target=None)
    work_us = generator.choice((10, 30, 60)) * MS
    sender = SenderPlan(("pq0",), generator.randint(100, 200), 1, work_us * 5 // 9, 1.0)
    workers = [
        WorkerPlan("pq0", generator.choice((0, 0, 10)), work_us, one_by_one=True) for _ in range(3)
    ]
    return PolicyPlan((queue,), (sender,), tuple(workers), kills="none")


def _draw_ranked(generator: Rng) -> PolicyPlan:
    """A few messages, and consumers of all ranks that are idle, mostly."""
    queue = PolicyQueue("pq0", fragments=generator.choice((1, 1, 2)))
    sender = SenderPlan(("pq0",), generator.randint(20, 60), 1, 40 * MS, 1.0)
    workers = [
        WorkerPlan("pq0", 0, 1 * MS, priority=priority)
        for priority in generator.sample((-1, 0, 1, 5), generator.choice((3, 4)))
    ]
    return PolicyPlan((queue,), (sender,), tuple(workers), kills="none")


def _draw_dying(generator: Rng) -> PolicyPlan:
    """Many die, are refused or rejected, while the nodes of their fragments die as well."""
    copies = generator.choice((0, 0, 3))
    queue = PolicyQueue(
        "pq0",
        replicas=copies,
        fragments=generator.choice((1, 2)),
        ttl_ms=generator.choice((None, None, 200)),
        max_length=generator.choice((1, 5)),
        overflow="reject-publish-dlx",
        target=SINK,
    )
    senders = (
        SenderPlan(("pq0",), generator.randint(60, 120), 5, 100 * MS, 1.0),
        SenderPlan(("pq0",), generator.randint(60, 120), 1, 20 * MS, 1.0),
    )
    workers = (WorkerPlan("pq0", 3, 5 * MS, reject=0.8),) if _chance(generator, 0.5) else ()
    kills = generator.choice(("single", "single", "all_stop"))
    sink = PolicyQueue(SINK, replicas=copies, fragments=generator.choice((1, 3)))
    return PolicyPlan((queue, sink), senders, workers, kills=kills)


def _draw_dropping(generator: Rng) -> PolicyPlan:
    """Nobody consumes: a length alone decides what is left."""
    queue = PolicyQueue(
        "pq0", max_length=generator.choice((3, 10)), target=generator.choice((None, SINK))
    )
    senders = tuple(SenderPlan(("pq0",), generator.randint(10, 40), 5, 30 * MS, 1.0) for _ in "ab")
    queues = (queue,) if queue.target is None else (queue, PolicyQueue(SINK))
    return PolicyPlan(queues, senders, (), kills=generator.choice(("none", "single")))


def _draw_priorities(generator: Rng) -> PolicyPlan:
    """Messages of several priorities wait, are given back, and wait again."""
    queue = PolicyQueue("pq0", max_priority=generator.choice((1, 5)))
    priorities = (None, 0, 1, 3, 9)
    sender = SenderPlan(("pq0",), 80, 20, 20 * MS, 1.0, priorities=priorities)
    worker = WorkerPlan("pq0", generator.choice((1, 3)), 60 * MS, requeue=0.9, cancel=0.1)
    return PolicyPlan((queue,), (sender,), (worker,), kills=generator.choice(("none", "single")))


def _draw_tenant(generator: Rng) -> TenantPlan:
    return TenantPlan(
        expires_ms=generator.randint(300, SHORT_MS_MAX),
        fragments=generator.choice((1, 1, 3)),
        uses=generator.randint(1, 12),
        how=generator.choice(("declare", "get", "consume")),
    )


#: Runs about one thing that the other dice seldom bring about.
_SPECIAL: Final[tuple[Callable[[Rng], PolicyPlan], ...]] = (
    _draw_stubborn, _draw_ranked, _draw_dropping, _draw_priorities, _draw_busy,
    _draw_dying, _draw_dying, _draw_dying, _draw_dying,
)  # fmt: skip
