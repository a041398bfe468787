"""What subscribers were owed, and what of it they did not get.

In: when each message was sent, and tables of lives. Out: numbers of messages owed and lost. A life
is owed each settled message that was sent after it began and some seconds of grace before it ended
or was last heard of; and everything between the first and the last that it did get.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from loadtests.locust.lives import GOES_ON, TENTH_NS, Tables
from loadtests.locust.sends import Sends


class Owed(NamedTuple):
    """Messages, each counted for each subscriber that it was owed to."""

    owed: int
    lost: int
    #: Lives that lack something, at most: one that lacks it in several places counts in each.
    short: int


def judge(tables: Tables, sends: Mapping[int, Sends], heard_ns: int, grace_ns: int) -> Owed:
    """What all lives of one worker were owed, as of the moment at which it was last heard of.

    `sends`: by publisher; a publisher that has sent nothing may be missing.
    """
    owed = lost = short = 0

    def begins(publisher: int, since: int) -> int:
        return bisect_right(sends[publisher].sent_ns, since * TENTH_NS)

    def ends(publisher: int, until: int) -> int:
        until_ns = heard_ns if until == GOES_ON else until * TENTH_NS
        return bisect_left(sends[publisher].sent_ns, until_ns - grace_ns)

    for (publisher, first, since), count in tables.heads.items():
        if publisher in sends:
            start = begins(publisher, since)
            missed = sends[publisher].settled_in(start, first)
            owed += count * missed - count * sends[publisher].settled_in(0, max(start, first))
            lost += count * missed
            short += count if missed else 0
    for (publisher, due, until, _), count in tables.tails.items():
        if publisher in sends:
            stop = max(ends(publisher, until), due)
            missed = sends[publisher].settled_in(due, stop)
            owed += count * sends[publisher].settled_in(0, stop)
            lost += count * missed
            short += count if missed else 0
    for (publisher, since, until, _), count in tables.empty.items():
        if publisher in sends:
            start, stop = begins(publisher, since), ends(publisher, until)
            missed = sends[publisher].settled_in(start, stop)
            owed += count * missed
            lost += count * missed
            short += count if missed else 0
    for (publisher, first, stop, _), count in tables.gaps.items():
        if publisher in sends:
            missed = sends[publisher].settled_in(first, stop)
            lost += count * missed
            short += count if missed else 0
    return Owed(owed, lost, short)
