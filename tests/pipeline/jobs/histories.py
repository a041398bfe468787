"""Histories of queues as their nodes would trace them, right ones and such with a fault in them.

`history` makes events in the order in which they truly happened; clocks of nodes differ a little,
and each process numbers what it saw. A *plant* is one fault in one queue; `Finding` is what an
audit has to say of it. `judged` is the audit as a loop over the events, in their true order.
"""

import random
from collections.abc import Iterable
from typing import Any, NamedTuple

Event = dict[str, Any]
NODES = ("a", "b", "c")
PLANTS = ("no queue", "vanished", "twice", "unmarked after marked", "back", "swapped", "overtaken")
#: Clocks differ by at most this, in milliseconds, either way.
SKEW_MS = 300
BEGIN_MS = 1_795_684_000_000


class Finding(NamedTuple):
    """What refutes a promise: the message, as (fragment, position); -1: it has none."""

    promise: str
    rule: str
    fragment: int
    position: int


def runs_of(numbers: Iterable[int]) -> list[list[int]]:
    """Numbers as ranges, in their order."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def numbers_in(ranges: list[list[int]] | None) -> list[int]:
    return [number for first, last in ranges or () for number in range(first, last + 1)]


class Queue:
    """One queue with a fragment, a publisher's channel and some consumers, over two reigns."""

    def __init__(self, fragment: int, chosen: random.Random, count: int) -> None:
        self.fragment = fragment
        self.chosen = chosen
        self.publisher, self.consumer = chosen.choice(NODES), chosen.choice(NODES)
        self.primary = chosen.choice(NODES)
        self.reign = 1
        self.now_ms = chosen.randrange(2_000)
        self.events: list[Event] = []
        self.count = count
        self.found: list[Finding] = []
        #: By sequence.
        self.position: dict[int, int] = {}
        self.held: dict[int, None] = {}

    def add(self, node: str, kind: str, **fields: Any) -> None:
        self.now_ms += self.chosen.randrange(1, 15)
        queue = {"vhost": "/", "queue": f"q{self.fragment}", "fragment": self.fragment}
        named = {"reign": self.reign, **queue} if kind not in ("confirmed", "accepted") else {}
        self.events.append({"node": node, "kind": kind, "true_ms": self.now_ms, **named, **fields})

    def parts(self, numbers: Iterable[int]) -> Iterable[list[int]]:
        """The numbers, in runs as a node sees them."""
        left = list(numbers)
        while left:
            size = self.chosen.randrange(1, 9)
            yield left[:size]
            left = left[size:]

    def channel(self) -> dict[str, Any]:
        return {"connection": 10 + self.fragment, "channel": 1}

    # --- what happens -----------------------------------------------------------------------------

    def publish(self, plant: str) -> None:
        sequences = list(range(1, self.count + 1))
        for part in self.parts(sequences):
            numbers = [100 + each for each in part]
            self.add(self.publisher, "accepted", sequences=runs_of(part), confirms=True,
                     **self.channel())  # fmt: skip
            self.add(self.publisher, "routed", sequences=runs_of(part), numbers=runs_of(numbers),
                     **self.channel())  # fmt: skip
        order = list(sequences)
        if plant == "swapped":
            at = self.chosen.randrange(self.count - 1)
            order[at], order[at + 1] = order[at + 1], order[at]
        missing = self.chosen.choice(sequences) if plant == "no queue" else 0
        number = 0
        for part in self.parts(each for each in order if each != missing):
            positions = [(1 << 40) + number + index for index in range(len(part))]
            number += len(part)
            self.position |= dict(zip(part, positions, strict=True))
            self.add(
                self.primary, "enqueued", origin=self.publisher, origin_incarnation=1,
                numbers=runs_of(100 + each for each in part), positions=runs_of(positions),
            )  # fmt: skip
        self.held = dict.fromkeys(self.position.values())
        for part in self.parts(sequences):
            self.add(self.publisher, "confirmed", sequences=runs_of(part), **self.channel())
        self.repeat(sequences[: self.chosen.randrange(4)])
        if missing:
            self.found.append(Finding("P1", "confirmed, in no queue", self.fragment, -1))
        if plant == "swapped":
            later = self.position[order[at + 1]], self.position[order[at]]
            self.found.append(Finding("P4", "enqueued out of order", self.fragment, min(later)))

    def repeat(self, sequences: list[int]) -> None:
        """A publisher with a name repeats itself: the queue has these, and that is confirmed."""
        again = [self.count + each for each in sequences]
        for part in self.parts(again):
            numbers = runs_of(100 + each for each in part)
            self.add(self.publisher, "routed", sequences=runs_of(part), numbers=numbers,
                     **self.channel())  # fmt: skip
            self.add(self.primary, "refused", origin=self.publisher, origin_incarnation=1,
                     numbers=numbers, reason="duplicate")  # fmt: skip
            self.add(self.publisher, "confirmed", sequences=runs_of(part), **self.channel())

    def deliver(self, positions: list[int], tag: str, node: str, marked: bool = False) -> None:
        marks = {"redelivered": runs_of(positions)} if marked else {}
        self.add(node, "delivered", positions=runs_of(positions), consumer=tag, connection=7,
                 channel=self.fragment + 1, **marks)  # fmt: skip

    def settle(self, positions: list[int]) -> None:
        self.add(self.consumer, "acked", positions=runs_of(positions), connection=7)
        if self.consumer != self.primary:
            self.add(self.primary, "settled", positions=runs_of(positions), reason="acked",
                     origin=self.consumer)  # fmt: skip
        for each in positions:
            self.held.pop(each)

    def consume(self, plant: str) -> None:
        waiting = sorted(self.held)
        if plant == "vanished":
            victim = waiting.pop(self.chosen.randrange(len(waiting)))
            del self.held[victim]
            self.found.append(Finding("P1", "confirmed, never delivered", self.fragment, victim))
        kept = waiting[self.chosen.randrange(3, len(waiting)) :] if len(waiting) > 8 else []
        waiting = waiting[: len(waiting) - len(kept)]
        overtaken = self.chosen.randrange(len(waiting) - 1) if plant == "overtaken" else -1
        if overtaken >= 0:
            late = waiting[overtaken]
            waiting[overtaken], waiting[overtaken + 1] = waiting[overtaken + 1], late
            self.found.append(Finding("P4", "delivered out of order", self.fragment, late))
        for part in list(self.parts(waiting)):
            runs = [part] if part == sorted(part) else [[each] for each in part]
            for run in runs:
                self.deliver(run, "one", self.consumer)
            self._fate(part)
        self._twice(plant)

    def _fate(self, part: list[int]) -> None:
        fate = self.chosen.randrange(10)
        if fate == 0:
            # Back to the queue, and to somebody else, with the mark.
            self.add(self.consumer, "requeued", positions=runs_of(sorted(part)))
            self.deliver(sorted(part), "two", self.consumer, marked=True)
        elif fate == 1:
            self.add(self.consumer, "rejected", positions=runs_of(sorted(part)))
            self.add(self.primary, "dropped", positions=runs_of(sorted(part)), reason="rejected")
            for each in part:
                del self.held[each]
            return
        if fate < 8:
            self.settle(sorted(part))

    def _twice(self, plant: str) -> None:
        """What is with a consumer goes to another one; what is acknowledged comes back."""
        if plant in ("twice", "unmarked after marked"):
            position = (1 << 40) + 10_000
            self.add(self.primary, "enqueued", origin="x", origin_incarnation=9,
                     numbers=[[1, 1]], positions=[[position, position]])  # fmt: skip
            marked = plant == "unmarked after marked"
            self.deliver([position], "first", self.consumer, marked=marked)
            self.now_ms += 3 * SKEW_MS + 1_000
            self.deliver([position], "other", self.chosen.choice(NODES))
            self.held[position] = None
            self.found.append(Finding("P2", "delivered again, unmarked", self.fragment, position))
        if plant == "back":
            position = (1 << 40) + 10_000
            self.held[position] = None
            self.deliver([position], "first", self.consumer)
            self.settle([position])
            self.now_ms += 3 * SKEW_MS + 1_000
            self.deliver([position], "other", self.chosen.choice(NODES), marked=True)
            self.found.append(Finding("P3", "acknowledged, and back", self.fragment, position))

    def fail_over(self) -> None:
        """Another node leads; what was acknowledged to a dead primary alone may come again."""
        self.reign, self.primary = 2, self.chosen.choice(NODES)
        self.add(self.primary, "leads")
        lost_acks = [
            each for each in numbers_in([[1 << 40, (1 << 40) + 4]]) if each in self.delivered()
        ]
        if lost_acks:
            self.now_ms += 3 * SKEW_MS + 1_000
            self.deliver(lost_acks, "after", self.chosen.choice(NODES), marked=True)

    def delivered(self) -> set[int]:
        return {
            each
            for event in self.events
            if event["kind"] == "delivered"
            for each in numbers_in(event["positions"])
        }

    def end(self) -> None:
        self.add(self.primary, "standing", positions=runs_of(sorted(self.held)),
                 amount=len(self.held))  # fmt: skip


