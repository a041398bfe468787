"""What dramatiq's tests of its RabbitMQ broker want and its source package leaves out.

They stand in two files beside the tests in the project's repository: a broker and a worker as
fixtures, and a few names that tests import. The broker is at AMQP's port of this machine.
"""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pika  # type: ignore[import-untyped,unused-ignore]
import pytest

CREDENTIALS = pika.PlainCredentials("guest", "guest")


def _module(name: str, **names: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(names)
    module.__path__ = []
    sys.modules[name] = module


def pytest_configure() -> None:
    """Lets `from .common import …` find what the source package lacks."""
    _module("tests")
    _module(
        "tests.common",
        RABBITMQ_CREDENTIALS=CREDENTIALS,
        RABBITMQ_USERNAME=CREDENTIALS.username,
        RABBITMQ_PASSWORD=CREDENTIALS.password,
        # Here a broker that cannot be reached fails the tests.
        skip_unless_rabbit_mq=lambda test: test,
    )


@pytest.fixture
def rabbitmq_broker() -> Iterator[Any]:
    """The broker under test, empty again afterwards."""
    # Only the suite's own environment has this package.
    import dramatiq  # type: ignore[import-not-found,unused-ignore]
    from dramatiq.brokers.rabbitmq import (  # type: ignore[import-not-found,unused-ignore]
        RabbitmqBroker,
    )

    broker = RabbitmqBroker(host="127.0.0.1", max_priority=10, credentials=CREDENTIALS)
    broker.emit_after("process_boot")
    dramatiq.set_broker(broker)
    yield broker
    broker.flush_all()
    broker.close()


@pytest.fixture
def rabbitmq_worker(rabbitmq_broker: Any) -> Iterator[Any]:
    """A worker of 32 threads."""
    from dramatiq import Worker  # type: ignore[import-not-found,unused-ignore]

    worker = Worker(rabbitmq_broker, worker_threads=32)
    worker.start()
    yield worker
    worker.stop()
