"""Who asks for little is answered soon, however many ask for much, whenever it comes."""

import pytest

from fedq.amqp.methods import BasicQos, BasicQosOk, encode_method
from tests.unit.node.harness import Client, Cluster

WORK = 1_000
CROWD = 40
#: A question costs five units, a client's share is half of a turn: ten shares for each.
QUESTIONS = 1_000
ASK = encode_method(1, BasicQos(prefetch_count=1))
#: One that has been spent, and one of its own.
TURNS_MAX = 3


class Crowd:
    """Clients that want far more of one node than its turns can do."""

    def __init__(self) -> None:
        self.cluster = Cluster(1, work_per_turn=WORK)
        self.clients = [self.cluster.client() for _ in range(CROWD)]
        self.modest = self.cluster.client()
        self.cluster.pass_ms(1_000)

    def ask_much(self) -> None:
        """Those that have been answered ask again."""
        for client in self.clients:
            if not client.said and client.is_read:
                client.write(ASK * QUESTIONS)
            client.said.clear()

    def turns_until(self, client: Client) -> int:
        """Turns until this client is answered."""
        turns = 0
        while not client.has(BasicQosOk):
            self.ask_much()
            self.cluster.turn()
            turns += 1
        client.said.clear()
        return turns


@pytest.mark.parametrize("turns_before", range(0, 60, 11))
def test_a_question_waits_for_no_crowd(turns_before: int) -> None:
    crowd = Crowd()
    for _ in range(turns_before):
        crowd.ask_much()
        crowd.cluster.turn()
    for _ in range(10):
        crowd.modest.write(ASK)
        assert crowd.turns_until(crowd.modest) <= TURNS_MAX
