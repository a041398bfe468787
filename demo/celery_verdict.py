"""What the records of the Celery demo prove: which tasks were lost, which ran twice, the pauses.

In: the records of the client (SENT, CONFIRMED) and of the pool processes (DELIVERED: executed).
Out: a `Verdict`. Pure, so it can be tested. A task is named by its kind and number; it is *lost*
if the broker confirmed it and nobody executed it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from demo.celery_app import CHORD, WRONG
from demo.records import CONFIRMED, DELIVERED, SENT, Record
from demo.verdict import Gap, Message, longest_gap


@dataclass(slots=True)
class Verdict:
    """The account of a run; counts are of tasks unless they say otherwise."""

    submitted: int = 0
    executed: int = 0
    lost: list[Message] = field(default_factory=list)
    #: Tasks that were executed more than once, and those of them of which the client had sent
    #: the message again, since it had heard no confirm.
    executed_twice: int = 0
    sent_again: int = 0
    #: Chords whose body ran on all results of the header; bodies that got something else.
    chords: int = 0
    chords_wrong: int = 0
    #: Without any execution on any worker.
    pause: Gap = field(default_factory=Gap)

    @property
    def is_good(self) -> bool:
        """Nothing lost, nothing wrong."""
        return self.submitted > 0 and not self.lost and not self.chords_wrong


def missing(records: Iterable[Record]) -> list[Message]:
    """Tasks that are submitted and, so far, not executed."""
    submitted: dict[Message, None] = {}
    executed: dict[Message, None] = {}
    for record in records:
        if record.kind == CONFIRMED:
            submitted[record.name, record.sequence] = None
        elif record.kind == DELIVERED:
            executed[record.name, record.sequence] = None
    return sorted(task for task in submitted if task not in executed)


def judge(records: Sequence[Record]) -> Verdict:
    """The verdict on all records of a finished run, in any order."""
    executed = Counter((r.name, r.sequence) for r in records if r.kind == DELIVERED)
    submitted = {(r.name, r.sequence): None for r in records if r.kind == CONFIRMED}
    return Verdict(
        submitted=len(submitted),
        executed=len(executed),
        lost=missing(records),
        executed_twice=sum(count > 1 for count in executed.values()),
        sent_again=len({(r.name, r.sequence) for r in records if r.kind == SENT and r.attempt > 1}),
        chords=sum(name == CHORD for name, _ in executed),
        chords_wrong=sum(record.kind == WRONG for record in records),
        pause=longest_gap(r.at_ms for r in records if r.kind == DELIVERED),
    )
