"""What clients of a node were told, and what they find after a crash at any step of its disk.

A history is drawn from a seed: messages come and go, some stay, some are acknowledged, while
checkpoints are written and segments moved. `play` crashes it at every point, in every way, and
looks at what a start finds; in some of them the node starts, goes on, crashes again, and is
drained.

    python -m tests.unit.node.crash_histories --seeds 200 --first 1
"""

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.core.ids import FragmentId
from fedq.core.seeds import derive
from fedq.journal.recovery import salvage
from tests.unit.amqp.wire import Content
from tests.unit.node.crash_points import LOSSES, Recorded, Segments, Synced, directory_at, name_of
from tests.unit.node.harness import Client

#: Queues whose messages stay, and the one of those that go at once.
KEPT: Final = ("k0", "k1", "k2")
BUSY: Final = "busy"
BODY_BYTES: Final = 86
SEGMENT: Final = 4_000
#: Bodies of long queues leave memory here; there they do not.
ON_DISK: Any = {"stow_bytes_min": 1, "read_ahead_bytes": 400, "segment_bytes_max": SEGMENT}
IN_MEMORY: Any = {"segment_bytes_max": SEGMENT}
#: How the bodies are kept.
KINDS: Final = {"bodies-on-disk": ON_DISK, "in-memory": IN_MEMORY}


class Told(NamedTuple):
    """What a client knows of a message, and how many steps the disk had made by then."""

    queue: str
    body: str
    step: int
    #: The newest chunk that was written by then.
    chunk: int = 0


class History:
    """What the clients of a recorded node were told, beside what its disk did."""

    def __init__(self, **settings: int) -> None:
        self.cluster = Recorded(**settings)
        self.client = self.cluster.client()
        self.client.ask(ConfirmSelect(), ConfirmSelectOk)
        for queue in (*KEPT, BUSY):
            self.client.ask(QueueDeclare(queue, durable=True), QueueDeclareOk)
        self.client.ask(BasicConsume(BUSY, BUSY, no_ack=True), BasicConsumeOk)
        self._next = self._unconfirmed = self.begun = 0
        self.sent: list[Told] = []
        self.confirmed: list[Told] = []
        self.acknowledged: list[Told] = []

    def _told(self, queue: str, body: str) -> Told:
        return Told(queue, body, len(self.cluster.steps), self.cluster.host.written)

    def publish(self, queue: str, count: int) -> None:
        """Publishes a few, which become one record, and waits for the confirms."""
        bodies = [f"{self._next + number:05} {'x' * 80}" for number in range(count)]
        self._next += count
        self.sent += [self._told(queue, body) for body in bodies]
        self.client.publish(queue, *bodies)
        self._unconfirmed += count

        def is_confirmed() -> bool:
            while self.client.has(BasicAck):
                self._unconfirmed = self._next - self.client.take(BasicAck).delivery_tag
            return not self._unconfirmed

        self.cluster.wait_for(is_confirmed)
        self.confirmed += [self._told(queue, body) for body in bodies]
        self.client.deliveries()

    def record(self) -> None:
        """The points at which it may crash are those from now on."""
        self.begun = len(self.cluster.steps)

    def acknowledge(self, count: int, every: bool = False) -> None:
        """Takes the oldest of each queue, and acknowledges every other one, or every one."""
        for queue in KEPT:
            got = [each for _ in range(count) if (each := self._get(queue)) is not None]
            for tag, body in got if every else got[1::2]:
                self.client.send(BasicAck(tag))
                self.acknowledged.append(self._told(queue, body))

    def _get(self, queue: str) -> tuple[int, str] | None:
        """The delivery tag and the body of the next message; None: there is none."""
        client = self.client
        client.send(BasicGet(queue))
        self.cluster.wait_for(lambda: client.has(BasicGetOk) or client.has(BasicGetEmpty))
        if client.has(BasicGetEmpty):
            client.take(BasicGetEmpty)
            return None
        said = next(
            each for each in client.said
            if isinstance(each, Content) and isinstance(each.method, BasicGetOk)
        )  # fmt: skip
        return client.take(BasicGetOk).delivery_tag, said.body.decode()

    # --- after a crash -----------------------------------------------------------------------

    def owed(self, steps: int) -> dict[str, list[str]]:
        """By queue, what was confirmed by then, in order, and was not acknowledged."""
        gone = {each.body for each in self.acknowledged if each.step <= steps}
        found: dict[str, list[str]] = {queue: [] for queue in KEPT}
        for each in self.confirmed:
            if each.queue in found and each.step <= steps and each.body not in gone:
                found[each.queue].append(each.body)
        return found

    def may_be(self, steps: int) -> dict[str, list[str]]:
        """By queue, all that may be there: what was sent, but for what is known to be gone."""
        known = [s.number for s in self.cluster.steps[:steps] if isinstance(s, Synced)]
        gone = {each.body for each in self.acknowledged if each.chunk <= max(known, default=0)}
        found: dict[str, list[str]] = {queue: [] for queue in KEPT}
        for each in self.sent:
            if each.queue in found and each.step <= steps and each.body not in gone:
                found[each.queue].append(each.body)
        return found


