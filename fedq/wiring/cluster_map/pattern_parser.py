"""The way from the text of a regular expression to the program that `patterns` beside it runs.

Inputs: a text, and how many steps its program may have. Output: the steps, the last of which is
`MATCH`; or `PatternError` with what is wrong and where. Time and memory are bounded by the limits:
nesting by GROUPS_DEPTH_MAX, repetition by the number of steps (a repeated part is written out).
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

GROUPS_DEPTH_MAX: Final = 50
#: One above the last code of a character.
_CODE_END: Final = 0x110000
REPEAT_MAX: Final = 1_000

#: What a step does: takes one character, goes on at several places, asks for an end, is the goal.
ONE_OF: Final = 0
SPLIT: Final = 1
START: Final = 2
END: Final = 3
MATCH: Final = 4


class PatternError(ValueError):
    """The text is no regular expression that fedq can run; says what is wrong with it."""


class Characters(NamedTuple):
    """A set of characters: single ones and ranges, or (`negated`) all others."""

    singles: str
    ranges: tuple[tuple[str, str], ...] = ()
    negated: bool = False


class Step(NamedTuple):
    """One step of a program; which field means something depends on `code`."""

    code: int
    #: Of SPLIT: where it goes on.
    targets: tuple[int, ...] = ()
    #: Of ONE_OF: the codes at which the characters that it takes begin and end, alternately.
    cuts: tuple[int, ...] = ()

    def holds(self, character: str) -> bool:
        """Whether a ONE_OF takes this character; as fast for a thousand ranges as for a few."""
        return bisect_right(self.cuts, ord(character)) % 2 == 1


def one_of(sets: Sequence[Characters], *, negated: bool = False) -> Step:
    """A step that takes any character of these sets, or (`negated`) of none of them."""
    spans: list[tuple[int, int]] = []
    for singles, ranges, is_negated in sets:
        own = [(ord(single), ord(single) + 1) for single in singles]
        own += [(ord(low), ord(high) + 1) for low, high in ranges]
        cuts = _merged(own)
        if is_negated:
            cuts = _complement(cuts)
        spans += zip(cuts[::2], cuts[1::2], strict=True)
    merged = _merged(spans)
    return Step(ONE_OF, cuts=tuple(_complement(merged) if negated else merged))


def _merged(spans: list[tuple[int, int]]) -> list[int]:
    """Where these begin and end, in order and without overlaps."""
    cuts: list[int] = []
    for begin, end in sorted(spans):
        if cuts and begin <= cuts[-1]:
            cuts[-1] = max(cuts[-1], end)
        else:
            cuts += [begin, end]
    return cuts


def _complement(cuts: list[int]) -> list[int]:
    """The ranges of all other characters."""
    begin = cuts[1:] if cuts[:1] == [0] else [0, *cuts]
    return begin[:-1] if cuts[-1:] == [_CODE_END] else [*begin, _CODE_END]


# --- the tree --------------------------------------------------------------------------------


class _Leaf(NamedTuple):
    step: Step


class _Sequence(NamedTuple):
    parts: tuple["_Node", ...]


class _Choice(NamedTuple):
    parts: tuple["_Node", ...]


class _Repeat(NamedTuple):
    part: "_Node"
    least: int
    #: None: without end.
    most: int | None


_Node = _Leaf | _Sequence | _Choice | _Repeat

_DIGITS: Final = Characters("", (("0", "9"),))
_WORDS: Final = Characters("_", (("0", "9"), ("A", "Z"), ("a", "z")))
_SPACES: Final = Characters(" \t\n\r\f\v")
_CLASSES: Final = {
    "d": _DIGITS,
    "D": _DIGITS._replace(negated=True),
    "w": _WORDS,
    "W": _WORDS._replace(negated=True),
    "s": _SPACES,
    "S": _SPACES._replace(negated=True),
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ANY: Final = Characters("\n", negated=True)


class _Parser:
    """Recursive descent over the text."""

    __slots__ = ("at", "depth", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def wrong(self, what: str) -> PatternError:
        return PatternError(f"{what} at character {self.at + 1}")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, wanted: str) -> bool:
        if not self.text.startswith(wanted, self.at):
            return False
        self.at += len(wanted)
        return True

    def choice(self) -> _Node:
        parts = [self.sequence()]
        while self.take("|"):
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else _Choice(tuple(parts))

    def sequence(self) -> _Node:
        parts: list[_Node] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated())
        return _Sequence(tuple(parts))

    def repeated(self) -> _Node:
        start = self.at
        part = self.single()
        bounds = self.bounds()
        if bounds is None:
            return part
        if isinstance(part, _Leaf) and part.step.code != ONE_OF:
            self.at = start
            raise self.wrong("an end of the name cannot be repeated")
        least, most = bounds
        if not self.take("?") and self.peek() == "+":
            raise self.wrong("possessive repetition is not supported")
        if self.peek() in ("*", "+", "?"):
            raise self.wrong("a repetition is repeated")
        return _Repeat(part, least, most)

    def bounds(self) -> tuple[int, int | None] | None:
        """Takes the repetition that follows; None if none does."""
        if self.take("*"):
            return 0, None
        if self.take("+"):
            return 1, None
        if self.take("?"):
            return 0, 1
        if self.peek() != "{":
            return None
        inside, brace, _ = self.text[self.at + 1 :].partition("}")
        low, comma, high = inside.partition(",")
        numbers = low.isascii() and low.isdigit() and (not high or high.isdigit())
        if not brace or not numbers or not high.isascii():
            # As in Perl, a brace that begins no repetition stands for itself.
            return None
        if len(inside) > 9 or int(low) > REPEAT_MAX or (high and int(high) > REPEAT_MAX):
            raise self.wrong(f"more than {REPEAT_MAX} repetitions")
        least = int(low)
        most = int(high) if high else (None if comma else least)
        if most is not None and most < least:
            raise self.wrong("a repetition ends before it begins")
        self.at += len(inside) + 2
        return least, most

    def single(self) -> _Node:
        if self.take("("):
            return self.group()
        if self.take("["):
            return self.bracket()
        if self.take("\\"):
            return self.escape()
        if self.take("^"):
            return _Leaf(Step(START))
        if self.take("$"):
            return _Leaf(Step(END))
        if self.take("."):
            return _Leaf(one_of([_ANY]))
        if self.peek() in ("*", "+", "?"):
            raise self.wrong("nothing to repeat")
        character = self.peek()
        self.at += 1
        return _Leaf(one_of([Characters(character)]))

    def group(self) -> _Node:
        if self.depth == GROUPS_DEPTH_MAX:
            raise self.wrong(f"groups are nested deeper than {GROUPS_DEPTH_MAX}")
        if self.peek() == "?" and not self.take("?:"):
            raise self.wrong("groups with (? are not supported, but for (?:")
        if self.peek() == "*":
            raise self.wrong("verbs with (* are not supported")
        self.depth += 1
        inside = self.choice()
        if not self.take(")"):
            raise self.wrong("a group is not closed")
        self.depth -= 1
        return _Sequence((inside,))

    def escape(self) -> _Node:
        if self.take("A"):
            return _Leaf(Step(START))
        if self.take("z") or self.take("Z"):
            return _Leaf(Step(END))
        return _Leaf(one_of([self.escaped()]))

    def escaped(self) -> Characters:
        """What the character after a backslash stands for."""
        character = self.peek()
        if not character:
            raise self.wrong("nothing follows the backslash")
        self.at += 1
        if character in _CLASSES:
            return _CLASSES[character]
        if character in _CONTROLS:
            return Characters(_CONTROLS[character])
        if character == "x":
            digits = self.text[self.at : self.at + 2]
            try:
                code = int(digits, 16) if len(digits) == 2 and digits.isalnum() else -1
            except ValueError:
                code = -1
            if code < 0:
                raise self.wrong("\\x wants two hexadecimal digits")
            self.at += 2
            return Characters(chr(code))
        if character.isascii() and character.isalnum():
            self.at -= 1
            raise self.wrong(f"\\{character} is not supported")
        return Characters(character)

    def bracket(self) -> _Node:
        negated = self.take("^")
        singles: list[str] = []
        ranges: list[tuple[str, str]] = []
        sets: list[Characters] = []
        first = True
        while first or self.peek() != "]":
            first = False
            low = self.member()
            if len(low.singles) != 1 or low.ranges or low.negated:
                sets.append(low)
                continue
            if self.peek() != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
                singles.append(low.singles)
                continue
            self.at += 1
            high = self.member()
            if len(high.singles) != 1 or high.ranges or high.negated or high < low:
                raise self.wrong("a range of characters ends before it begins")
            ranges.append((low.singles, high.singles))
        self.at += 1
        plain = Characters("".join(singles), tuple(ranges))
        return _Leaf(one_of([plain, *sets], negated=negated))

    def member(self) -> Characters:
        """One character, or one class, between brackets."""
        character = self.peek()
        if not character:
            raise self.wrong("a [ is not closed")
        if character == "[" and self.text[self.at + 1 : self.at + 2] in (":", ".", "="):
            raise self.wrong("named classes such as [:alpha:] are not supported")
        self.at += 1
        return self.escaped() if character == "\\" else Characters(character)


# --- the program -----------------------------------------------------------------------------


class _Writer:
    """Writes a tree out as steps."""

    __slots__ = ("_left", "_steps_max", "steps")

    def __init__(self, steps_max: int) -> None:
        self.steps: list[Step] = []
        self._steps_max = steps_max
        #: Nodes that may still be written: what writes nothing costs time, too.
        self._left = 8 * steps_max

    def add(self, step: Step) -> int:
        if len(self.steps) >= self._steps_max:
            raise PatternError(f"it takes more than {self._steps_max} steps; say it more briefly")
        self.steps.append(step)
        return len(self.steps) - 1

    def write(self, node: _Node) -> None:
        self._left -= 1
        if self._left < 0:
            raise PatternError(f"it takes more than {self._steps_max} steps; say it more briefly")
        if isinstance(node, _Leaf):
            self.add(node.step)
        elif isinstance(node, _Sequence):
            for part in node.parts:
                self.write(part)
        elif isinstance(node, _Choice):
            self._write_choice(node)
        else:
            self._write_repeat(node)

    def _write_choice(self, node: _Choice) -> None:
        ends = []
        for part in node.parts[:-1]:
            split = self.add(Step(SPLIT))
            self.write(part)
            ends.append(self.add(Step(SPLIT)))
            self.steps[split] = Step(SPLIT, (split + 1, len(self.steps)))
        self.write(node.parts[-1])
        for end in ends:
            self.steps[end] = Step(SPLIT, (len(self.steps),))

    def _write_repeat(self, node: _Repeat) -> None:
        for _ in range(node.least):
            self.write(node.part)
        if node.most is None:
            split = self.add(Step(SPLIT))
            self.write(node.part)
            self.add(Step(SPLIT, (split,)))
            self.steps[split] = Step(SPLIT, (split + 1, len(self.steps)))
            return
        splits = []
        for _ in range(node.most - node.least):
            splits.append(self.add(Step(SPLIT)))
            self.write(node.part)
        for split in splits:
            self.steps[split] = Step(SPLIT, (split + 1, len(self.steps)))


def compile_pattern(text: str, steps_max: int) -> tuple[Step, ...]:
    """The program of a regular expression. Raises `PatternError`."""
    parser = _Parser(text)
    tree = parser.choice()
    if parser.at < len(text):
        raise parser.wrong("a ) closes no group")
    writer = _Writer(steps_max)
    writer.write(tree)
    writer.add(Step(MATCH))
    return tuple(writer.steps)
