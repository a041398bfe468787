"""A connection and a channel for each scenario, closed afterwards."""

from collections.abc import Iterator

import pytest

from conformance.scenarios.pika.broker import Blocking, Channel, connect


@pytest.fixture
def connection() -> Iterator[Blocking]:
    """An open blocking connection."""
    opened = connect()
    yield opened
    if opened.is_open:
        opened.close()


@pytest.fixture
def channel(connection: Blocking) -> Channel:
    """A channel of it."""
    return connection.channel()
