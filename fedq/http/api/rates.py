"""Rates of counters that are read now and then: `message_stats` as RabbitMQ's API has it.

In: what a counter showed when somebody looked. Out: how fast it grew, between the last two looks
that were `HTTP_RATES_S` apart at least; whoever looks more often hears the same again. Before the
second look there is no rate, and none is said to be 0. Nothing is sampled while nobody looks.

Counters begin at 0 with each process, and those of a fragment with each reign; so what is sampled
is one process's, or one reign's, and a counter that has become smaller is a new one. At most
`HTTP_RATES_MAX` are remembered: whoever was not looked at for longest is forgotten.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from fedq.http.bounds import HTTP_RATES_MAX, HTTP_RATES_S
from fedq.http.serving.exchange import Row
from fedq.shell.pb import admin_pb2 as pb

Counters: TypeAlias = Mapping[str, int]


class _Sample(NamedTuple):
    at_s: float
    counters: Counters


class Rates:
    """Samples of counters. Belongs to one thread."""

    __slots__ = ("_now_s", "_samples")

    def __init__(self, now_s: Callable[[], float]) -> None:
        """`now_s`: the time in seconds, of a clock that never goes back."""
        self._now_s = now_s
        #: The last two looks at each; in the order of the last one.
        self._samples: dict[Hashable, tuple[_Sample | None, _Sample]] = {}

    def look(self, key: Hashable, counters: Counters) -> Mapping[str, float] | None:
        """The rates a second of what is counted under a key; None: it is not known yet."""
        now = _Sample(self._now_s(), counters)
        older, newer = self._samples.pop(key, (None, now))
        if any(counters.get(name, 0) < count for name, count in newer.counters.items()):
            older, newer = None, now
        if now.at_s - newer.at_s >= HTTP_RATES_S:
            older, newer = newer, now
        self._samples[key] = older, newer
        if len(self._samples) > HTTP_RATES_MAX:
            del self._samples[next(iter(self._samples))]
        if older is None:
            return None
        between_s = newer.at_s - older.at_s
        return {
            name: (count - older.counters.get(name, 0)) / between_s
            for name, count in newer.counters.items()
        }


def message_stats(rates: Rates, counted: Iterable[tuple[Hashable, Counters]]) -> Row:
    """What is counted in several places, added up; with rates, if those of all are known.

    What has not happened yet is left out, as RabbitMQ does.
    """
    stats: Row = {}
    speeds: dict[str, float] | None = {}
    for key, counters in counted:
        for name, count in counters.items():
            if count:
                stats[name] = stats.get(name, 0) + count
        found = rates.look(key, counters)
        if found is None:
            speeds = None
        elif speeds is not None:
            for name, speed in found.items():
                speeds[name] = speeds.get(name, 0.0) + speed
    for name, speed in (speeds or {}).items():
        if name in stats:
            stats[f"{name}_details"] = {"rate": round(speed, 1)}
    return stats


def fragment_counters(traffic: pb.FragmentTraffic) -> Counters:
    """What is counted of a fragment, under RabbitMQ's names for queues."""
    return {
        "publish": traffic.published,
        "deliver_get": traffic.handed_out,
        "redeliver": traffic.handed_out_again,
        "ack": traffic.acknowledged,
    }


def client_counters(traffic: pb.ClientTraffic) -> Counters:
    """What is counted of a node's clients, under RabbitMQ's names."""
    return {
        "publish": traffic.received,
        "confirm": traffic.confirmed,
        "return_unroutable": traffic.returned,
        "drop_unroutable": traffic.unroutable,
        "deliver_get": traffic.delivered + traffic.got,
        "deliver": traffic.delivered - traffic.delivered_without_ack,
        "deliver_no_ack": traffic.delivered_without_ack,
        "get_empty": traffic.got_nothing,
        "redeliver": traffic.redelivered,
        "ack": traffic.acknowledged,
    }
