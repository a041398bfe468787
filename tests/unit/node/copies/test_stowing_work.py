"""What it costs a turn to let bodies of a copy go, most of which stay."""

from typing import Any

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import ConfirmSelect, ConfirmSelectOk, QueueDeclare, QueueDeclareOk
from fedq.amqp.values import FieldTable
from fedq.fragments.copy.applied import Mark
from fedq.fragments.replica import Replica
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Cluster, Host
from tests.unit.node.uncompiled import only_uncompiled

EXPIRES = encode_properties({"delivery_mode": 2, "expiration": "100000000"})
PLAIN = encode_properties({"delivery_mode": 2})
SETTINGS: Any = {"stow_bytes_min": 1, "read_ahead_bytes": 1_500, "segment_bytes_max": 8_000_000}


class Counted(Cluster):
    """Nodes whose pieces of stowing are counted, turn by turn."""

    pieces = most_pieces = 0

    def _turn(self, host: Host) -> bool:
        self.pieces = 0
        is_busy = super()._turn(host)
        self.most_pieces = max(self.most_pieces, self.pieces)
        return is_busy


def put(cluster: Cluster, client: Any, count: int, properties: bytes) -> None:
    for start in range(0, count, 1_000):
        some = range(start, min(start + 1_000, count))
        client.write(b"".join(publish(1, "", "q", b"x" * 50, properties) for _ in some))
        cluster.settle()


@only_uncompiled
def test_a_turn_does_not_look_at_the_same_messages_of_a_copy_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A piece looks at 8,192 messages, of which 12 go; it costs the turn what 12 cost."""
    cluster = Counted(3, **SETTINGS)
    stow = Replica.stow

    def counted(replica: Replica, mark: Mark, most: int) -> int:
        cluster.pieces += 1
        return stow(replica, mark, most)

    monkeypatch.setattr(Replica, "stow", counted)
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    arguments: FieldTable = {"x-fedq-replicas": 2}
    client.ask(QueueDeclare("q", durable=True, arguments=arguments), QueueDeclareOk)
    put(cluster, client, 8_180, EXPIRES)
    put(cluster, client, 3_000, PLAIN)
    # With a note for the copy all of it is kept singly there.
    put(cluster, client, 1, EXPIRES)
    cluster.pass_ms(3_000)
    # At 32 messages for a unit of work a turn of 20,000 units has room for 78 pieces.
    assert cluster.most_pieces <= 100
