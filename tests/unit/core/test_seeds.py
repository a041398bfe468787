"""What nobody may guess, nobody can compute from what was seen."""

import random

import pytest

from fedq.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.core.seeds import Salts
from tests.unit.node.harness import Client, Cluster

#: So many outputs of 64 bits are the whole state of a Mersenne twister.
STATE_WORDS = 624
LATER = 32


def predicted(seen: list[int]) -> random.Random:
    """The generator that gave these, if it was a Mersenne twister."""
    words = [word for number in seen for word in (number & 0xFFFFFFFF, number >> 32)]
    state = tuple(_untempered(word) for word in words[:STATE_WORDS])
    guess = random.Random()
    guess.setstate((3, (*state, STATE_WORDS), None))
    return guess


def _untempered(word: int) -> int:
    word ^= word >> 18
    word ^= (word << 15) & 0xEFC60000
    found = word
    for _ in range(5):
        found = word ^ ((found << 7) & 0x9D2C5680)
    word = found
    for _ in range(3):
        found = word ^ (found >> 11)
    return found & 0xFFFFFFFF


def test_the_attack_works_on_what_it_is_made_for() -> None:
    twister = random.Random(7)
    guess = predicted([twister.getrandbits(64) for _ in range(STATE_WORDS // 2)])
    assert [guess.getrandbits(64) for _ in range(LATER)] == [
        twister.getrandbits(64) for _ in range(LATER)
    ]


def tag_salts(client: Client, count: int) -> list[int]:
    """The salts of as many consumer tags of the server's making."""
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    tags = [client.ask(BasicConsume("q", no_ack=True), BasicConsumeOk) for _ in range(count)]
    return [int(tag.consumer_tag.rpartition("-")[2], 16) for tag in tags]


def test_server_made_tags_do_not_give_away_the_names_of_others() -> None:
    cluster = Cluster(1)
    attacker, victim = cluster.client(), cluster.client()
    guess = predicted(tag_salts(attacker, STATE_WORDS // 2))
    made = victim.ask(QueueDeclare("", exclusive=True), QueueDeclareOk).queue
    guesses = {f"{guess.getrandbits(64):x}" for _ in range(LATER)}
    assert made.rpartition("-")[2] not in guesses
    assert len(set(tag_salts(cluster.client(), 100))) == 100


def test_the_same_key_repeats_and_another_has_nothing_in_common() -> None:
    first, same = Salts(1, "n1/1"), Salts(1, "n1/1")
    numbers = [first.number(64) for _ in range(1_000)]
    assert numbers == [same.number(64) for _ in range(1_000)]
    assert len(set(numbers)) == 1_000
    for other in (Salts(2, "n1/1"), Salts(1, "n1/2"), Salts(1, "n2/1"), Salts(1 << 255, "n1/1")):
        assert not {other.number(64) for _ in range(1_000)} & set(numbers)


@pytest.mark.parametrize("bits", [8, 64, 256, 512])
def test_numbers_have_all_their_bits(bits: int) -> None:
    salts = Salts(3, "bits")
    numbers = [salts.number(bits) for _ in range(200)]
    assert all(0 <= number < 1 << bits for number in numbers)
    for place in range(bits):
        ones = sum(number >> place & 1 for number in numbers)
        assert 40 < ones < 160
