"""A queue whose home is gone: whom to start is said everywhere, and an older copy can be named."""

from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, pika
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]

#: No third node copies the queue meanwhile.
PATIENT = {"timing": {"replace_backup_ms": 600_000}}


def test_the_home_is_named_and_an_older_copy_can_take_its_place(
    open_connection: Connect, tmp_path: Path
) -> None:
    with Cluster(tmp_path, more=PATIENT) as cluster:
        channel = open_connection(cluster.nodes["a"].amqp).channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        for number in range(3):
            channel.basic_publish("", "orders", b"number %d" % number, PERSISTENT)
        (fragment,) = cluster.fragments("orders")
        home, (old,) = fragment["primary"], fragment["backups"]
        assert home == "a"
        (near,) = {"a", "b", "c"} - {home, old}
        copies = {copy["node"]: copy for copy in fragment["copies"]}
        assert [copies[name]["role"] for name in (home, old)] == ["primary", "backup"]
        cluster.kill(old)
        until("only one is in sync", lambda: cluster.fragments("orders")[0]["in_sync"] == [home])
        channel.basic_publish("", "orders", b"number 3", PERSISTENT)
        cluster.kill(home)
        cluster.restart(old)

        def awaited() -> bool:
            status = cluster.ask("cluster", "status", node=near)
            queues = [{"vhost": "/", "name": "orders"}]
            return bool(status["awaited"] == [{"nodes": [home], "fragments": 1, "queues": queues}])

        until("the status names the home", awaited)
        sentence = f"1 fragments wait for {home}, which had all that was confirmed: start {home}"
        until("the log names it", lambda: sentence in cluster.nodes[near].log())
        asking = open_connection(cluster.nodes[near].amqp)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            asking.channel().basic_get("orders")
        assert caught.value.reply_code == 404
        text = f"home node {home} of durable queue 'orders' in vhost '/' is down: start it"
        assert text in caught.value.reply_text
        with pytest.raises(LookupError, match=f"the copy of {old} has 3 messages"):
            cluster.ask("store", "mark-clean", "orders", node=near)
        done = cluster.ask("store", "mark-clean", "orders", "--accept-loss", "orders", node=near)
        assert done["fragments"] == [{"fragment": fragment["fragment"], "node": old}]
        channel = asking.channel()
        assert channel.queue_declare("orders", passive=True).method.message_count == 3
        assert channel.basic_get("orders", auto_ack=True)[2] == b"number 0"
        assert cluster.ask("cluster", "status", node=near)["awaited"] == []
        with pytest.raises(LookupError, match="needs no other copy"):
            cluster.ask("store", "mark-clean", "orders", "--accept-loss", "orders", node=near)
