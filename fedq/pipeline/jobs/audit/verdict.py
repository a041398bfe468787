"""What an audit found, small enough for a page and a script."""

from dataclasses import asdict, dataclass
from typing import Any, Final

PROMISES: Final = {
    "P1": "confirmed is kept",
    "P2": "one owner at a time",
    "P3": "acknowledged stays gone",
    "P4": "order",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A message that refutes a promise."""

    promise: str
    rule: str
    vhost: str
    queue: str
    fragment: int
    #: None: it has none.
    position: int | None
    #: Where it was seen, and when, in milliseconds since 1970.
    node: str
    ms: int
    text: str

    @property
    def name(self) -> str:
        """The message, as a trace names it: fragment, reign and number in the reign."""
        if self.position is None:
            return f"fragment {self.fragment}"
        reign, number = self.position >> 40, self.position & (1 << 40) - 1
        return f"fragment {self.fragment}, {reign}.{number}"


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the trace has of the period."""

    begin_ms: int
    end_ms: int
    nodes: tuple[str, ...]
    events: int
    #: Events that nodes could not write, and batches that are missing between others.
    lost_events: int
    missing_batches: int

    @property
    def is_whole(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self.lost_events and not self.missing_batches


@dataclass(frozen=True, slots=True)
class Verdict:
    """All of it."""

    coverage: Coverage
    #: By promise: how many messages could have refuted it, and how many findings there are.
    judged: dict[str, int]
    counts: dict[str, int]
    #: By rule.
    rules: dict[str, int]
    #: The first of them, by time.
    findings: tuple[Finding, ...]
    #: When each stretch begins (ms), what kind of events, and how many.
    activity: tuple[tuple[int, str, int], ...]
    #: Confirmed publishes of P1 that a process may have seen that ended without a word.
    undecided: int = 0

    @property
    def is_refuted(self) -> bool:
        """Whether there is any finding."""
        return any(self.counts.values())

    def of(self, promise: str) -> str:
        """The verdict on a promise: refuted, kept, or open."""
        if self.counts.get(promise, 0):
            return "refuted"
        if not self.judged.get(promise, 0) or not self.coverage.is_whole:
            return "open"
        if promise == "P1" and self.undecided:
            return "open"
        return "kept"

    def as_json(self) -> dict[str, Any]:
        """The form for scripts."""
        return {
            **asdict(self),
            "verdicts": {promise: self.of(promise) for promise in PROMISES},
            "findings": [{**asdict(each), "message": each.name} for each in self.findings],
        }
