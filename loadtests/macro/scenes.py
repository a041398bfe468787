"""What is done with a broker before and after a load, and measured: a restart, a copy that joins.

In: a broker that runs, the work, how a load is generated. Out: figures beside those of the load.
Everything has a deadline; what does not come to its end raises with words.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from loadtests.macro.brokers import Broker, FedqBroker
from loadtests.macro.works import Scene, Work
from tests.integration.stock import Address, connect, pika
from tests.integration.waiting import until

#: For a broker that was killed, and for a copy that joins.
RESTART_S: Final = 300.0
JOIN_S: Final = 600.0
#: The load beside a copy that joins, and for how long it is measured without one.
PACED: Final = (
    "--rate", "2000", "--persistent", "--confirms", "200", "--prefetch", "200", "--size", "16",
    "--queue-argument", "x-fedq-replicas=2", "--warm-up", "1",
)  # fmt: skip
IDLE_S: Final = 5.0
#: While a copy joins, no turn is to take longer.
LONG_TURN_US: Final = 50_000
#: How fast a copy is to come, in bytes a second: so long the load beside it is measured.
JOINING_BYTES_PER_S: Final = 100_000_000

#: Generates a load (options of `fedq bench`) within so many seconds: what it printed, what failed.
Generate = Callable[[tuple[str, ...], float], tuple[dict[str, Any], str]]


class Stage(Protocol):
    """What happens around the load of a work."""

    def before(self) -> None:
        """Prepares the broker."""

    def after(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """Does what is to be measured once the load is over; returns its figures."""


def stage_of(work: Work, broker: Broker, generate: Generate) -> Stage:
    """The stage of a work."""
    if work.scene is Scene.RESTART:
        return _Restart(broker)
    if work.scene is Scene.JOIN:
        assert isinstance(broker, FedqBroker), "the work is fedq's alone"
        return _Join(broker, generate)
    return _Nothing()


class _Nothing:
    def before(self) -> None:
        """Nothing to prepare."""

    def after(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """Nothing more to measure."""
        del outcome
        return {}


def messages_in(address: Address, queue: str) -> int | None:
    """How many messages a durable queue has; None while nobody can say."""
    try:
        connection = connect(address)
        try:
            answer = connection.channel().queue_declare(queue, passive=True)
        finally:
            connection.close()
    except (pika.exceptions.AMQPError, OSError):
        return None
    return int(answer.method.message_count)


class _Restart:
    """All nodes are killed, and started again on their data."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def before(self) -> None:
        """Nothing to prepare."""

    def after(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """Seconds from the start until a client is told that all that was confirmed is there."""
        stored, queue = outcome["filling"]["stored"], outcome["kept"][0]
        self._broker.kill()
        began = time.monotonic()
        self._broker.start()
        address = self._broker.addresses[0]
        counts: list[int] = []

        def answers() -> bool:
            found = messages_in(address, queue)
            if found is not None:
                counts.append(found)
            return found is not None and found >= stored

        until(f"{self._broker.name} has {stored} messages after a restart", answers, RESTART_S)
        return {"restart_seconds": time.monotonic() - began, "restarted_with": counts[-1]}


class _Join:
    """The last node is away while a queue is filled, and joins as a copy of it."""

    def __init__(self, broker: FedqBroker, generate: Generate) -> None:
        self._broker = broker
        self._generate = generate
        self._name = list(broker.cluster.nodes)[-1]

    def before(self) -> None:
        """Stops the node that is going to join."""
        self._broker.cluster.terminate(self._name)

    def after(self, outcome: dict[str, Any]) -> dict[str, Any]:
        """How fast the copy came, and what publishers beside it felt."""
        size = int(outcome["options"]["size_min"]) * int(outcome["filling"]["stored"])
        queue = outcome["kept"][0]
        figures: dict[str, Any] = {"confirm_us_before": self._paced(IDLE_S)["confirm_us"]}
        long_before = self._long_turns()
        beside: dict[str, Any] = {}
        seconds = max(size / JOINING_BYTES_PER_S, 1.0)
        load = threading.Thread(target=lambda: beside.update(self._paced(seconds)))
        load.start()
        try:
            began = time.monotonic()
            self._broker.cluster.restart(self._name)
            served = time.monotonic()
            until(f"{self._name} has a copy", lambda: self._has_copy(queue), JOIN_S)
            figures["joined_seconds"] = time.monotonic() - began
            figures["joined_bytes_per_second"] = size / max(time.monotonic() - served, 1e-3)
        finally:
            load.join()
        figures["long_turns"] = self._long_turns() - long_before
        return figures | {"confirm_us_beside": beside["confirm_us"]}

    def _paced(self, seconds: float) -> dict[str, Any]:
        found, failure = self._generate((*PACED, "--seconds", f"{seconds:g}"), seconds + 60.0)
        if failure:
            raise RuntimeError(f"the load beside the copy: {failure}")
        return found

    def _long_turns(self) -> int:
        """How many turns of all nodes that are up took longer than `LONG_TURN_US`."""
        members = self._broker.cluster.ask("cluster", "members")["members"]
        told = [member["figures"]["turns"] for member in members if member["figures"]]
        counts = [each for turns in told for each in turns["within_us"]]
        return sum(
            each["turns"]
            for each in counts
            if each["bound"] is None or each["bound"] > LONG_TURN_US
        )

    def _has_copy(self, queue: str) -> bool:
        fragments = self._broker.cluster.fragments(queue)
        return all(self._name in each["in_sync"] for each in fragments)
