"""A cluster under load whose power is cut again and again, and what its clients make of that.

One round: load; all nodes are killed at once; a moment until then is drawn; each data directory
becomes what a disk may have kept at that moment, and the clients' book ends there, too; the nodes
start, and a client takes everything from all queues. The next round goes on with what is left.
"""

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from tests.integration.harness import Cluster
from tests.integration.stock import BlockingChannel, BlockingConnection, connect, pika
from tests.integration.waiting import TooLateError, deadline
from tests.powercut import record
from tests.powercut.book import Book, Heard, Target, Verdict, number_of
from tests.powercut.clients import Consumer, Publisher, acks_all, keeps_first, picks
from tests.powercut.disk import UnknownCall
from tests.powercut.power import Cut, Power
from tests.powercut.queues import Declarer, Queues

TARGETS: Final = {
    "busy": Target("", "busy", ("busy",)),
    "old": Target("", "old", ("old",)),
    "picked": Target("", "picked", ("picked",)),
    "store": Target("", "store", ("store",)),
    "fan": Target("fan", "", ("fan1", "fan2")),
}
QUEUES: Final = tuple(queue for target in TARGETS.values() for queue in target.queues)
#: What a publisher publishes in one round at most: everything is read after each cut.
MOST: Final = (40, 400, 1_500)
START_S: Final = 60.0
#: Once nothing that is owed is missing, whatever else comes within this is judged, too.
QUIET_S: Final = 0.5
PATIENCE_S: Final = 20.0
#: What a node says of a rotten disk.
_ALARMS: Final = ("the journal is damaged", "the journal has rotten places")


class Round(NamedTuple):
    """What came of one power cut."""

    cut: Cut
    confirmed: int
    verdict: Verdict