def history(seed: int, plants: list[str], count: int = 24) -> tuple[list[Event], list[Finding]]:
    """The events of as many queues as there are plants ("" is none), and what is to be found."""
    chosen = random.Random(seed)
    queues = [Queue(number, chosen, count) for number in range(len(plants))]
    for queue, plant in zip(queues, plants, strict=True):
        queue.publish(plant)
        queue.consume(plant)
        if chosen.random() < 0.4:
            queue.fail_over()
        queue.end()
    told = [event for queue in queues for event in queue.events]
    told.sort(key=lambda event: int(event["true_ms"]))
    last = told[-1]["true_ms"] + 10_000
    told += [{"node": node, "kind": "stopped", "true_ms": last} for node in NODES]
    clocks = {node: chosen.randrange(-SKEW_MS // 2, SKEW_MS // 2) for node in NODES}
    batches = dict.fromkeys(NODES, 1)
    places = dict.fromkeys(NODES, 0)
    for event in told:
        node = event["node"]
        if places[node] and chosen.random() < 0.2:
            batches[node], places[node] = batches[node] + 1, 0
        event |= {
            "incarnation": 1, "batch": batches[node], "place": places[node],
            "ms": BEGIN_MS + event["true_ms"] + clocks[node],
        }  # fmt: skip
        places[node] += 1
    return told, sorted(finding for queue in queues for finding in queue.found)


def judged(events: list[Event]) -> list[Finding]:
    """What refutes the promises, by a loop over events in the order in which they happened."""
    loop = Loop()
    loop.primary = {
        (event["fragment"], event["reign"]): event["node"]
        for event in events
        if event["kind"] in ("enqueued", "settled", "leads", "standing", "dropped")
    }
    for event in events:
        positions = numbers_in(event.get("positions"))
        if event["kind"] in ("delivered", "dropped", "acked", "settled"):
            loop.gone |= dict.fromkeys((event["fragment"], each) for each in positions)
        method = getattr(loop, "on_" + event["kind"], None)
        if method is not None:
            method(event, positions)
    loop.end()
    return sorted(loop.found)


class Loop:
    """What is known of the messages so far."""

    def __init__(self) -> None:
        self.found: list[Finding] = []
        self.primary: dict[tuple[int, int], str] = {}
        self.gone: dict[tuple[int, int], None] = {}
        #: By publish: fragments, and the publish's number there.
        self.routed: dict[tuple[str, int, int, int], list[tuple[int, int]]] = {}
        self.enqueued: dict[tuple[str, int, int], int] = {}
        self.known: dict[tuple[str, int, int], None] = {}
        self.confirmed: dict[tuple[str, int, int, int], None] = {}
        self.delivered: dict[tuple[int, int], None] = {}
        self.acked: dict[tuple[int, int, int], None] = {}
        self.last: dict[tuple[str, int, int, str, int], int] = {}
        self.standing: dict[int, dict[int, None]] = {}

    def find(self, promise: str, rule: str, fragment: int, position: int) -> None:
        self.found.append(Finding(promise, rule, fragment, position))

    def on_routed(self, event: Event, positions: list[int]) -> None:
        pairs = zip(numbers_in(event["sequences"]), numbers_in(event["numbers"]), strict=True)
        for sequence, number in pairs:
            key = event["node"], event["connection"], event["channel"], sequence
            self.routed.setdefault(key, []).append((event["fragment"], number))

    def on_enqueued(self, event: Event, positions: list[int]) -> None:
        for number, position in zip(numbers_in(event["numbers"]), positions, strict=True):
            self.enqueued[event["origin"], event["fragment"], number] = position

    def on_refused(self, event: Event, positions: list[int]) -> None:
        for number in numbers_in(event["numbers"]):
            self.known[event["origin"], event["fragment"], number] = None

    def on_confirmed(self, event: Event, positions: list[int]) -> None:
        for each in numbers_in(event["sequences"]):
            self.confirmed[event["node"], event["connection"], event["channel"], each] = None

    def on_standing(self, event: Event, positions: list[int]) -> None:
        self.standing[event["fragment"]] = dict.fromkeys(positions)

    def on_settled(self, event: Event, positions: list[int]) -> None:
        self.acked |= dict.fromkeys((event["fragment"], each, event["reign"]) for each in positions)

    def on_acked(self, event: Event, positions: list[int]) -> None:
        if self.primary[event["fragment"], event["reign"]] == event["node"]:
            self.on_settled(event, positions)

    def on_delivered(self, event: Event, positions: list[int]) -> None:
        fragment, marked = event["fragment"], set(numbers_in(event.get("redelivered")))
        who = event["node"], event["connection"], event["channel"], event["consumer"], fragment
        for each in positions:
            if (fragment, each, event["reign"]) in self.acked:
                self.find("P3", "acknowledged, and back", fragment, each)
            if each not in marked:
                if (fragment, each) in self.delivered:
                    self.find("P2", "delivered again, unmarked", fragment, each)
                if each < self.last.get(who, -1):
                    self.find("P4", "delivered out of order", fragment, each)
                self.last[who] = max(each, self.last.get(who, -1))
            self.delivered[fragment, each] = None

    def end(self) -> None:
        """Looks at publishes: what became of them, and in which order."""
        highest: dict[tuple[str, int, int, int], int] = {}
        for key, targets in sorted(self.routed.items()):
            for fragment, number in targets:
                position = self.enqueued.get((key[0], fragment, number), -1)
                if position < 0:
                    if key in self.confirmed and (key[0], fragment, number) not in self.known:
                        self.find("P1", "confirmed, in no queue", fragment, -1)
                    continue
                who = (*key[:3], fragment)
                if position < highest.get(who, -1):
                    self.find("P4", "enqueued out of order", fragment, position)
                highest[who] = max(position, highest.get(who, -1))
                is_gone = (fragment, position) in self.gone
                if (
                    key in self.confirmed
                    and not is_gone
                    and position not in self.standing[fragment]
                ):
                    self.find("P1", "confirmed, never delivered", fragment, position)
