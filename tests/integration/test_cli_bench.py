"""`fedq bench` against real nodes: each kind of run, what it finds, and how it fails."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadtests.macro.brokers import RabbitBroker
from tests.differential.brokers import reference_missing
from tests.integration.harness import Cluster, environment, run
from tests.integration.questions import Answer
from tests.integration.stock import connect
from tests.integration.waiting import patient

pytestmark = pytest.mark.slow

RUN_S = 50.0
SHORT = ("--seconds", "0.4", "--warm-up", "0.1")

#: Each kind of run, small.
WORKS = {
    "one to one": (),
    "sizes": ("--size", "16-300"),
    "large": ("--size", "100000", "--rate", "50"),
    "reliable": ("--persistent", "--confirms", "50", "--prefetch", "20"),
    "acks for many": ("--confirms", "50", "--prefetch", "20", "--ack-every", "10"),
    "paced": ("--rate", "500"),
    "many to one to many": ("--producers", "3", "--consumers", "4"),
    "more queues": ("--producers", "2", "--consumers", "5", "--queues", "5"),
    "exclusive": ("--consumers", "2", "--queues", "2", "--exclusive"),
    "nobody consumes": ("--consumers", "0", "--rate", "100", "--confirms", "10"),
    "two processes": ("--producers", "2", "--consumers", "2", "--queues", "2", "--processes", "2"),
    "fan-out": ("--subscribers", "30", "--rate", "100"),
    "fan-out at full speed": ("--subscribers", "30", "--size", "16-99", "--producers", "2"),
    "fan-out in two processes": ("--subscribers", "20", "--processes", "2", "--rate", "50"),
    "shared connections": ("--subscribers", "30", "--connections", "4"),
    "topics": ("--bindings", "60"),
    "topics on queues": ("--bindings", "60", "--bound-queues", "7", "--exclusive",
                         "--consumers", "7", "--producers", "2"),
    "a stream": ("--persistent", "--confirms", "50", "--prefetch", "20", "--consumers", "3",
                 "--queue-argument", "x-queue-type=stream"),
    "streams from their starts": (
        "--fill", "2000", "--persistent", "--confirms", "50", "--prefetch", "20",
        "--consumers", "6", "--queues", "2", "--queue-argument", "x-queue-type=stream",
        "--consumer-argument", "x-stream-offset=first",
    ),
    "idle": ("--producers", "0", "--consumers", "0", "--idle", "50"),
}  # fmt: skip


def bench(*arguments: str, url: str) -> Answer:
    """A run that ends by itself."""
    return run("bench", "--url", url, *arguments)


def measured(*arguments: str, url: str) -> dict[str, Any]:
    """The JSON of a run that must be sound."""
    done = bench(*SHORT, "--quiet", "--json", *arguments, url=url)
    # That it was busy says something about the machine of the test, and nothing else.
    told = [line for line in done.err.splitlines() if "of a core: it" not in line]
    assert (done.code, told) == (0, [])
    result: dict[str, Any] = json.loads(done.out)
    return result


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node."""
    with Cluster(tmp_path_factory.mktemp("bench"), names=("a",)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitBroker]:
    """A RabbitMQ, where there is one."""
    if reference_missing() or not RabbitBroker.is_installed():
        pytest.skip("no RabbitMQ is installed here")
    with RabbitBroker(tmp_path_factory.mktemp("rabbit"), cores="") as broker:
        yield broker


def is_sound(result: dict[str, Any], work: str) -> None:
    """Everything came, once, in order; and there are figures."""
    faults = ("lost", "repeated", "out_of_order", "refused")
    assert [result[fault] for fault in faults] == [0, 0, 0, 0]
    assert (result["version"], result["error"], result["left_behind"]) == (1, None, None)
    options = WORKS[work]
    if "--idle" in options:
        assert result["published"] == result["delivered"] == 0
        return
    assert result["published"] > 0
    assert result["confirmed"] == (result["published"] if "--confirms" in options else 0)
    if "nobody" not in work:
        assert result["delivered"] > 0
        assert 0 < result["latency_us"]["p50"] <= result["latency_us"]["max"]
    if result["kind"] == "fan-out":
        subscribers = int(options[options.index("--subscribers") + 1])
        assert result["delivered"] == subscribers * result["published"]
    if result["kind"] == "queues" and "nobody" not in work:
        readers = 3 if "stream" in work else 1
        assert result["delivered"] == readers * result["published"]


