"""The two brokers: a fedq node or cluster as processes of their own, and a real RabbitMQ.

RabbitMQ is the one at `FEDQ_RABBITMQ=host:port`, or one that is installed on this machine and
started on free ports in a directory of its own. `reference_missing` says why there is none.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from loadtests.macro.brokers import RabbitBroker, RabbitNode
from tests.differential.side import Side
from tests.integration.harness import Cluster, logs_of
from tests.integration.stock import Address

HOW_TO_INSTALL = """\
A RabbitMQ to compare with, one of:
  Debian, Ubuntu:  apt-get install rabbitmq-server   (the service need not run: the test starts
                   an instance of its own in a temporary directory)
  a container:     docker run --rm -p 127.0.0.1:5673:5672 rabbitmq:3.10
                   and FEDQ_RABBITMQ=127.0.0.1:5673 (user guest must be allowed from there, and
                   `stream_tick_interval` of application rabbit be 20 ms, for streams' counts)
fedq is compared with 3.10; a later release may differ in what docs/DIFFERENCES.md lists."""


#: How often RabbitMQ counts the messages of streams, instead of every five seconds.
_COUNTS_STREAMS_EVERY_MS: Final = 20


class PromptRabbit(RabbitBroker):
    """A RabbitMQ that soon knows how many messages a stream has."""

    def _environment(self, node: RabbitNode) -> dict[str, str]:
        words = f"-rabbit stream_tick_interval {_COUNTS_STREAMS_EVERY_MS}"
        return super()._environment(node) | {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": words}


def reference_missing() -> str:
    """Why there is no RabbitMQ to compare with; "" when there is one."""
    if os.environ.get("FEDQ_RABBITMQ") or RabbitBroker.is_installed():
        return ""
    return (
        "no RabbitMQ to compare with: neither is FEDQ_RABBITMQ=host:port set nor "
        "rabbitmq-server installed; python -m tests.differential --install tells how to get one"
    )


@contextmanager
def rabbit(directory: Path) -> Iterator[Side]:
    """The reference."""
    given = os.environ.get("FEDQ_RABBITMQ", "")
    if given:
        host, _, port = given.rpartition(":")
        address = Address(host, int(port))
        with closing(Side("RabbitMQ", {"a": address, "b": address}, None)) as side:
            yield side
        return
    with PromptRabbit(directory / "rabbit", cores="") as broker:
        places = {"a": broker.address, "b": broker.address}
        with closing(Side(broker.name, places, None)) as side:
            yield side


@contextmanager
def same(reference: Side) -> Iterator[Side]:
    """The reference once more, over connections of its own."""
    with closing(Side(reference.name, reference.places, None)) as side:
        yield side


@contextmanager
def fedq(directory: Path, nodes: int) -> Iterator[Side]:
    """fedq: one node; or three, with clients on two of them and shared queues on the third."""
    names = ("a", "b", "c")[:nodes]
    with Cluster(directory / "fedq", names=names) as cluster:
        addresses = [cluster.nodes[name].amqp for name in names]
        places = {"a": addresses[0], "b": addresses[1 % nodes]}
        try:
            with closing(Side("fedq", places, addresses[2] if nodes == 3 else None)) as side:
                yield side
        except OSError as error:
            logs = [f"{title}\n{text}" for title, text in logs_of([cluster])]
            raise OSError("\n".join([f"a broker is gone: {error}", *logs])) from error
