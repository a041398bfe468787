"""The works on three nodes: copies, clients at several nodes, a slow pace, declarations."""

from loadtests.macro import figures
from loadtests.macro.figures import Aim
from loadtests.macro.work import QUORUM, RELIABLE, SPEED, TRANSIENT, Group, Row, Work, replicas


def _copies() -> list[Work]:
    twice = Aim(2.0, is_relative=True)
    rows = (
        Row(figures.PER_CPU, twice), *SPEED, Row(figures.CONFIRM_P50), Row(figures.CONFIRM_P99),
    )  # fmt: skip
    return [
        Work(
            f"copies-{count}",
            f"three nodes, {count} copies (RabbitMQ: quorum queue of 3), otherwise as persistent",
            Group.CLUSTER, ("--size", "16", *RELIABLE), rows, fedq=replicas(count), rabbitmq=QUORUM,
        )
        for count in (2, 3)
    ]  # fmt: skip


def _spread() -> list[Work]:
    kinds = (
        ("spread", "transient, one copy", TRANSIENT, replicas(1), ()),
        ("spread-persistent", "persistent, 2 copies", RELIABLE, replicas(2), QUORUM),
    )
    found: list[Work] = []
    for kind, about, options, fedq, rabbitmq in kinds:
        base = f"{kind}-1"
        for nodes in (1, 2, 3):
            rows: tuple[Row, ...] = (Row(figures.CPU_EACH), *SPEED)
            if nodes > 1:
                rows += (Row(figures.rise_over(base), Aim(1.2) if nodes == 3 else None),)
            where = "one node" if nodes == 1 else f"{nodes} nodes"
            found.append(
                Work(
                    f"{kind}-{nodes}",
                    f"a cluster of three, 3 → 3, {about}, clients on {where}",
                    Group.CLUSTER,
                    ("--size", "16", "--producers", "3", "--consumers", "3", *options),
                    rows,
                    fedq=(*fedq, "--queue-argument", "x-fedq-fragments=3"), rabbitmq=rabbitmq,
                    addresses=nodes, is_in_quick=kind == "spread-persistent" and nodes != 2,
                )
            )  # fmt: skip
    return found


def _paced() -> list[Work]:
    """Three nodes at a slow pace, and without anything to do."""
    latency, cost = Aim(0.8, is_relative=True), Aim(0.4, is_relative=True)
    rows = (
        Row(figures.CPU_EACH, cost), Row(figures.CONFIRM_P50, latency),
        Row(figures.CONFIRM_P99, latency),
    )  # fmt: skip
    found = [
        Work(
            f"paced-{rate}-copies-{count}",
            f"three nodes, {count} copies (RabbitMQ: quorum queue of 3), persistent, {rate:,}/s",
            Group.PACED, ("--size", "16", "--rate", str(rate), *RELIABLE), rows,
            fedq=replicas(count), rabbitmq=QUORUM, is_in_quick=rate == 1_000 and count == 3,
        )
        for rate in (1_000, 100) for count in (2, 3)
    ]  # fmt: skip
    found.append(
        Work(
            "idle-3", "three nodes that do nothing", Group.PACED, (),
            (Row(figures.IDLE_CORE, Aim(0.7)),), generator=("-m", "loadtests.macro.resting"),
            times_longer=3, warm_up_s=3.0,
        )
    )  # fmt: skip
    return found


def _declares() -> list[Work]:
    return [
        Work(
            "declare", "three nodes, 2,000 durable queues by one channel, 2 copies (RabbitMQ: 1)",
            Group.DECLARE, ("--queues", "2000"),
            (
                Row(figures.DECLARED, Aim(2_000)), Row(figures.DECLARED_CPU),
                Row(figures.DELETED, Aim(2_000)), Row(figures.DELETED_CPU),
                Row(figures.PASSIVE_P99, Aim(10)),
            ),
            fedq=replicas(2), generator=("-m", "loadtests.macro.declaring"), patience_s=180.0,
            is_in_quick=False,
        )
    ]  # fmt: skip


def of_three() -> list[Work]:
    """All of them, in the order of the table."""
    return [*_copies(), *_spread(), *_paced(), *_declares()]
