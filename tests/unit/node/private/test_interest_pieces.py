"""What private queues want to hear goes to a peer in messages of a bounded size."""

from fedq.amqp.methods import QueueBind, QueueBindOk, QueueDeclare, QueueDeclareOk
from fedq.amqp.values import FieldTable
from fedq.core import limits
from fedq.core.ids import Incarnation, MapVersion, NodeId
from fedq.core.peer_messages import Interest, PeerFrame
from fedq.proxy.links import size_of
from fedq.shell.peers.codec import encode_frame
from tests.unit.node.harness import Client, Cluster

N1, VERSION = NodeId("n1"), MapVersion(1)
BINDINGS = 900
#: Near the bound of arguments, and as large in JSON as they are.
HEADERS: FieldTable = {"header": "v" * (limits.ARGUMENTS_BYTES_MAX - 100)}


def bind_many(client: Client) -> None:
    client.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    for number in range(BINDINGS):
        client.ask(QueueBind("mine", "amq.direct", f"key-{number}", arguments=HEADERS), QueueBindOk)


def test_a_peer_that_comes_back_hears_it_all_in_pieces() -> None:
    cluster = Cluster(2)
    owner = cluster.client("n1")
    bind_many(owner)
    cluster.kill("n2")
    # Not so long that the one that is left asks its clients to go elsewhere.
    cluster.pass_ms(2_000)
    cluster.overheard.clear()
    cluster.start("n2")
    cluster.pass_ms(5_000)
    told = [
        message
        for sender, _, message in cluster.overheard
        if sender == "n1" and isinstance(message, Interest)
    ]
    assert sum(len(message.added) for message in told) == BINDINGS
    assert max(map(size_of, told)) <= limits.INTEREST_PIECE_BYTES_MAX + limits.KIB
    for message in told:
        frame = encode_frame(PeerFrame(N1, Incarnation(1), (1, 1), 1, 1, VERSION, [message], None))
        assert len(frame) < size_of(message) + limits.KIB, "a link counts what waits in it"
    cluster.client("n2").publish(f"key-{BINDINGS - 1}", "heard", exchange="amq.direct")
    cluster.pass_ms(100)
    declared = owner.ask(QueueDeclare("mine", passive=True), QueueDeclareOk)
    assert declared.message_count == 1
