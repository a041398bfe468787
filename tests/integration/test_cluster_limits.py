"""Limits of connections, on real nodes: what clients of all of them have counts together."""

import contextlib
import gc
import warnings
from functools import partial
from pathlib import Path

import pytest

from tests.integration.harness import Cluster
from tests.integration.stock import connect, pika
from tests.integration.waiting import until

pytestmark = pytest.mark.slow
NAMES = ["n1", "n2", "n3"]


def is_refused(cluster: Cluster, name: str) -> bool:
    """Whether a further client of the node is told that its virtual host has no room."""
    refusal = ""
    try:
        connect(cluster.nodes[name].amqp).close()
    except pika.exceptions.AMQPError as error:
        refusal = repr(error)
    finally:
        # A connection that pika was still opening leaves the sockets it wakes itself with.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    assert not refusal or "connection limit (2) is reached" in refusal
    return bool(refusal)


def test_a_virtual_host_has_no_more_connections_than_its_limit_on_all_nodes(
    tmp_path: Path,
) -> None:
    with Cluster(tmp_path, NAMES) as cluster:
        cluster.ask("vhost", "set-limits", "/", "--max-connections", "2")
        one, two = (connect(cluster.nodes[name].amqp) for name in ("n1", "n2"))
        for name in NAMES:
            until(f"{name} knows of both", partial(is_refused, cluster, name))
        one.close()
        until("n3 has room", lambda: not is_refused(cluster, "n3"))
        three = connect(cluster.nodes["n3"].amqp)
        until("n1 knows of both", partial(is_refused, cluster, "n1"))
        cluster.kill("n2")
        until("n2 does not count any more", lambda: not is_refused(cluster, "n1"))
        with contextlib.suppress(pika.exceptions.AMQPError):
            two.close()
        three.close()