def drained(cluster: Recorded) -> dict[str, list[str]]:
    """All that a client finds in the queues that are kept."""
    client: Client = cluster.client()
    client.ask(BasicQos(prefetch_count=0), BasicQosOk)
    found: dict[str, list[str]] = {}
    for queue in KEPT:
        count = client.ask(QueueDeclare(queue, passive=True), QueueDeclareOk).message_count
        client.ask(BasicConsume(queue, queue, no_ack=True), BasicConsumeOk)
        cluster.wait_for(lambda count=count: _delivered(client) >= count)  # type: ignore[misc]
        found[queue] = [body.removeprefix("again: ") for body in client.deliveries()]
    cluster.settle()
    assert not _delivered(client), "more came than the queues had counted"
    return found


def _delivered(client: Client) -> int:
    return sum(
        isinstance(said, Content) and isinstance(said.method, BasicDeliver) for said in client.said
    )


def recorded(seed: int, **settings: int) -> History:
    """A history in which checkpoints are written, and segments moved, while clients go on."""
    dice = derive(seed, "crash points")
    history = History(**settings)

    def come(bursts: int) -> None:
        for _ in range(bursts):
            stays = dice.random() < 0.2
            queue = dice.choice(KEPT) if stays else BUSY
            for _ in range(dice.choice((1, 2, 3)) if stays else 1):
                history.publish(queue, dice.randint(1, 8))

    come(60)
    history.record()
    for _ in range(5):
        history.acknowledge(dice.randint(1, 3))
        come(4)
        history.cluster.pass_ms(dice.choice((100, 500, 1_000)))
        history.acknowledge(1)
    history.cluster.pass_ms(10_000)
    return history


class Point(NamedTuple):
    """A crash, and what must and may be there afterwards."""

    where: str
    segments: Segments
    owed: dict[str, list[str]]
    most: dict[str, list[str]]
    #: It is the last step of its kind, or of a rare one.
    matters: bool


def points(history: History, names: list[str]) -> Iterator[Point]:
    """Every crash there is; those that leave the same, and owe the same, once."""
    seen: dict[str, None] = {}
    steps = list(history.cluster.steps)
    for loss in LOSSES:
        for count in range(history.begun, len(steps) + 1):
            segments = directory_at(steps[:count], loss)
            owed, most = history.owed(count), history.may_be(count)
            known = repr((owed, most, sorted(segments.items())))
            digest = hashlib.sha256(known.encode()).hexdigest()
            if digest not in seen:
                seen[digest] = None
                last = names[count - 1] if count else "none"
                where = f"{count} steps, the last {last}, {loss}"
                yield Point(where, segments, owed, most, last == "Dropped")


def found_on_disk(segments: Segments, queues: dict[FragmentId, str]) -> dict[str, list[str]]:
    """What a start finds, which misses nothing."""
    recovered = salvage(segments)
    assert not recovered.damages
    assert not recovered.lost
    found: dict[str, list[str]] = {queue: [] for queue in KEPT}
    for fragment, queue in queues.items():
        known = recovered.fragments.get(fragment)
        if queue in found and known is not None:
            found[queue] = [m[-BODY_BYTES:].decode() for m in known.messages.values()]
    return found


def check(found: dict[str, list[str]], point: Point, where: str) -> None:
    """Nothing is missing, nothing is there twice, out of order, or again."""
    for queue in KEPT:
        missing = [body[:5] for body in point.owed[queue] if body not in found[queue]]
        assert not missing, f"{where}: {queue} has lost {missing}"
        again = [body[:5] for body in found[queue] if body not in point.most[queue]]
        assert not again, f"{where}: {queue} has again {again}"
        assert found[queue] == sorted(set(found[queue])), f"{where}: {queue} {found[queue]}"


def play(history: History, seed: int, starts: int) -> Counter[str]:
    """Crashes at every point of one history, in every way; returns what steps the disk made.

    What a start finds is looked at for each. Behind each deletion, and at so many others, the node
    starts, goes on with checkpoints and moves, crashes, starts again, and is drained.
    """
    cluster = history.cluster
    names = [name_of(step) for step in cluster.steps]
    everything = list(points(history, names))
    infos = cluster.node("n1").state.map.fragments
    queues = {fragment: info.queue.name for fragment, info in infos.items()}
    for point in everything:
        where = f"seed {seed}: {point.where}"
        check(found_on_disk(point.segments, queues), point, where)
    chosen = [point for point in everything if point.matters]
    chosen += derive(seed, "starts").sample(everything, min(starts, len(everything)))
    for point in chosen:
        where = f"seed {seed}: {point.where}, and a start"
        cluster.restart(point.segments)
        cluster.pass_ms(2_000)
        segments = {number: bytes(data) for number, data in cluster.host.segments.items()}
        check(found_on_disk(segments, queues), point, where)
        cluster.restart(segments)
        check(drained(cluster), point, f"{where}, and another")
    return Counter(kind for name in names for kind in name.split())


def main() -> int:
    """Plays many histories; the first that loses something ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many histories of each kind")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    arguments = parser.parse_args()
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        for kind, settings in KINDS.items():
            met = play(recorded(seed, **settings), seed, 20)
            sys.stdout.write(f"{seed} {kind}: {dict(met)}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
