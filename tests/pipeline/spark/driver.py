"""A process with a Spark session that does what it is told: a line of JSON each, an answer each.

Its argument is where Spark runs, `local[2]` or a cluster, or `connect`: then the session is one of
Spark Connect, with a server of its own.
"""

import json
import sys

from pyspark.sql import SparkSession

from fedq.pipeline.java import use_java
from tests.pipeline.spark.jobs import JOBS

CONNECT = "connect"
#: Queries of some rows: what makes large ones fast is most of what these would cost.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.factory.idleWorkerMaxPoolSize": "2",
}


def main(where: str) -> None:
    """Serves until its input ends."""
    use_java()
    builder = SparkSession.builder
    builder = builder.remote("local[2]") if where == CONNECT else builder.master(where)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if where != CONNECT:
        spark.sparkContext.setLogLevel("ERROR")
    answer({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            result = JOBS[asked["job"]](spark, **asked["arguments"])
        except Exception as error:
            # Of whatever kind: the test judges its text.
            answer({"error": f"{type(error).__name__}: {error}"})
        else:
            answer({"result": result})
    spark.stop()


def answer(value: dict[str, object]) -> None:
    """One line on stdout, where else only Spark's own lines are."""
    sys.stdout.write(f"ANSWER {json.dumps(value)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
