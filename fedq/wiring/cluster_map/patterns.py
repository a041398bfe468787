r"""Regular expressions of permissions and policies as Thompson automata: time is bounded.

Inputs: the text of a pattern, as RabbitMQ's administrators write them; names. Output: whether the
pattern is found in the name (anywhere: `^` and `$` tie it to the ends), or `PatternError`.

The standard library's engine tries one way after the other, and a few characters such as `(a+)+$`
make it busy for years: whoever may set permissions, by mistake even, would stop every node. Here a
pattern becomes a small program whose alternatives advance together, one character at a time (K.
Thompson), so a name takes at most (its length) x `limits.PATTERN_STEPS_MAX` steps. What cannot be
matched in this way (back references, looking ahead and behind, possessive quantifiers) is refused.

Understood: literals, `.`, classes, `\d \w \s \D \W \S \t \n \r \f`, `\xhh`, escaped
punctuation, groups `(…)` and `(?:…)`, `|`, `* + ? {m} {m,} {m,n}` (lazy ones mean the same here),
`^ $ \A \z`. `$` is the very end of the name.
"""

from typing import Final, NamedTuple

from fedq.core import limits
from fedq.wiring.cluster_map.pattern_parser import (
    END,
    MATCH,
    ONE_OF,
    SPLIT,
    START,
    PatternError,
    compile_pattern,
)

__all__ = ["EVERYTHING", "Pattern", "PatternError", "compile_text"]

#: Steps from one set of states that are kept; then they are forgotten and found anew.
_KNOWN_MAX: Final = 500
#: Texts that match every name (of the lengths names have).
_EVERYTHING: Final = (".*", "^.*", "^.*$", ".*$", "^", "$", "()", "(.*)", "^(.*)$")


class _State(NamedTuple):
    """The places in the program that are alive before a character."""

    #: Positions of `ONE_OF` instructions, in order.
    alive: tuple[int, ...]
    #: The pattern was found already.
    found: bool


class Pattern:
    """One compiled pattern; `matches` is all there is to it."""

    __slots__ = ("_known", "_program", "_start", "text")

    def __init__(self, text: str) -> None:
        """Raises `PatternError`; the text's length is checked here, too."""
        if len(text.encode("utf-8", "surrogateescape")) > limits.PATTERN_BYTES_MAX:
            raise PatternError(f"it is longer than {limits.PATTERN_BYTES_MAX} bytes")
        self.text = text
        # As in RabbitMQ, nothing at all means that no name will do.
        self._program = compile_pattern(text or "^$", limits.PATTERN_STEPS_MAX)
        self._start = self._closure([0], at_start=True)
        self._known: dict[tuple[_State, str], _State] = {}

    @property
    def steps(self) -> int:
        """How many steps its program has: so many a character of a name takes at most."""
        return len(self._program)

    def matches(self, name: str) -> bool:
        """Whether the pattern is found in the name."""
        state = self._start
        for character in name:
            if state.found:
                return True
            state = self._step(state, character)
        if state.found:
            return True
        return self._ends(state, at_start=not name)

    def _step(self, state: _State, character: str) -> _State:
        known = self._known.get((state, character))
        if known is not None:
            return known
        program = self._program
        places = [
            place + 1
            for place in state.alive
            if program[place].code == ONE_OF and program[place].holds(character)
        ]
        # It may also begin at the next character.
        places.append(0)
        after = self._closure(places, at_start=False)
        if len(self._known) >= _KNOWN_MAX:
            self._known = {}
        self._known[state, character] = after
        return after

    def _closure(self, places: list[int], *, at_start: bool) -> _State:
        """The places that are reached without a character; ends of the name wait as `END`."""
        alive = self._reach(places, at_start=at_start, at_end=False)
        found = any(self._program[place].code == MATCH for place in alive)
        return _State(() if found else tuple(sorted(alive)), found)

    def _ends(self, state: _State, *, at_start: bool) -> bool:
        """Whether the pattern is found now that the name is over."""
        left = [place for place in state.alive if self._program[place].code == END]
        reached = self._reach(left, at_start=at_start, at_end=True)
        return any(self._program[place].code == MATCH for place in reached)

    def _reach(self, places: list[int], *, at_start: bool, at_end: bool) -> dict[int, None]:
        program = self._program
        seen: dict[int, None] = {}
        alive: dict[int, None] = {}
        left = places
        while left:
            place = left.pop()
            if place in seen:
                continue
            seen[place] = None
            step = program[place]
            if step.code == SPLIT:
                left.extend(step.targets)
            elif step.code == START:
                if at_start:
                    left.append(place + 1)
            elif step.code == END and at_end:
                left.append(place + 1)
            else:
                alive[place] = None
        return alive


class _Everything(Pattern):
    """Matches all names without looking at them."""

    __slots__ = ()

    def matches(self, name: str) -> bool:
        return True


#: What `.*` becomes; compare by identity to skip a check.
EVERYTHING: Final[Pattern] = _Everything(".*")


def compile_text(text: str) -> Pattern:
    """The pattern of a text; `EVERYTHING` for those that plainly match all names."""
    return EVERYTHING if text in _EVERYTHING else Pattern(text)
