"""The two fixtures that aiormq's tests want and its source package leaves out.

They stand in a file beside the tests' folder in the project's repository. Inputs:
`CONFORMANCE_HOST`, `CONFORMANCE_PORT` and `CONFORMANCE_TLS_PORT`.
"""

import os
from typing import Any, NamedTuple

import pytest


class Container(NamedTuple):
    """A broker "in a container": where its ports are."""

    host: str
    ports: dict[str, int]


@pytest.fixture(scope="session")
def rabbitmq_container() -> Container:
    """The broker under test."""
    return Container(
        os.environ["CONFORMANCE_HOST"],
        {
            "5672/tcp": int(os.environ["CONFORMANCE_PORT"]),
            "5671/tcp": int(os.environ["CONFORMANCE_TLS_PORT"]),
        },
    )


@pytest.fixture(scope="session")
def amqp_direct_url(rabbitmq_container: Container) -> Any:
    """Where the broker listens without TLS, as a `yarl.URL`."""
    # Only the suite's own environment has this package.
    from yarl import URL  # type: ignore[import-not-found,unused-ignore]

    return URL.build(
        scheme="amqp",
        user="guest",
        password="guest",
        host=rabbitmq_container.host,
        port=rabbitmq_container.ports["5672/tcp"],
        path="//",
    )
