"""A process with a Spark session that does what it is told: a line of JSON each, an answer each.

Its argument is where Spark runs, `local[2]` or a cluster.
"""

import json
import sys

from pyspark.sql import SparkSession

from fedq.pipeline.java import use_java
from tests.pipeline.spark.jobs import JOBS
from tests.pipeline.spark.settings import SETTINGS


def main(where: str) -> None:
    """Serves until its input ends."""
    use_java()
    builder = SparkSession.builder.master(where)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
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
