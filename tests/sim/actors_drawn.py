"""Draws who takes part in a run: queues, exchanges, and the programs of clients."""

from fedq.core.seeds import Rng
from tests.sim.clients import ConsumerPlan, GetterPlan, PublisherPlan
from tests.sim.subscribers import SubscriberPlan
from tests.sim.topology import ExchangePlan, QueuePlan
from tests.sim.world import MS

BIG_BODY_BYTES = 200_000


def chance(generator: Rng, probability: float) -> bool:
    """Whether something happens that does with this probability."""
    return generator.random() < probability


def draw_queues(generator: Rng) -> tuple[QueuePlan, ...]:
    """The queues that have no policy."""
    return tuple(
        QueuePlan(
            name=f"q{number}",
            durable=chance(generator, 0.75),
            replicas=generator.choice((0, 0, 0, 1, 3)),
            fragments=generator.choice((0, 0, 1, 1, 2, 3)),
        )
        for number in range(generator.randint(1, 3))
    )


def draw_exchanges(generator: Rng, queues: tuple[QueuePlan, ...]) -> tuple[ExchangePlan, ...]:
    """None, or some of one type, with bindings."""
    if chance(generator, 0.4):
        return ()
    kind = generator.choice(("topic", "fanout", "direct"))
    patterns = ("k.1", "k.2", "k.*", "#") if kind == "topic" else ("k.1", "k.2")
    bindings = tuple(
        (queue.name, generator.choice(patterns))
        for queue in queues
        for _ in range(generator.choice((0, 1, 2)))
    )
    durable = chance(generator, 0.75) and all(queue.durable for queue in queues)
    return (ExchangePlan("ex", kind, durable, bindings),)


def draw_publishers(
    generator: Rng,
    queues: tuple[QueuePlan, ...],
    exchanges: tuple[ExchangePlan, ...],
    lite: bool,
    safety_us: int,
) -> tuple[PublisherPlan, ...]:
    """Who publishes what, and how fast."""
    found = []
    for _ in range(generator.randint(1, 3)):
        exchange, keys = "", tuple(queue.name for queue in queues)
        if exchanges and chance(generator, 0.5):
            exchange, keys = exchanges[0].name, ("k.1", "k.2")
            if chance(generator, 0.3):
                keys = ("k.1", "k.2", "nowhere")
        elif chance(generator, 0.5):
            keys = (generator.choice(keys),)
        big = chance(generator, 0.05)
        messages = generator.randint(1, 8) if big else generator.randint(5, 120)
        burst = generator.choice((1, 1, 5, 20))
        # Half of them publish through the whole run, so that every fault meets messages on the way.
        paced_us = safety_us * burst // messages
        found.append(
            PublisherPlan(
                exchange=exchange,
                keys=keys,
                messages=messages,
                burst=burst,
                gap_us=generator.choice((2 * MS, 20 * MS, paced_us, paced_us)),
                persistent=generator.choice((0.0, 0.5, 1.0, 1.0)),
                body_bytes=BIG_BODY_BYTES if big else generator.choice((0, 10, 100, 5_000)),
                vanish=0.0 if lite else generator.choice((0.0, 0.0, 0.1)),
            )
        )
    return tuple(found)


def draw_consumers(generator: Rng, queues: list[QueuePlan], lite: bool) -> tuple[ConsumerPlan, ...]:
    """Who consumes from these queues, and how."""
    if not queues:
        return ()
    return tuple(
        ConsumerPlan(
            queue=(queues[0] if chance(generator, 0.5) else generator.choice(queues)).name,
            prefetch=generator.choice((0, 1, 3, 50)),
            # A lost connection loses what was sent with no-ack: that is no-ack's meaning.
            no_ack=lite and chance(generator, 0.2),
            work_us=generator.choice((1, 5, 30, 200, 800, 3_000)) * MS,
            requeue=generator.choice((0.0, 0.0, 0.2)),
            reject=generator.choice((0.0, 0.0, 0.1)),
            multiple=generator.choice((0.0, 0.3)),
            vanish=0.0 if lite else generator.choice((0.0, 0.0, 0.1)),
            cancel=generator.choice((0.0, 0.0, 0.1)),
        )
        for _ in range(generator.choice((0, 1, 2, 3, 5)))
    )


def draw_getters(generator: Rng, queues: tuple[QueuePlan, ...]) -> tuple[GetterPlan, ...]:
    """Who gets single messages."""
    if not chance(generator, 0.3):
        return ()
    queue = queues[-1]
    alone = chance(generator, 0.7)
    return (
        GetterPlan(
            queue=queue.name,
            gap_us=generator.choice((5, 50)) * MS,
            alone=alone,
            in_order=alone and queue.fragments == 1,
            requeue=generator.choice((0.0, 0.2)),
        ),
    )


def draw_subscribers(
    generator: Rng, exchanges: tuple[ExchangePlan, ...], lite: bool
) -> tuple[SubscriberPlan, ...]:
    """Who has queues of its own."""
    if not exchanges:
        return ()
    return tuple(
        SubscriberPlan(
            exchange=exchanges[0].name,
            key=generator.choice(("k.1", "k.2") + (("#",) if exchanges[0].kind == "topic" else ())),
            no_ack=chance(generator, 0.5),
            vanish=0.0 if lite else generator.choice((0.0, 0.0, 0.1)),
        )
        for _ in range(generator.choice((0, 1, 3)))
    )
