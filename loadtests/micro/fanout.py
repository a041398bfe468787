"""Claim: of a delivery to one of many subscribers the node itself takes about a microsecond.

The kernel takes four to seven for its write. Singly: one publish to each of 1,000 private queues,
each of a connection of its own. In runs: ten publishes at once. The steps are measured without
sockets, in `loadtests.micro.solo`; so is what it takes until a subscriber is set up.
"""

from functools import cache

from loadtests.micro.solo import EXCHANGE, Solo, publish
from loadtests.micro.timing import Case

SUBSCRIBERS = 1_000
RUN = 10
SET_UP = 20
PUBLISH = publish(EXCHANGE, "", b"x" * 64)


@cache
def subscribed() -> Solo:
    """A node with its subscribers, made when the first step needs it."""
    solo = Solo()
    solo.subscribe(SUBSCRIBERS)
    return solo


def fan_out(count: int) -> int:
    """So many publishes to everybody; returns how many connections are to be written to."""
    solo = subscribed()
    heard = solo.turn([(solo.publisher, PUBLISH * count)])
    assert len(heard) == SUBSCRIBERS
    return len(heard)


def set_up() -> None:
    """Some subscribers come and go."""
    solo = subscribed()
    for connection in solo.subscribe(SET_UP):
        solo.hang_up(connection)


CASES = [
    Case("fan-out delivery, singly", SUBSCRIBERS, lambda: fan_out(1)),
    Case("fan-out delivery, in runs", RUN * SUBSCRIBERS, lambda: fan_out(RUN)),
    Case("subscriber set up and gone", SET_UP, set_up),
]
