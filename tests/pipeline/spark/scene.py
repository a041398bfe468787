"""A stream, a query that publishes what is in it, and gates that hold it up amid a batch."""

from pathlib import Path

from tests.integration.harness import Cluster
from tests.integration.stock import BlockingChannel, connect
from tests.integration.waiting import until
from tests.pipeline.spark.conftest import Driver, urls
from tests.pipeline.spark.gate import Gate
from tests.pipeline.spark.test_write import drained

STREAM = {"x-queue-type": "stream"}
NOW = {"availableNow": True}
#: Rows of the query that is killed, and of each of its batches.
COUNT, ROWS = 600, 200
#: What a row takes on the wire, about.
ROW_BYTES = 200


def fill(channel: BlockingChannel, stream: str, numbers: range) -> None:
    for number in numbers:
        channel.basic_publish("", stream, b"%06d" % number)


class Scene:
    """A stream, a query that publishes what is in it to a queue, and gates before the nodes."""

    def __init__(self, cluster: Cluster, name: str, place: Path) -> None:
        self.cluster = cluster
        self.source, self.queue = f"{name}-in", f"{name}-out"
        self._place = place
        self._gates = [Gate(node.amqp) for node in cluster.nodes.values()]
        connection = connect(cluster.nodes["a"].amqp)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(self.source, durable=True, arguments=STREAM)
        channel.queue_declare(self.queue, durable=True)
        fill(channel, self.source, range(COUNT))
        connection.close()

    def stop(self) -> None:
        for gate in self._gates:
            gate.stop()

    def begin(self, driver: Driver) -> str:
        source = {
            "url": urls(self.cluster), "stream": self.source, "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(ROWS),
        }  # fmt: skip
        places = ",".join(f"amqp://guest:guest@{gate.place}" for gate in self._gates)
        name = driver.run(
            "forward", source=source, sink={"url": places, "routingKey": self.queue},
            place=str(self._place), trigger=NOW,
        )  # fmt: skip
        return str(name)

    def committed(self) -> int:
        """How many batches Spark has done with."""
        commits = self._place / "checkpoint" / "commits"
        return len(list(commits.glob("[0-9]*"))) if commits.exists() else 0

    def shut_amid(self, rows: int) -> None:
        """Once so many rows are published, no confirm passes."""
        for gate in self._gates:
            gate.shut_after(rows * ROW_BYTES)

    def await_shut(self, driver: Driver, query: str) -> None:
        """Waits until a gate is shut, or the query has failed."""

        def is_shut() -> bool:
            failure = driver.run("failure", name=query)
            assert not failure, failure
            return any(gate.is_shut.is_set() for gate in self._gates)

        until("rows are there, and not confirmed", is_shut, 90)

    def open(self) -> None:
        for gate in self._gates:
            gate.open()

    def published(self) -> list[int]:
        connection = connect(self.cluster.living().amqp)
        found = sorted(map(int, drained(connection.channel(), self.queue)))
        connection.close()
        return found
