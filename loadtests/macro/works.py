"""The works that are measured: what the generator is told, what is read off, what is aimed at.

Each is a row or more of the project's table of aims. A work belongs to a group; the works of one
group run one after the other on the same broker, unless one needs a fresh one (memory can only be
read off a process that has not had any yet).

Out: `WORKS` by name, and `chosen()`.
"""

from collections.abc import Iterable
from typing import Final

from loadtests.macro import figures
from loadtests.macro.clusters import of_three
from loadtests.macro.figures import Aim
from loadtests.macro.work import RELIABLE, SPEED, TRANSIENT, WINDOW, replicas
from loadtests.macro.work import Group as Group
from loadtests.macro.work import Row as Row
from loadtests.macro.work import Scene as Scene
from loadtests.macro.work import Work as Work

MANY: Final = 10_000


def _speed(aim: float | None) -> tuple[Row, ...]:
    bound = None if aim is None else Aim(aim)
    return (Row(figures.PER_CPU, bound), *SPEED)


def _queues() -> list[Work]:
    transient = "1 → 1, transient, automatic acks"
    persistent = "1 → 1, persistent, confirms 200, prefetch 200, fsync before confirm"
    sizes = (
        ("transient-16", f"{transient}, 16 B", TRANSIENT, "16", 400_000, True),
        ("transient-mixed", f"{transient}, 16 to 79 B", TRANSIENT, "16-79", 400_000, True),
        ("transient-1k", f"{transient}, 1 KiB", TRANSIENT, "1024", 250_000, True),
        ("persistent-16", f"{persistent}, 16 B", RELIABLE, "16", 150_000, True),
        ("persistent-1k", f"{persistent}, 1 KiB", RELIABLE, "1024", None, False),
    )
    return [
        Work(name, about, Group.QUEUES, ("--size", size, *options), _speed(aim), is_in_quick=quick)
        for name, about, options, size, aim, quick in sizes
    ]


def _latencies() -> list[Work]:
    not_above = Aim(1.0, is_relative=True)
    ends = (Row(figures.LATENCY_P50, not_above), Row(figures.LATENCY_P99, not_above))
    confirms = (Row(figures.CONFIRM_P50, not_above), Row(figures.CONFIRM_P99, not_above))
    found: list[Work] = []
    # Oftener than the others: one stop of the disk or the host is the p99 of whatever it is in,
    # however long that takes; a median of many runs leaves it out.
    for rate in (1_000, 5_000):
        paced = ("--size", "16", "--rate", str(rate))
        found += [
            Work(
                f"latency-{rate}", f"latency at {rate:,}/s, transient", Group.LATENCY,
                (*paced, *TRANSIENT), ends, is_in_quick=rate == 1_000, times_oftener=3,
            ),
            Work(
                f"latency-{rate}-persistent", f"latency at {rate:,}/s, persistent with confirms",
                Group.LATENCY, (*paced, *RELIABLE), (*ends, *confirms), is_in_quick=rate == 1_000,
                times_oftener=3,
            ),
        ]  # fmt: skip
    return found


def _topics() -> list[Work]:
    return [
        Work(
            f"topic-{queues}", f"topic exchange, 10,000 mixed wildcard bindings {words}",
            Group.TOPICS,
            ("--size", "16", *TRANSIENT, "--bindings", str(MANY), "--bound-queues", str(queues)),
            (Row(figures.PUBLISHES_PER_CPU, aim), Row(figures.DELIVERIES_PER_SECOND)),
            patience_s=90.0, is_in_quick=queues == 1,
        )
        for queues, words, aim in (
            (1, "of one queue", Aim(200_000)), (100, "of 100 queues", None),
        )
    ]  # fmt: skip


def _fanout_rows(aim: float) -> tuple[Row, ...]:
    return (Row(figures.DELIVERIES_PER_CPU, Aim(aim)), Row(figures.DELIVERIES_PER_SECOND))


def _fanout(
    name: str, about: str, subscribers: int, connections: int, more: tuple[str, ...] = ()
) -> tuple[str, str, tuple[str, ...]]:
    counts = ("--subscribers", str(subscribers), "--connections", str(connections))
    return name, f"fan-out, {about}", ("--size", "64", *TRANSIENT, *counts, *more)


