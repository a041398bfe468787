"""Brokers for the tests: one node alone, and three that form a cluster.

Tests that ask for `brokers` run on both; they use only AMQP 0-9-1, so they can be pointed at
any other broker to prove the tests themselves:

    FEDQ_TEST_AMQP=127.0.0.1:5672 pytest tests/integration/test_plain_*.py
"""

import itertools
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.integration.harness import UNHURRIED, Cluster, logs_of, watched
from tests.integration.stock import Address, BlockingChannel, BlockingConnection, connect, pika
from tests.integration.surface import DEFAULT, ONE, SPREAD, THREE, Stage
from tests.integration.waiting import deadline

TEST_S = 60.0
OTHER_BROKER = os.environ.get("FEDQ_TEST_AMQP", "")

Connect = Callable[..., BlockingConnection]
_number = itertools.count(1)
#: Clusters that many tests use.
shared: list[Cluster] = []


@pytest.fixture(autouse=True, scope="session")
def _forked(forks: None) -> None:
    """The command line, and nodes, are forks of one process."""


@pytest.fixture(scope="session")
def _forked_workers() -> Iterator[None]:
    """Celery's workers are forks of one process."""
    # Here, since most runs have nothing to do with Celery.
    from tests.integration.celery_worker import workers_as_forks

    with workers_as_forks():
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A failed test shows what its nodes wrote; not those of clusters that others use."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed:
        values = getattr(item, "funcargs", {})
        used = [*values.get("brokers", []), *values.get("nodes", {}).values()]
        mine = [
            cluster
            for cluster in watched
            if cluster not in shared or any(address in used for address in cluster.addresses())
        ]
        report.sections.extend(logs_of(mine))


@pytest.fixture(autouse=True)
def _bounded(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test waits for ever for a broker that does not answer."""
    patience = request.node.get_closest_marker("patience")
    seconds = float(patience.args[0]) if patience else TEST_S
    with deadline(f"{request.node.name} ends", seconds):
        yield
    watched[:] = shared


def pytest_configure(config: pytest.Config) -> None:
    """Tests of failures take longer than others; they say how long."""
    config.addinivalue_line("markers", "patience(seconds): bounds this test instead of 60 s")


def other_addresses() -> list[Address]:
    """The broker under test if it is not ours; once is as good as three times."""
    pairs = (pair.rpartition(":") for pair in OTHER_BROKER.split(","))
    return [Address(host, int(port)) for host, _, port in pairs]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes that tests share and leave alive."""
    if OTHER_BROKER:
        pytest.skip("another broker is under test")
    with Cluster(tmp_path_factory.mktemp("three"), more=UNHURRIED) as nodes:
        shared.append(nodes)
        yield nodes


@pytest.fixture(scope="session")
def lone_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node without peers that tests share and leave alive."""
    with Cluster(tmp_path_factory.mktemp("one"), names=("alone",)) as node:
        shared.append(node)
        yield node


@pytest.fixture(params=["one", "three"])
def brokers(request: pytest.FixtureRequest) -> list[Address]:
    """Where the test's broker listens: once for a single node, three times for a cluster."""
    if OTHER_BROKER:
        if request.param == "three":
            pytest.skip("another broker is under test, once")
        return other_addresses()
    fixture = "lone_node" if request.param == "one" else "cluster"
    nodes: Cluster = request.getfixturevalue(fixture)
    return nodes.addresses()


@pytest.fixture
def nodes(request: pytest.FixtureRequest) -> dict[str, Address]:
    """Where the three nodes a, b and c of a cluster listen."""
    if OTHER_BROKER:
        return {name: other_addresses()[0] for name in "abc"}
    three: Cluster = request.getfixturevalue("cluster")
    return {name: node.amqp for name, node in three.nodes.items()}


@pytest.fixture
def open_connection() -> Iterator[Callable[..., BlockingConnection]]:
    """`open_connection(address, **parameters)`; what is still open is closed after the test."""
    opened: list[BlockingConnection] = []

    def open_one(address: Address, **more: object) -> BlockingConnection:
        opened.append(connect(address, **more))
        return opened[-1]

    yield open_one
    for connection in opened:
        if connection.is_open:
            # Some tests stop the broker: then the connection is lost, and closing finds it out.
            with suppress(pika.exceptions.AMQPError):
                connection.close()


@pytest.fixture
def here(brokers: list[Address], open_connection: Connect) -> BlockingChannel:
    """A channel on the first node."""
    return open_connection(brokers[0]).channel()


@pytest.fixture
def there(brokers: list[Address], open_connection: Connect) -> BlockingChannel:
    """A channel of another connection, on another node if there are several."""
    return open_connection(brokers[-1]).channel()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name nobody else uses, for queues and exchanges."""
    plain = re.sub(r"[^a-z0-9_]", "-", request.node.name.lower())
    return f"{plain}{next(_number)}-{os.getpid()}"


@pytest.fixture
def queue(here: BlockingChannel, there: BlockingChannel, name: str) -> Iterator[str]:
    """A shared queue, declared on the first node, deleted after the test."""
    here.queue_declare(name)
    yield name
    if there.is_open:
        there.queue_delete(name)


@pytest.fixture(params=DEFAULT)
def stage(request: pytest.FixtureRequest, open_connection: Connect, name: str) -> Iterator[Stage]:
    """The stage of a test in one of the places; another broker is one node without fragments."""
    place = str(request.param)
    if OTHER_BROKER:
        if place in (THREE, SPREAD):
            pytest.skip("another broker is under test, once")
        addresses = other_addresses()
    else:
        cluster: Cluster = request.getfixturevalue("lone_node" if place == ONE else "cluster")
        addresses = cluster.addresses()
    one = Stage(addresses, open_connection, name, place)
    yield one
    one.close()
