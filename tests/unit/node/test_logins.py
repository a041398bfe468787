"""Verifying a password takes long on purpose: in a turn that happens once, whoever waits."""

from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.core.ids import ConnectionId
from fedq.wiring.operations_access import PutUser, SetPermissions
from fedq.wiring.passwords import COST_MIN, make_record
from tests.unit.amqp.wire import start_ok
from tests.unit.node.harness import Cluster

CLIENTS = 12


def test_a_crowd_of_logins_is_verified_one_in_a_turn() -> None:
    cluster = Cluster(1)
    node = cluster.node("n1")
    for number in range(CLIENTS):
        record = make_record(f"secret {number}", bytes(16), COST_MIN)
        node.on_change_asked(PutUser(f"u{number}", record, (), replace=False), lambda _: None)
        node.on_change_asked(SetPermissions(f"u{number}", "/", "", "", ""), lambda _: None)
    cluster.pass_ms(5_000)

    def known() -> int:
        return len(node.access._known)

    before = known()
    now_ms = cluster.now_ms
    node.begin_turn(now_ms)
    for number in range(CLIENTS):
        connection = ConnectionId(1_000 + number)
        node.on_connected(connection, "127.0.0.1:9", True)
        response = f"\0u{number}\0secret {number}".encode()
        node.on_bytes(connection, PROTOCOL_HEADER + start_ok(response=response))
    node.end_turn()
    verified = [known() - before]
    while node.out.again:
        node.out.clear()
        node.begin_turn(now_ms)
        node.end_turn()
        verified.append(known() - before)
    assert verified[-1] == CLIENTS, "nobody waits for more than a turn to come"
    steps = [after - earlier for earlier, after in zip([0, *verified[:-1]], verified, strict=True)]
    assert max(steps) == 1
