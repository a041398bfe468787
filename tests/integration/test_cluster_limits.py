"""Limits of connections, on real nodes: what clients of all of them have counts together."""

import contextlib
import gc
import warnings
from functools import partial
from pathlib import Path
from typing import Any

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


def test_a_node_that_is_full_says_where_to_go(tmp_path: Path) -> None:
    with Cluster(tmp_path, ["n1", "n2"], more={"limits": {"connections": 2}}) as cluster:
        there = [connect(cluster.nodes["n1"].amqp)]
        until("n1 is full", lambda: is_full(cluster, there))
        with pytest.raises(pika.exceptions.AMQPConnectionError) as caught:
            connect(cluster.nodes["n1"].amqp)
        host, port = cluster.nodes["n2"].amqp
        assert f"connect to another one: {host}:{port}" in repr(caught.value)
        other = connect(cluster.nodes["n2"].amqp)
        for each in (*there, other):
            each.close()
        until("there is room again", lambda: is_let_in(cluster, "n1"))


def is_full(cluster: Cluster, there: list[Any]) -> bool:
    """Has one more client come, if it may; whether there were two already."""
    try:
        there.append(connect(cluster.nodes["n1"].amqp))
    except pika.exceptions.AMQPError:
        return True
    return False


def is_let_in(cluster: Cluster, name: str) -> bool:
    """Whether the node takes a further client."""
    try:
        connect(cluster.nodes[name].amqp).close()
    except pika.exceptions.AMQPError:
        return False
    return True
