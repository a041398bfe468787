"""A cluster under load, the faults that are done to it, and the verdict.

Two queues, both durable and with three copies: one is consumed all the time, the other one gathers
a backlog that is taken at the end. Publishers and consumers are the demo's stock clients, which
write down what they hear; `demo.verdict` judges that.
"""

import random
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from demo import records
from demo.clients import Client
from demo.stage import Stage
from tests.faults import power
from tests.integration.harness import Cluster, NodeProcess
from tests.integration.stock import connect
from tests.integration.waiting import TooLateError, deadline

BUSY: Final = "busy"
STORE: Final = "store"
PATIENCE_S: Final = 60.0
#: A node that refuses its data directory says what to do and ends; so often it is done.
STARTS_MAX: Final = 3


class Play(Stage):
    """A running cluster with clients on it; a context manager."""

    def __init__(
        self, directory: Path, dice: random.Random, rate: int, library: Path | None
    ) -> None:
        """`rate`: messages a second of each of two publishers; `library`: notes what is durable."""
        self._dice = dice
        self._directory = directory
        self._has_power = library is not None
        self._rate = rate
        super().__init__(
            Cluster(directory, prefix=power.prefix(library) if library else ()),
            [
                self._client("demo.publisher", ["p1", BUSY]),
                self._client("demo.publisher", ["p2", STORE]),
            ],
            [self._client("demo.consumer", [BUSY]), self._client("demo.consumer_aio", [BUSY])],
            PATIENCE_S,
        )
        self._copies: dict[str, Path] = {}
        if self._has_power:
            for node in self.cluster.nodes.values():
                power.settle(node.directory)

    def _client(self, module: str, arguments: list[str]) -> Client:
        title = f"{module}-{'-'.join(arguments)}"
        return Client(title, module, arguments, self._directory / f"{title}.txt")

    def _begin(self) -> None:
        with deadline("the queues are declared", 10):
            connection = connect(self.cluster.nodes["a"].amqp)
            for name in (BUSY, STORE):
                connection.channel().queue_declare(
                    name, durable=True, arguments={"x-fedq-replicas": 3}
                )
            connection.close()
        self._wait_whole()
        names = list(self.cluster.nodes)
        for index, client in enumerate((*self._publishers, *self._consumers)):
            more = ["--rate", str(self._rate)] if client in self._publishers else []
            client.start(self.cluster.addresses(names[index % len(names)]), more)
        self._wait_moving()

    def _hear(self, client: Client, news: records.Record) -> None:
        """Who is connected where is of no use here."""

    def _tell(self, sentence: str) -> None:
        sys.stderr.write(f"{sentence}\n")

    def _take_the_rest(self) -> None:
        last = self._client("demo.consumer", [STORE])
        self._consumers.append(last)
        last.start(self.cluster.addresses())

    # --- waiting ----------------------------------------------------------------------------------

    def _wait_moving(self) -> None:
        """Until every publisher has heard confirms of what it sends from now on."""
        self.look()
        before = {client.title: client.confirmed for client in self._publishers}
        self.wait(
            "publishers hear confirms",
            lambda: all(each.confirmed > before[each.title] + 5 for each in self._publishers),
        )

    def _wait_whole(self) -> None:
        for name in (BUSY, STORE):
            self.cluster.wait_whole(name, PATIENCE_S)

    # --- faults -----------------------------------------------------------------------------------

    def hurt(self, kind: str) -> str:
        """Does a fault of the kind, waits until all is whole again; returns what was done."""
        told = FAULTS[kind](self)
        self._wait_whole()
        self._wait_moving()
        return told

    def _kill(self) -> str:
        name = self._any()
        self.cluster.kill(name)
        self._sometimes_wait()
        self._bring_back([name])
        return f"kill -9 of {name}"

    def _cut(self) -> str:
        names = self._some()
        for name in names:
            process = self.cluster.nodes[name].process
            assert process is not None
            process.kill()
        for name in names:
            self.cluster.kill(name)
        gone = sum(power.cut(self.cluster.nodes[name].directory, self._dice) for name in names)
        if len(names) == 1:
            self._sometimes_wait()
        self._bring_back(names)
        return f"power cut of {', '.join(names)}: {gone} bytes gone"

    def _pause(self) -> str:
        name = self._any()
        process = self.cluster.nodes[name].process
        assert process is not None
        length_s = self._dice.choice([0.2, 0.5, 1.0, 2.0, 5.0])
        process.send_signal(signal.SIGSTOP)
        try:
            self.play(length_s)
        finally:
            process.send_signal(signal.SIGCONT)
        return f"pause of {name} for {length_s:g} s"

    def _roll_back(self) -> str:
        name = self._any()
        node = self.cluster.nodes[name]
        data = node.directory / "data"
        stopped = self._stop_around(name)
        if name not in self._copies:
            # The first time there is nothing older yet: this start's directory is the old one.
            self._copy(name)
            self._bring_back(stopped)
            self._wait_whole()
            self._wait_moving()
            stopped = self._stop_around(name)
        shutil.rmtree(data)
        shutil.copytree(self._copies[name], data)
        if self._dice.random() < 0.5:
            del self._copies[name]
        self._settle(node)
        self._bring_back(stopped)
        return f"older directory of {name}, {len(stopped)} stopped"

    def _empty(self) -> str:
        name = self._any()
        node = self.cluster.nodes[name]
        stopped = self._stop_around(name)
        shutil.rmtree(node.directory / "data")
        self._settle(node)
        self._bring_back(stopped)
        return f"empty directory of {name}, {len(stopped)} stopped"

    def _flip(self) -> str:
        name = self._any()
        node = self.cluster.nodes[name]
        stopped = self._stop_around(name)
        files = [
            path
            for path in sorted((node.directory / "data").rglob("*"))
            if path.is_file() and path.stat().st_size and path.suffix == ".journal"
        ]
        path = self._dice.choice(files)
        content = bytearray(path.read_bytes())
        at = self._dice.randrange(len(content))
        content[at] ^= 1 << self._dice.randrange(8)
        path.write_bytes(content)
        self._settle(node)
        self._bring_back(stopped)
        place = path.relative_to(node.directory / "data")
        return f"bit flipped in {place} of {name} at {at} of {len(content)}, {len(stopped)} stopped"

    # --- nodes ------------------------------------------------------------------------------------

    def _any(self) -> str:
        return self._dice.choice(sorted(self.cluster.nodes))

    def _some(self) -> list[str]:
        """One node, or all at once."""
        return sorted(self.cluster.nodes) if self._dice.random() < 0.5 else [self._any()]

    def _stop_around(self, name: str) -> list[str]:
        """Kills the node, and every other one, too, as often as not."""
        names = sorted(self.cluster.nodes) if self._dice.random() < 0.5 else [name]
        for each in names:
            self.cluster.kill(each)
        return names

    def _sometimes_wait(self) -> None:
        if self._dice.random() < 0.5:
            self._wait_moving()

    def _copy(self, name: str) -> None:
        copy = self.cluster.nodes[name].directory / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.cluster.nodes[name].directory / "data", copy)
        self._copies[name] = copy

    def _settle(self, node: NodeProcess) -> None:
        if self._has_power:
            power.settle(node.directory)

    def _bring_back(self, names: Sequence[str]) -> None:
        """Starts the nodes in any order, as an operator does who reads what they say."""
        order = list(names)
        self._dice.shuffle(order)
        for name in order:
            self.cluster.nodes[name].start()
        for name in order:
            self._serve(name)

    def _serve(self, name: str) -> None:
        node = self.cluster.nodes[name]
        for _ in range(STARTS_MAX):
            try:
                self.cluster.wait_served(name, PATIENCE_S)
            except TooLateError:
                if node.is_running:
                    raise
                said = node.log()
                node.process = None
                if "votes again once the others" in said:
                    shutil.rmtree(node.directory / "data" / "raft")
                    self._settle(node)
                node.start()
            else:
                return
        raise TooLateError(f"{name} does not come back\n{node.log()}")


FAULTS: dict[str, Callable[[Play], str]] = {
    "kills": Play._kill,
    "cuts": Play._cut,
    "pauses": Play._pause,
    "rollbacks": Play._roll_back,
    "empties": Play._empty,
    "flips": Play._flip,
}
