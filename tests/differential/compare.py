"""One script on two brokers in lockstep, up to the first step where they differ.

Input: a script and two sides. Output: a `Difference` for each step whose streams are not equal
when both have been quiet for a while. What follows a difference is only its consequence, so the
script ends there, unless only the words after a reply code differ.
"""

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from tests.differential.channels import CLOSING, Streams
from tests.differential.script import Operation, Script, has_timers, steps
from tests.differential.side import Side
from tests.integration.waiting import TooLateError

#: How long both may take until they agree: brokers answer before all consequences have arrived.
PATIENCE_S: Final = 0.7
#: How often both are asked again at least, since time alone says little on a busy machine: when an
#: answer differs, which will not change (but what follows it in the same stream may be late), and
#: when anything else does.
ROUNDS_AFTER_ANSWER: Final = 3
ROUNDS_MIN: Final = 10
#: For so long, beyond every short timer, nobody asks anything: that they agree while timers
#: run says nothing, and asking would use the queues whose disuse some timers measure.
SILENCE_S: Final = 0.09
#: Between two questions while what both show may still become the same.
_POLL_S: Final = 0.01
#: Values and names in lines that say nothing about the kind of a difference.
_PARTICULARS: Final = re.compile(
    r"'[^']*'|\"[^\"]*\"|\b(True|False|None)\b|\b[a-z]\d+(-\d+)?\b|\d{1,2}\b|amq\.[\w.-]+"
)


#: (step, RabbitMQ's streams, fedq's streams).
OnStep = Callable[[Script, Streams, Streams], None]


class Difference(NamedTuple):
    """What the two brokers showed in one step of a script."""

    #: The script up to and with the step that differs.
    script: Script
    #: By stream: the reference's lines, fedq's lines.
    streams: dict[str, tuple[list[str], list[str]]]

    @property
    def step(self) -> Script:
        """What was sent in one write."""
        return steps(self.script)[-1]

    @property
    def operation(self) -> Operation:
        """What the step does, at the end."""
        return self.script[-1]

    @property
    def is_of_words(self) -> bool:
        """Whether nothing but the text after a reply code differs."""
        return all(is_text(stream) for stream in self.streams)

    @property
    def kind(self) -> str:
        """What differences of the same cause have in common."""
        answers = {name: both for name, both in self.streams.items() if _is_answer(name)}
        parts: dict[str, None] = {}
        for stream, (reference, subject) in sorted((answers or self.streams).items()):
            what = re.sub(r"\w?\d+", "", stream).strip() or "answers"
            parts[f"{what} {_outline(reference)} / {_outline(subject)}"] = None
            text = self.streams.get(f"{stream} text", ([], []))
            if text[0] and not text[1]:
                parts[_masked(text[0])] = None
        if self.is_of_words:
            parts = {f"{_masked(one)} / {_masked(two)}": None for one, two in self.streams.values()}
        return " + ".join(each.verb for each in self.step) + ": " + "; ".join(parts)

    def __str__(self) -> str:
        lines = [f"step {len(steps(self.script))}: {' '.join(map(str, self.step))}"]
        for stream, (reference, subject) in self.streams.items():
            for who, shown in (("RabbitMQ", reference), ("fedq    ", subject)):
                lines += [f"  {stream:12} {who} {line}" for line in shown or ["(nothing)"]]
        return "\n".join(lines)


def is_text(stream: str) -> bool:
    """Whether the stream holds the words after reply codes."""
    return stream.endswith(" text")


def _is_answer(stream: str) -> bool:
    """Whether the stream is a channel's or a connection's own."""
    return " " not in stream


def _masked(lines: list[str]) -> str:
    return " | ".join(_PARTICULARS.sub("…", line) for line in lines) or "nothing"


def _outline(lines: list[str]) -> str:
    """Names of methods, with their reply codes; neighbours of a kind once."""
    found: dict[str, None] = {}
    for line in lines:
        code = re.search(r"(reply_code=|with )(\d+)", line)
        found[line.split(" ")[0].lstrip("0123456789") + (f" {code[2]}" if code else "")] = None
    return ", ".join(found) or "nothing"


def _is_cut(stream: str, closing: list[str]) -> bool:
    """Whether it holds deliveries to a channel or connection that ended in this step.

    How many of them still arrive before the end is open.
    """
    place, _, consumer = stream.partition(" ")
    if not consumer or consumer in ("text", "order", "confirms"):
        return stream.endswith(CLOSING)
    return any(name in (place + CLOSING, place[0] + "0" + CLOSING) for name in closing)


def differing(reference: Streams, subject: Streams) -> dict[str, tuple[list[str], list[str]]]:
    """Streams whose lines are not the same."""
    closing = [name for name in (*reference, *subject) if name.endswith(CLOSING)]
    names = dict.fromkeys(name for name in (*reference, *subject) if not _is_cut(name, closing))
    return {
        name: (reference.get(name, []), subject.get(name, []))
        for name in names
        if reference.get(name) != subject.get(name)
    }


class Played(NamedTuple):
    """What became of a script."""

    operations: int
    differences: list[Difference]


def play(
    script: Script,
    sides: tuple[Side, Side],
    prefix: str,
    patience_s: float = PATIENCE_S,
    on_step: OnStep | None = None,
) -> Played:
    """Performs the script on both; `sides` are the reference and fedq.

    `on_step` hears what both showed in each step.
    """
    for side, letter in zip(sides, "rf", strict=True):
        side.begin_script(f"{prefix}{letter}-")
    silence_s = SILENCE_S if has_timers(script) else 0.0
    differences: list[Difference] = []
    done = 0
    for step in steps(script):
        done += len(step)
        found = _step(step, sides, silence_s, patience_s)
        if on_step is not None:
            on_step(step, sides[0].streams, sides[1].streams)
        if found:
            differences.append(Difference(script[:done], found))
            if not differences[-1].is_of_words:
                break
        for side in sides:
            side.end_step()
    for side in sides:
        side.end_script()
    return Played(done, differences)


def _step(
    step: Script, sides: tuple[Side, Side], silence_s: float, patience_s: float
) -> dict[str, tuple[list[str], list[str]]]:
    for side in sides:
        _patiently(side, partial(side.begin, step))
    for side in sides:
        _patiently(side, partial(side.complete, step))
    time.sleep(silence_s)
    until = time.monotonic() + patience_s
    rounds = 0
    while True:
        rounds += 1
        for side in sides:
            _patiently(side, side.settle)
        found = differing(sides[0].streams, sides[1].streams)
        if not found or all(map(is_text, found)):
            return found
        if time.monotonic() > until and rounds >= ROUNDS_MIN:
            return found
        if _is_answered(step[-1]) and step[-1].place in found and rounds >= ROUNDS_AFTER_ANSWER:
            return found
        time.sleep(_POLL_S)


def _is_answered(operation: Operation) -> bool:
    """Whether the operation is a method with an answer: that has come, and will not change."""
    return "." in operation.verb and not operation.arguments.get("no_wait")


def _patiently(side: Side, act: Callable[[], None]) -> None:
    """A broker that does not answer is a difference, too."""
    try:
        act()
    except TooLateError as error:
        side.streams.setdefault("silence", []).append(str(error))
        side.close()
