"""What a pipeline needs, looked at one by one: Python, packages, Java, the source, the nodes.

Inputs: the environment, options of a read, if there are any. Output: findings in order, each well
or with a sentence that says what to do. Nothing is started but `java -version`.
"""

import platform
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple

from fedq.pipeline.failure import PipelineError
from fedq.pipeline.java import Java, cache_directory, find_java
from fedq.pipeline.options import ReadOptions
from fedq.pipeline.planning import count
from fedq.pipeline.stream_client import Stream, StreamClient

#: Package, the oldest release that will do, and the first one that was not tried.
PACKAGES: Final = (("pyspark", (4, 2), (4, 4)), ("pyarrow", (18, 0), None))
_INSTALL: Final = "pip install 'fedq[spark]'"
#: How long a silent node is asked.
_RETRY_S: Final = 3.0


class Finding(NamedTuple):
    """What was looked at, whether it is well, and what was found, or what to do."""

    subject: str
    is_well: bool
    text: str


def examine(environment: Mapping[str, str], options: ReadOptions | None) -> list[Finding]:
    """Everything, in the order in which it is needed."""
    found = [_python(environment), *map(_package, PACKAGES)]
    found.append(_looked_at("java", lambda: _java(environment)))
    found.append(_source(all(each.is_well for each in found)))
    if options is not None:
        found += nodes(options)
    return found


def _looked_at(subject: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, True, look())
    except PipelineError as error:
        return Finding(subject, False, str(error))


def _python(environment: Mapping[str, str]) -> Finding:
    mine, workers = sys.executable, environment.get("PYSPARK_PYTHON", "")
    text = f"{platform.python_version()}, {mine}"
    if not workers:
        text += f"; executors run python3 unless PYSPARK_PYTHON={mine} is set"
    return Finding("python", True, text)


def _package(wanted: tuple[str, tuple[int, int], tuple[int, int] | None]) -> Finding:
    name, least, below = wanted
    try:
        found = version(name)
    except PackageNotFoundError:
        return Finding(name, False, f"it is not installed: {_INSTALL}")
    numbers = tuple(int(part) if part.isdecimal() else 0 for part in found.split(".")[:2])
    if numbers < least or (below is not None and numbers >= below):
        bound = f"at least {least[0]}.{least[1]}"
        if below is not None:
            bound += f", below {below[0]}.{below[1]}"
        return Finding(name, False, f"{found} was not tried with this fedq ({bound}): {_INSTALL}")
    return Finding(name, True, found)


def _java(environment: Mapping[str, str]) -> str:
    java: Java = find_java(environment, cache_directory(environment))
    text = f"{java.version}, {java.origin}"
    if java.home and environment.get("JAVA_HOME", "") != java.home:
        text += f"; set JAVA_HOME={java.home}, or call fedq.pipeline.java.use_java()"
    return text


def _source(may_try: bool) -> Finding:
    """Whether Spark will find the data source."""
    if not may_try:
        return Finding("data source", False, "not looked at before the above is well")
    try:
        from fedq.pipeline.spark_source import FedqSource

        found = import_module("pyspark_fedq")
    except ImportError as error:
        return Finding("data source", False, f"it cannot be imported: {error}: {_INSTALL}")
    is_it = getattr(found, "DefaultSource", None) is FedqSource
    text = "format('fedq')" if is_it else "another package pyspark_fedq is on the path before it"
    return Finding("data source", is_it, text)


def nodes(options: ReadOptions) -> list[Finding]:
    """Whether the stream can be read: who serves what of it, and who does not answer."""
    stream = Stream(options.vhost, options.stream, retry_s=min(options.retry_s, _RETRY_S))
    found: list[Finding] = []
    with StreamClient(options.urls, options.tls, stream) as client:
        try:
            states = client.describe()
        except PipelineError as error:
            return [Finding("stream", False, str(error))]
        for state in states:
            rows = count(state.ranges, state.first, state.next)
            text = f"about {rows} rows, offsets {state.first} to {state.next}, at {state.home}"
            found.append(Finding(f"fragment {state.number}", True, text))
    return found