def _fanouts() -> list[Work]:
    paced = (Row(figures.DELIVERIES_PER_CPU, Aim(100_000)), Row(figures.LAST_P50))
    state = (Row(figures.MEMORY_EACH, Aim(8)), Row(figures.SET_UP, Aim(4)))
    name, about, options = _fanout("fanout-1000", "1,000 connections, full speed", 1_000, 1_000)
    found = [Work(name, about, Group.FANOUT, options, _fanout_rows(200_000))]
    name, about, options = _fanout(
        "fanout-1000-paced", "1,000 connections, 20 messages/s", 1_000, 1_000, ("--rate", "20")
    )
    found.append(Work(name, about, Group.FANOUT, options, paced))
    name, about, options = _fanout(
        "fanout-100x100", "100 consumers on each of 100 connections, full speed", MANY, 100
    )
    found.append(
        Work(
            name,
            about,
            Group.FANOUT,
            options,
            _fanout_rows(500_000),
            warm_up_s=2.0,
            patience_s=90.0,
        )
    )
    name, about, options = _fanout(
        "fanout-10000-paced", "10,000 connections, 2 messages/s", MANY, MANY, ("--rate", "2")
    )
    found.append(
        Work(
            name, about, Group.MANY, options, (*paced, *state), needs_fresh_broker=True,
            times_longer=2, warm_up_s=5.0, patience_s=120.0,
        )
    )  # fmt: skip
    name, about, options = _fanout("fanout-10000", "10,000 connections, full speed", MANY, MANY)
    found.append(
        Work(
            name, about, Group.MANY, options, _fanout_rows(120_000), is_in_quick=False,
            warm_up_s=5.0, patience_s=120.0,
        )
    )  # fmt: skip
    found.append(
        Work(
            "idle-10000", "10,000 connections that do nothing", Group.MANY,
            ("--idle", str(MANY), "--producers", "0", "--consumers", "0"),
            (Row(figures.MEMORY_EACH, Aim(5)),), needs_fresh_broker=True, patience_s=120.0,
        )
    )  # fmt: skip
    return found


#: RabbitMQ's way of keeping bodies on disk.
LAZY: Final = (
    "--queue-argument", "x-queue-mode=lazy", "--queue-argument", "x-queue-version=2",
)  # fmt: skip


def _deep() -> list[Work]:
    """Deep queues; `loadtests.macro.deep` gives them their size."""
    fill = (
        Row(figures.FILLED),
        Row(figures.FIRST_PER_SECOND),
        Row(figures.LAST_PER_SECOND),
        Row(figures.LAST_TO_FIRST, Aim(0.7)),
        Row(figures.FILLED_MEMORY, Aim(900)),
        Row(figures.BYTES_EACH, Aim(4)),
    )
    drain = (
        Row(figures.DRAINED_PER_CPU, Aim(100_000)),
        Row(figures.DRAINED_PER_SECOND, Aim(5, is_relative=True)),
    )
    store = ("--persistent", "--confirms", WINDOW)
    kinds = (
        ("deep-fill", "one queue filled, persistent, confirms 200", ("--consumers", "0"), fill),
        ("deep-drain", "a full queue emptied, automatic acks", TRANSIENT, drain),
        ("deep-drain-acks", "a full queue emptied, prefetch 200", ("--prefetch", WINDOW), drain),
    )
    return [
        Work(
            name, about, Group.DEEP, (*store, *options), rows, rabbitmq=LAZY,
            needs_fresh_broker=True, is_in_quick=False, is_on_request=True, warm_up_s=0.0,
        )
        for name, about, options, rows in kinds
    ]  # fmt: skip


_STORE: Final = ("--persistent", "--confirms", WINDOW, "--consumers", "0", "--keep")


def _restarts() -> list[Work]:
    return [
        Work(
            "deep-restart", "killed with a full queue, and started again", Group.DEEP, _STORE,
            (Row(figures.RESTART, Aim(5)),), rabbitmq=LAZY, scene=Scene.RESTART,
            needs_fresh_broker=True, is_in_quick=False, is_on_request=True, warm_up_s=0.0,
            patience_s=400.0,
        )
    ]  # fmt: skip


def _joins() -> list[Work]:
    return [
        Work(
            "join", "a copy joins, 2,000 publishes/s beside it", Group.JOIN, _STORE,
            (
                Row(figures.JOINED, Aim(100)), Row(figures.JOINED_SECONDS),
                Row(figures.BESIDE_P99), Row(figures.BESIDE_TO_IDLE, Aim(2)),
                Row(figures.LONG_TURNS, Aim(0)),
            ),
            fedq=replicas(3), scene=Scene.JOIN, is_own=True, needs_fresh_broker=True,
            is_in_quick=False, is_on_request=True, warm_up_s=0.0, patience_s=1_000.0,
        )
    ]  # fmt: skip


