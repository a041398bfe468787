"""The Spark session of a job: begun, quiet, ended, and interrupted without harm.

Inputs: what Spark is to run on, a file for its log. `session` gives a session whose errors leave as
`PipelineError`, each a sentence; its log goes into the file, not to the terminal. Times are UTC.
"""

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import Any, Final

from fedq.pipeline.failure import PipelineError
from fedq.pipeline.java import use_java
from fedq.pipeline.jobs.kit.progress import Interrupted
from fedq.pipeline.jobs.kit.sentences import sentence_of

LOCAL: Final = "local[*]"
_PACKAGES: Final = ("pyspark", "pyarrow")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
#: What jobs rely on, whatever a machine's defaults are.
SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
#: What makes local Spark a tool: no web page, few partitions.
LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
}


def check_spark() -> None:
    """Sees that Spark can begin here; raises PipelineError with what to do."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise PipelineError(f"{missing[0]} is not installed: pip install 'fedq[spark]'")
    use_java()
    # Executors on this machine run this Python, unless something else was said.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


@contextmanager
def session(name: str, master: str, log: Path, stop: Event) -> Iterator[Any]:
    """A session; SIGINT and SIGTERM set `stop` and end what Spark is at."""
    check_spark()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(f"fedq {name}")
    settings = {**SETTINGS, **(LOCAL_SETTINGS if master.startswith("local") else {})}
    settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_logging(log)}"
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _words_to(log):
            spark = builder.getOrCreate()
    except Exception as error:
        # Java's own words, of whatever kind: there is nobody else to tell them.
        raise sentence_of(str(error), str(log)) from error
    try:
        with _interruptible(spark, stop):
            yield spark
    except PipelineError:
        raise
    except Exception as error:
        if stop.is_set():
            raise Interrupted("interrupted: the same command goes on where this one was") from error
        if isinstance(error, PySparkException) or type(error).__name__ == "Py4JJavaError":
            raise sentence_of(str(error), str(log)) from error
        raise
    finally:
        spark.stop()


@contextmanager
def _words_to(log: Path) -> Iterator[None]:
    """What is said on stderr by Java, and by the processes that it starts, goes to the log."""
    sys.stderr.flush()
    mine = os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(mine, 2)
        os.close(file)
        os.close(mine)


@contextmanager
def _interruptible(spark: Any, stop: Event) -> Iterator[None]:
    """The first signal ends Spark's jobs and lets the driver finish; the second one ends all."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        # In a thread: this one may be in the middle of a call to Java.
        Thread(target=spark.sparkContext.cancelAllJobs, daemon=True).start()

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _logging(log: Path) -> str:
    """The configuration of Spark's log, as a file beside it; where that is, as a URI."""
    lines = (
        "rootLogger.level = warn",
        "rootLogger.appenderRef.file.ref = file",
        "appender.file.type = File",
        "appender.file.name = file",
        f"appender.file.fileName = {log}",
        "appender.file.layout.type = PatternLayout",
        "appender.file.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex",
    )
    path = log.with_suffix(".log4j2.properties")
    path.write_text("\n".join(lines) + "\n")
    return path.as_uri()
