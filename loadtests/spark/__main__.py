"""`python -m loadtests.spark [--rows N]`: Spark on `local[2]` and one node, in one run.

Claims: a sink that confirms and is exactly once is many times a loop of a stock client; and a
filter that keeps 1 % of a stream, on two columns, is at least three times as fast as the whole.
Everything is on this machine: node, executors and Spark share its cores. Needs PySpark and Java.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from fedq.pipeline.java import use_java
from fedq.pipeline.sink.encoding import front_of
from fedq.pipeline.sink.options import write_options
from fedq.pipeline.sink.ordering import Rows
from fedq.pipeline.sink.task import Part, publish_rows
from tests.integration.harness import Cluster, NodeProcess
from tests.integration.stock import connect, pika

BODY = 100
KEYS = 100
STREAM = {"x-queue-type": "stream"}
#: A loop of the stock client gets so many rows less.
LOOP_SHARE = 100


class Figures:
    """Names of works, with rows a second, and what each row costs in processors' time."""

    def __init__(self, node: int) -> None:
        """`node`: its process id."""
        self._node = psutil.Process(node)
        self._table = Table("work", "rows", "seconds", "rows/s", "µs node", "µs Spark")

    def take(self, name: str, rows: int, work: Callable[[], object]) -> float:
        """Does the work, and notes it; rows a second."""
        begun, before = time.monotonic(), self._spent()
        work()
        seconds = time.monotonic() - begun
        costs = [
            f"{(now - then) / rows * 1e6:.2f}"
            for now, then in zip(self._spent(), before, strict=True)
        ]
        self._table.add_row(name, f"{rows:,}", f"{seconds:.2f}", f"{rows / seconds:,.0f}", *costs)
        return rows / seconds

    def _spent(self) -> tuple[float, float]:
        """Processor seconds of the node; and of this process with all others that it began."""
        me = psutil.Process()
        others = [each for each in me.children(recursive=True) if each.pid != self._node.pid]
        return _seconds(self._node), sum(map(_seconds, [me, *others]))

    def show(self) -> None:
        """The table, for people."""
        Console().print(self._table)


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        # A worker of Spark that has ended.
        return 0.0
    return float(times.user + times.system)


def session() -> SparkSession:
    """Spark on two cores of this machine."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    use_java()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.python.filterPushdown.enabled", "true")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def loop(node: NodeProcess, rows: int) -> None:
    """Publishes with pika, a confirm each."""
    connection = connect(node.amqp)
    channel = connection.channel()
    channel.confirm_delivery()
    properties = pika.BasicProperties(delivery_mode=2)
    for number in range(rows):
        channel.basic_publish("", "out", b"%0100d" % number, properties)
    connection.close()


def emptied(node: NodeProcess, rows: int) -> None:
    """Looks that all of the rows are there, and begins anew."""
    connection = connect(node.amqp)
    channel = connection.channel()
    count = channel.queue_declare("out", passive=True).method.message_count
    assert count == rows, f"{count} messages, not {rows}"
    channel.queue_delete("out")
    channel.queue_declare("out", durable=True)
    connection.close()


def writes(spark: SparkSession, node: NodeProcess, rows: int, figures: Figures) -> None:
    """Batches of rows, published in all ways."""
    connection = connect(node.amqp)
    connection.channel().queue_declare("out", durable=True)
    connection.close()
    url = f"amqp://guest:guest@{node.amqp.host}:{node.amqp.port}"
    table = spark.range(0, rows, 1, 2).selectExpr(f"lpad(id, {BODY}, '0') AS body")

    def write(**options: str) -> None:
        given = {"url": url, "routingKey": "out", **options}
        table.write.format("fedq").options(**given).mode("append").save()

    few = max(1, rows // LOOP_SHARE)
    figures.take("pika, a loop with confirms", few, lambda: loop(node, few))
    emptied(node, few)
    # Spark starts its workers.
    table.limit(1).write.format("fedq").options(url=url, routingKey="out").mode("append").save()
    emptied(node, 1)
    figures.take("written, exactly once", rows, write)
    emptied(node, rows)
    name = "written, exactly once, in a promised order"
    figures.take(name, rows, lambda: write(rowOrder="deterministic"))
    emptied(node, rows)
    figures.take("written, at least once", rows, lambda: write(exactlyOnce="false"))
    emptied(node, rows)


def fill(node: NodeProcess, rows: int) -> None:
    """A stream of rows with a hundred keys, each other than its neighbours."""
    connection = connect(node.amqp)
    channel = connection.channel()
    channel.queue_declare("in", durable=True, arguments=STREAM)
    channel.queue_bind("in", "amq.topic", "#")
    connection.close()
    fronts = [
        front_of("amq.topic", f"key.{each}", {"delivery_mode": 2}, None) for each in range(KEYS)
    ]

    def each_row() -> Iterator[Rows]:
        for number in range(rows):
            yield Rows(fronts[number % KEYS], [b"%0100d" % number])

    given = {
        "url": f"amqp://guest:guest@{node.amqp.host}:{node.amqp.port}", "exactlyOnce": "false",
        "exchange": "amq.topic",
    }  # fmt: skip
    publish_rows(each_row(), write_options(given, is_streaming=False), Part("fill", 0, 0))


def reads(spark: SparkSession, node: NodeProcess, rows: int, figures: Figures) -> None:
    """A whole stream, and what a filter leaves of it."""
    fill(node, rows)
    source = spark.read.format("fedq").options(
        url=f"fedq://guest:guest@{node.admin.host}:{node.admin.port}", stream="in",
        minPartitions="2",
    )  # fmt: skip
    every = source.load()
    pushed = source.option("pushFilters", "true").load().where("routing_key = 'key.7'")
    left = every.where("routing_key = 'key.7'")
    totals = ("count(1)", "sum(length(body))")
    every.selectExpr(*totals).collect()
    found = [
        figures.take("read, all of it", rows, lambda: every.selectExpr(*totals).collect()),
        figures.take("read, 1 % by Spark's filter", rows, lambda: left.select("offset").collect()),
        figures.take(
            "read, 1 % by the node's", rows, lambda: pushed.select("offset", "body").collect()
        ),
    ]
    Console().print(f"the filter at the node is {found[2] / found[0]:.1f} times the whole read")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.spark")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--only", choices=("writes", "reads"))
    given = parser.parse_args()
    spark = session()
    with tempfile.TemporaryDirectory() as place, Cluster(Path(place), ("a",)) as cluster:
        node = cluster.nodes["a"]
        assert node.process is not None, "it runs"
        figures = Figures(node.process.pid)
        if given.only != "reads":
            writes(spark, node, given.rows, figures)
        if given.only != "writes":
            reads(spark, node, given.rows, figures)
        figures.show()
    spark.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