#: Fills a queue beside other works, until they end.
FILLING: Final = (
    "--fill", "1000000000", "--size", "1024", "--persistent", "--confirms", WINDOW,
    "--consumers", "0", "--seconds", "3600", "--warm-up", "0",
)  # fmt: skip
_NEIGHBOUR: Final = ("--size", "16", "--rate", "1000", *RELIABLE)
#: What 50,000 messages of 1 KiB on their way take, twice, and four segments of the journal.
_DISK_MIB_MAX: Final = 359


def _beside() -> list[Work]:
    """What a neighbour, and a message that stays, do to others."""
    both = (Row(figures.LATENCY_P50), Row(figures.LATENCY_P99))
    idle, alone = "neighbour-idle", "old-message-none"
    flow = ("--size", "1024", *RELIABLE)
    return [
        Work(
            name, about, Group.BESIDE, options, rows, beside=beside, has_old_message=is_old,
            needs_fresh_broker=True, is_in_quick=False, is_on_request=True, warm_up_s=6.0,
            times_longer=longer, memory_bytes=512 << 20,
        )
        for name, about, options, rows, beside, is_old, longer in (
            (idle, "1,000/s, persistent with confirms", _NEIGHBOUR, both, (), False, 3),
            (
                "neighbour-filling", "the same beside a queue that is filled at full speed",
                _NEIGHBOUR,
                (*both, Row(figures.rise_of(figures.LATENCY_P99, "that of idle", idle), Aim(2))),
                FILLING, False, 3,
            ),
            (
                alone, "1 KiB, persistent, confirms 200, for long", flow,
                (*SPEED, Row(figures.CONFIRM_P99), Row(figures.DISK_MAX)), (), False, 10,
            ),
            (
                "old-message", "the same while one message stays", flow,
                (
                    *SPEED, Row(figures.CONFIRM_P99),
                    Row(figures.rise_of(figures.CONFIRM_P99, "that without", alone), Aim(1.5)),
                    Row(figures.DISK_MAX, Aim(_DISK_MIB_MAX)),
                ),
                (), True, 10,
            ),
        )
    ]  # fmt: skip


def _streams() -> list[Work]:
    """Streams; who reads from the start finds all of it stored."""
    stream = ("--queue-argument", "x-queue-type=stream", "--persistent", "--confirms", WINDOW)
    reads = ("--prefetch", "1000", "--ack-every", "100")
    replay = (*reads, "--consumer-argument", "x-stream-offset=first")
    kinds = (
        ("publish", "filled, confirms 200", ("--fill", "1500000", "--consumers", "0"),
         (Row(figures.STORED_PER_CPU, Aim(300_000)), Row(figures.PUBLISHED_PER_SECOND))),
        ("replay", "one reader from the start", ("--fill", "1500000", *replay), _speed(1_500_000)),
        ("replay-10", "ten readers from the start",
         ("--fill", "300000", "--consumers", "10", *replay), _speed(3_000_000)),
    )  # fmt: skip
    found = [
        Work(
            f"stream-{name}", f"a stream of 16 B, {about}", Group.STREAMS,
            ("--size", "16", *stream, *options), rows, is_in_quick=False, warm_up_s=0.0,
            deadline_s=60.0, needs_fresh_broker=True,
        )
        for name, about, options, rows in kinds
    ]  # fmt: skip
    found.append(
        Work(
            "stream-tail", "a stream of 64 B, 1,000 readers at its tail", Group.STREAMS,
            ("--size", "64", *stream, "--consumers", "1000", *reads), _speed(None),
            is_in_quick=False, warm_up_s=2.0, patience_s=90.0, needs_fresh_broker=True,
        )
    )  # fmt: skip
    return found


WORKS: Final = {
    work.name: work
    for work in [
        *_queues(),
        *_latencies(),
        *_topics(),
        *_fanouts(),
        *_streams(),
        *_deep(),
        *_restarts(),
        *_beside(),
        *_joins(),
        *of_three(),
    ]
}


def chosen(names: Iterable[str], is_quick: bool = False) -> list[Work]:
    """The works of these names or groups, in the order of the table; all (or all quick) if none.

    Works on request are never among *all*.

    Raises `ValueError` for a name that nothing has.
    """
    wanted = dict.fromkeys(names)
    unknown = [
        name for name in wanted if name not in WORKS and name not in [g.value for g in Group]
    ]
    if unknown:
        raise ValueError(
            f"no work or group is called {', '.join(unknown)}; there are {', '.join(WORKS)} and "
            f"the groups {', '.join(group.value for group in Group)}"
        )
    if not wanted:
        return [
            work for work in WORKS.values()
            if not work.is_on_request and (work.is_in_quick or not is_quick)
        ]  # fmt: skip
    return [work for work in WORKS.values() if work.name in wanted or work.group.value in wanted]
