"""What clients did and heard, and when: the only witness against the nodes.

Times are of the monotonic clock, as in the record of the nodes. What a client does is written down
before it does it, what it hears when it has heard it; so whatever a node did for a client before
some moment is written in its record before that moment, too. `rewind` takes back all that came
after the moment at which the power went.
"""

import random
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

#: A message: the queue, and its number in all that was published to its target.
Key = tuple[str, int]

_SIZES: Final = (10, 200, 1_000, 4_000, 9_000, 30_000)


class Target(NamedTuple):
    """Where messages are published, and the queues that each of them reaches."""

    exchange: str
    key: str
    queues: tuple[str, ...]


class Heard(NamedTuple):
    """A message that a client was given."""

    queue: str
    body: bytes
    redelivered: bool
    tag: int


def body_of(name: str, number: int) -> bytes:
    """The content of a message of the target `name`; nobody else's looks like it."""
    dice = random.Random(f"{name} {number}")
    return b"%b %d " % (name.encode(), number) + dice.randbytes(dice.choice(_SIZES))


def number_of(body: bytes) -> int:
    """The number of a message; -1: it is none of ours."""
    word = body.split(b" ", 2)[1:2]
    return int(word[0]) if word and word[0].isdigit() else -1


@dataclass
class Verdict:
    """What was wrong after a start, and how much there was."""

    wrong: list[str] = field(default_factory=list)
    owed: int = 0
    seen: int = 0
    #: Acknowledged, and here again.
    returned: int = 0
    #: Of those, what had not been here after a power cut before.
    risen: int = 0

    def add(self, other: "Verdict") -> None:
        """Takes in what was found in another queue."""
        self.wrong.extend(other.wrong)
        self.owed += other.owed
        self.seen += other.seen
        self.returned += other.returned
        self.risen += other.risen


class Book:
    """Everything that all clients wrote down."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.published: dict[Key, int] = {}
        self.confirmed: dict[Key, int] = {}
        self.acknowledged: dict[Key, int] = {}
        self.delivered: dict[Key, int] = {}
        #: Acknowledged, and not there after a start.
        self.gone: set[Key] = set()
        self._names: dict[str, str] = {}
        self._last: dict[str, int] = {}

    # --- clients ----------------------------------------------------------------------------------

    def publish(self, name: str, target: Target) -> tuple[int, bytes]:
        """A new message is about to be published: its number and content."""
        with self._lock:
            number = self._last[name] = self._last.get(name, 0) + 1
            now = time.monotonic_ns()
            for queue in target.queues:
                self._names[queue] = name
                self.published[queue, number] = now
        return number, body_of(name, number)

    def confirm(self, target: Target, number: int) -> None:
        """The confirm of a message has come."""
        now = time.monotonic_ns()
        with self._lock:
            for queue in target.queues:
                self.confirmed[queue, number] = now

    def deliver(self, key: Key) -> None:
        """A message has come."""
        with self._lock:
            self.delivered.setdefault(key, time.monotonic_ns())

    def acknowledge(self, key: Key) -> None:
        """A message is about to be acknowledged."""
        with self._lock:
            self.acknowledged[key] = time.monotonic_ns()

    # --- the power cut ----------------------------------------------------------------------------

    def rewind(self, ns: int) -> None:
        """The power went at this moment: what came later did not happen."""
        for times in (self.published, self.confirmed, self.acknowledged, self.delivered):
            for key in [key for key, then in times.items() if then > ns]:
                del times[key]

    def owed(self, queue: str) -> dict[int, bool]:
        """The numbers that the queue must still deliver, and whether one must be marked."""
        return {
            number: (queue, number) in self.delivered
            for place, number in self.confirmed
            if place == queue and (queue, number) not in self.acknowledged
        }

    def judge(self, queue: str, heard: list[Heard], is_alone: bool) -> Verdict:
        """Holds against the book everything that the queue delivered after a start.

        `is_alone`: one node has all there is. Of several, another one may be the one to tell.
        """
        numbers = [number_of(message.body) for message in heard]
        verdict = Verdict(seen=len(heard))
        tell = verdict.wrong.append
        for number, message in zip(numbers, heard, strict=True):
            key = queue, number
            if key not in self.published:
                tell(f"{queue}: {message.body[:40]!r} was never published")
            elif message.body != body_of(self._names[queue], number):
                tell(f"{queue}: {number} has another content")
            elif key in self.delivered and not message.redelivered:
                tell(f"{queue}: {number} was delivered before and is not marked")
            verdict.returned += key in self.acknowledged
            verdict.risen += key in self.gone
            if is_alone and key in self.gone:
                tell(f"{queue}: {number} was acknowledged and gone before")
        owed = self.owed(queue)
        verdict.owed = len(owed)
        if lost := sorted(owed.keys() - set(numbers)):
            tell(f"{queue}: {len(lost)} of {len(owed)} lost: {_few(lost)}")
        if len(numbers) != len(set(numbers)):
            tell(f"{queue}: twice: {_few([one for one in numbers if numbers.count(one) > 1])}")
        if is_alone and numbers != sorted(numbers):
            tell(f"{queue}: out of order: {_few(_unordered(numbers))}")
        self._settle(queue, set(numbers))
        return verdict

    def _settle(self, queue: str, numbers: set[int]) -> None:
        """What is here is owed from now on if it was confirmed; what was acknowledged is gone."""
        for key in [key for key in self.acknowledged if key[0] == queue]:
            if key[1] in numbers:
                del self.acknowledged[key]
            else:
                self.gone.add(key)


def _few(numbers: list[int]) -> str:
    more = f" and {len(numbers) - 12} more" if len(numbers) > 12 else ""
    return ", ".join(map(str, numbers[:12])) + more


def _unordered(numbers: list[int]) -> list[int]:
    return [later for before, later in pairwise(numbers) if later < before]