@pytest.mark.parametrize("work", WORKS)
def test_each_kind_of_run_is_sound(node: Cluster, work: str) -> None:
    process = node.nodes["a"].process
    assert process is not None
    options = ("--pid", str(process.pid), *WORKS[work])
    result = measured(*options, url=node.nodes["a"].amqp.url)
    is_sound(result, work)
    broker = result["brokers"][0]
    assert broker["pid"] == process.pid
    assert broker["rss_bytes_connected"] > 10 << 20
    assert result["publishes_per_cpu_second"] is not None
    assert 0 < result["generator_share"] < 1.5


@pytest.mark.parametrize(
    "work",
    ["sizes", "reliable", "many to one to many", "fan-out", "shared connections", "topics", "idle"],
)
def test_another_broker_is_loaded_alike(rabbit: RabbitBroker, work: str) -> None:
    result = measured("--pid", str(rabbit.pids[0]), *WORKS[work], url=rabbit.address.url)
    is_sound(result, work)


def test_a_queue_is_filled_and_then_emptied(node: Cluster) -> None:
    options = ("--fill", "3000", "--producers", "2", "--confirms", "50", "--prefetch", "20")
    result = measured(*options, "--seconds", "20", url=node.nodes["a"].amqp.url)
    assert result["published"] == result["confirmed"] == result["delivered"] == 3_000
    assert result["filling"]["is_whole"]
    assert result["filling"]["stored"] == 3_000
    assert result["filling"]["first_per_second"] > 0
    # Nobody published while it was emptied, and nobody consumed before.
    assert result["publish_per_second"] == 0
    assert result["deliver_per_second"] > 0


def test_a_broker_that_takes_no_more_ends_the_filling_in_time(tmp_path: Path) -> None:
    few = {"limits": {"memory_bytes": 4 << 20}}
    with Cluster(tmp_path, names=("a",), more=few) as cluster:
        options = ("--fill", "20000", "--size", "1024", "--confirms", "100", "--consumers", "1")
        result = measured(*options, "--seconds", "3", url=cluster.nodes["a"].amqp.url)
    filling = result["filling"]
    assert not filling["is_whole"]
    assert 0 < filling["stored"] < 20_000
    assert filling["first_per_second"] is None
    # What it took is there, all the same.
    assert result["delivered"] == result["published"] == result["confirmed"]


def test_a_filling_that_nobody_empties_ends_in_time_too(tmp_path: Path) -> None:
    few = {"limits": {"memory_bytes": 4 << 20}}
    with Cluster(tmp_path, names=("a",), more=few) as cluster:
        options = ("--fill", "20000", "--size", "1024", "--confirms", "100", "--consumers", "0")
        result = measured(*options, "--seconds", "3", url=cluster.nodes["a"].amqp.url)
    assert 0 < result["filling"]["stored"] < 20_000
    assert (result["error"], result["left_behind"]) == (None, None)


def test_nothing_is_left_behind(node: Cluster) -> None:
    before = node.ask("queue", "list")
    measured("--durable", url=node.nodes["a"].amqp.url)
    assert node.ask("queue", "list") == before


def test_people_get_tables(node: Cluster) -> None:
    done = bench(*SHORT, "--subscribers", "5", "--rate", "50", url=node.nodes["a"].amqp.url)
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    words = [line[0] for line in lines if line]
    assert "MESSAGES" in words
    assert "published" in words
    assert ["to", "the", "last", "subscriber"] in [line[:4] for line in lines]
    assert "measuring: " in done.err