class Play:
    """A running cluster; a context manager."""

    def __init__(
        self, directory: Path, names: str, dice: random.Random, library: Path, records: Path,
        sync_us: int | None = None, patience_s: float = PATIENCE_S,
    ) -> None:  # fmt: skip
        """`records`: an empty directory for what the nodes' processes write down.

        `sync_us`: how much longer syncs take; below 0, disks lie; usually the dice say.
        `patience_s`: how long nothing that is owed may come.
        """
        self._dice = dice
        self._patience_s = patience_s
        self.segment_bytes = dice.choice([1 << 15, 1 << 17, 1 << 19])
        drawn_us = dice.choice([0, 3_000, 20_000])
        self.sync_us = drawn_us if sync_us is None else sync_us
        #: Whether bodies are on disk alone wherever they may be.
        self.stows = dice.random() < 0.5
        kind = "stows" if self.stows else "keeps"
        wrapper = [sys.executable, "-m", "tests.powercut.node", str(self.segment_bytes), kind]
        before = record.prefix(library, records, self.sync_us)
        self.cluster = Cluster(directory, names, [*before, *wrapper])
        self._directories = {node.name: node.directory for node in self.cluster.nodes.values()}
        self._power = Power(self._directories, records, dice)
        self._book = Book()
        self._queues = Queues()
        #: No moment before this one is drawn: the queues were not declared.
        self._floor_ns = 0

    def __enter__(self) -> Self:
        for directory in self._directories.values():
            (directory / "data").mkdir(mode=0o700)
        self._power.remember()
        self.cluster.__enter__()
        try:
            self._declare()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.cluster.__exit__(kind, error, trace)

    def _declare(self) -> None:
        with deadline("the queues are declared", 20):
            connection = connect(self.cluster.living().amqp)
            channel = connection.channel()
            channel.exchange_declare("fan", "fanout", durable=True)
            for index, queue in enumerate(QUEUES):
                copies = (None, 1, 3)[index % 3] if len(self.cluster.nodes) > 1 else None
                arguments = {"x-fedq-replicas": copies} if copies else {}
                channel.queue_declare(queue, durable=True, arguments=arguments)
            for queue in TARGETS["fan"].queues:
                channel.queue_bind(queue, "fan")
            connection.close()
        self._floor_ns = time.monotonic_ns()

    # --- one round --------------------------------------------------------------------------------

    def round(self, load_s: float) -> Round:
        """Load for so long, a power cut, and the verdict."""
        with self._load():
            time.sleep(load_s)
            killed_ns = time.monotonic_ns()
        cut = Cut("", killed_ns)
        verdict = Verdict()
        try:
            cut = self._power.cut(self._floor_ns, killed_ns)
            self._floor_ns = 0
            self._book.rewind(cut.ns)
            self._queues.rewind(cut.ns)
            self._power.remember()
            self._start()
            self._take_everything(verdict)
        except (TooLateError, UnknownCall, pika.exceptions.AMQPError) as error:
            verdict.wrong.append(f"{type(error).__name__}: {error}")
        verdict.wrong.extend(self._alarms())
        return Round(cut, len(self._book.confirmed), verdict)

    def _alarms(self) -> list[str]:
        """What nodes took for damage; a power cut leaves a torn end, and nothing else."""
        return [
            f"taken for damage: {line}"
            for directory in self._directories.values()
            for line in (directory / "node.log").read_text(errors="replace").splitlines()
            if any(word in line for word in _ALARMS)
        ]

    @contextmanager
    def _load(self) -> Iterator[None]:
        """Clients are at work; at the end all nodes are killed, and clients end with them."""
        dice = self._dice
        places = self.cluster.addresses()
        # While publishers rest, consumers say what need not be synced at once.
        is_quiet = dice.random() < 0.4
        clients: list[threading.Thread] = [Declarer(dice.choice(places), self._queues)]
        for target in TARGETS.items():
            window = dice.choice([1, 5, 40])
            most = dice.choice(MOST) if not is_quiet else min(MOST)
            clients.append(Publisher(dice.choice(places), self._book, target, window, most))
        pause_s = 0.002 if is_quiet else 0.0
        for queue in QUEUES:
            own = random.Random(dice.random())
            habits = {"old": keeps_first, "picked": picks(own), "fan2": picks(own)}
            habit = habits.get(queue, acks_all)
            if queue != "store" or is_quiet:
                place = dice.choice(places)
                clients.append(Consumer(place, self._book, queue, habit, own, pause_s))
        for client in clients:
            client.start()
        try:
            yield
        finally:
            self.cluster.stop()
            for client in clients:
                client.join(60)

    def _start(self) -> None:
        """The nodes start in any order, and by themselves."""
        names = list(self.cluster.nodes)
        self._dice.shuffle(names)
        for name in names:
            self.cluster.nodes[name].start()
        for name in names:
            self.cluster.wait_served(name, START_S)

    # --- the verdict ------------------------------------------------------------------------------

    def _take_everything(self, verdict: Verdict) -> None:
        """One client takes all there is from all queues, and acknowledges some of it."""
        place = self._dice.choice(self.cluster.addresses())
        heard: dict[str, list[Heard]] = {queue: [] for queue in QUEUES}
        owed = {(queue, number) for queue in QUEUES for number in self._book.owed(queue)}
        with deadline("everything is taken", 120), _connected(place) as connection:
            channel = connection.channel()
            for queue in QUEUES:
                channel.basic_consume(queue, _listener(queue, heard[queue], owed))
            quiet_s = time.monotonic()
            count = 0
            while time.monotonic() < quiet_s + (self._patience_s if owed else QUIET_S):
                connection.process_data_events(0.05)
                if count != (count := sum(map(len, heard.values()))):
                    quiet_s = time.monotonic()
            is_alone = len(self.cluster.nodes) == 1
            for queue, messages in heard.items():
                found = self._book.judge(queue, messages, is_alone)
                verdict.add(found)
            verdict.wrong.extend(self._queues.missing(connection))
            if not verdict.wrong:
                self._acknowledge_some(channel, heard)

    def _acknowledge_some(self, channel: BlockingChannel, heard: dict[str, list[Heard]]) -> None:
        for queue, messages in heard.items():
            kept = self._dice.choice([0, 0.1, 0.9])
            self._dice.shuffle(messages)
            for message in messages:
                key = queue, number_of(message.body)
                self._book.deliver(key)
                if key != ("old", 1) and self._dice.random() >= kept:
                    self._book.acknowledge(key)
                    channel.basic_ack(message.tag)


def _listener(
    queue: str, heard: list[Heard], owed: set[tuple[str, int]]
) -> Callable[[BlockingChannel, Any, Any, bytes], None]:
    """Notes what comes from the queue, and takes it off what is owed."""

    def take(_: BlockingChannel, method: Any, __: object, body: bytes) -> None:
        heard.append(Heard(queue, body, method.redelivered, method.delivery_tag))
        owed.discard((queue, number_of(body)))

    return take


@contextmanager
def _connected(place: Any) -> Iterator[BlockingConnection]:
    connection = connect(place)
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()