def test_clients_spread_over_addresses(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        urls = [address.url for address in cluster.addresses()]
        more = [option for url in urls[1:] for option in ("--url", url)]
        result = measured(
            *more, "--producers", "3", "--consumers", "3", "--persistent", "--confirms", "50",
            "--prefetch", "50", url=urls[0],
        )  # fmt: skip
        assert result["delivered"] >= result["published"] > 0
        fanout = measured(*more, "--subscribers", "9", "--rate", "50", url=urls[0])
        assert fanout["delivered"] == 9 * fanout["published"]


def test_a_loss_is_found(node: Cluster) -> None:
    done = bench(
        *SHORT, "--json", "--quiet", "--queue-argument", "x-max-length=3", "--patience", "1",
        "--prefetch", "1", url=node.nodes["a"].amqp.url,
    )  # fmt: skip
    result = json.loads(done.out)
    assert done.code == 1
    assert result["lost"] == result["published"] - result["delivered"] > 0
    assert done.err == (
        f"fedq: {result['lost']} messages were lost, 0 repeated, 0 out of order, 0 refused\n"
    )


def test_a_refusal_is_counted(node: Cluster) -> None:
    done = bench(
        *SHORT, "--json", "--quiet", "--queue-argument", "x-max-length=0", "--queue-argument",
        "x-overflow=reject-publish", "--confirms", "9", "--rate", "50", "--consumers", "0",
        url=node.nodes["a"].amqp.url,
    )  # fmt: skip
    result = json.loads(done.out)
    assert done.code == 1
    assert result["refused"] == result["published"] > 0
    assert result["confirmed"] == 0


@pytest.mark.parametrize("work", ["one to one", "fan-out", "reliable"])
def test_a_broker_that_dies_ends_the_run_with_a_sentence(tmp_path: Path, work: str) -> None:
    with Cluster(tmp_path, names=("a",)) as cluster:
        command = [sys.executable, "-m", "fedq", "bench", "--url", cluster.nodes["a"].amqp.url]
        with subprocess.Popen(
            [*command, *WORKS[work], "--seconds", "30", "--json", "--patience", "5"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        ) as process:  # fmt: skip
            assert process.stderr is not None
            for line in process.stderr:
                if line.startswith("warming up"):
                    break
            cluster.kill("a")
            started = time.monotonic()
            output, problems = process.communicate(timeout=patient(RUN_S))
        assert time.monotonic() - started < patient(20)
        assert process.returncode == 1
        error = json.loads(output)["error"]
        assert "hung up" in error or "reset" in error or "Broken pipe" in error
        assert f"fedq: {error}\n" in problems
        assert "Traceback" not in problems


def test_a_broker_that_stops_answering_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    with Cluster(tmp_path, names=("a",)) as cluster:
        process = cluster.nodes["a"].process
        assert process is not None
        url = cluster.nodes["a"].amqp.url
        connect(cluster.nodes["a"].amqp).close()
        process.send_signal(signal.SIGSTOP)
        done = bench(*SHORT, "--patience", "1", url=url)
        assert done.code == 1
        assert "no answer within 1 s" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--size", "3"), "--size"),
        (("--prefetch", "3", "--auto-ack"), "--auto-ack"),
        (("--queue-argument", "x"), "name=value"),
        (("--pid", "999999999"), "no such process"),
        (("--idle", "900000"), "--processes"),
        (("--url", "amqps://there"), "without TLS"),
    ],
)
def test_options_without_sense_are_refused(options: tuple[str, ...], words: str) -> None:
    done = bench(*options, url="amqp://127.0.0.1:1")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("fedq: ")
    assert words in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("path", "words"),
    [("guest:wrong@{}", "403 ACCESS_REFUSED"), ("{}/nowhere", "530 NOT_ALLOWED")],
)
def test_a_refused_login_is_told(node: Cluster, path: str, words: str) -> None:
    address = node.nodes["a"].amqp
    done = bench(*SHORT, url="amqp://" + path.format(f"{address.host}:{address.port}"))
    assert done.code == 1
    assert words in done.err


def test_nobody_there_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        done = bench(*SHORT, url=f"amqp://127.0.0.1:{free.getsockname()[1]}")
    assert done.code == 1
    assert "Connection refused" in done.err
