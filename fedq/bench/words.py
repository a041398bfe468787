"""Topic bindings and routing keys at random, and which binding matches which key.

In: how many bindings, how many keys, a seed. Out: patterns with `*` and `#` in all places mixed
with plain ones, of which a key of three or four words matches about five; and the matches, found
by a matcher of the generator's own, so that a broker's routing is checked and not believed.
"""

import random
from collections.abc import Iterator
from typing import Final, NamedTuple

#: Of a thousand bindings, how many have which form; a letter is a word from its place's list.
_FORMS: Final = (
    (300, "a.b.c"),
    (150, "a.b.*"),
    (150, "a.*.c"),
    (150, "*.b.c"),
    (100, "a.b.#"),
    (100, "#.b.c"),
    (20, "a.#.c"),
    (10, "a.#"),
    (10, "#.c"),
    (10, "*.b.*"),
)
_FOUR_WORDS: Final = 0.2
_Node = dict[str, "_Node | list[int]"]
_END: Final = ""


class Words(NamedTuple):
    """The patterns of bindings, all different, and the keys of messages."""

    patterns: list[str]
    keys: list[str]


def words_for(bindings: int, keys: int, seed: int) -> Words:
    """The given numbers of different patterns and of keys."""
    chance = random.Random(seed)
    vocabulary = max(4, round((bindings / 4) ** 0.5))
    forms = [form for _, form in _FORMS]
    weights = [weight for weight, _ in _FORMS]
    patterns: dict[str, None] = {}
    while len(patterns) < bindings:
        form = chance.choices(forms, weights)[0]
        patterns[_filled(form, vocabulary, chance)] = None
    drawn = [
        _filled("a.b.c.b" if chance.random() < _FOUR_WORDS else "a.b.c", vocabulary, chance)
        for _ in range(keys)
    ]
    return Words(list(patterns), drawn)


def _filled(form: str, vocabulary: int, chance: random.Random) -> str:
    words = [
        part if part in "*#" else f"{part}{chance.randrange(vocabulary)}"
        for part in form.split(".")
    ]
    return ".".join(words)


def matches(words: Words) -> Iterator[list[int]]:
    """The indexes of the patterns that match each key, in any order, each once."""
    root: _Node = {}
    for index, pattern in enumerate(words.patterns):
        node = root
        for word in pattern.split("."):
            node = node.setdefault(word, {})  # type: ignore[assignment]
        node.setdefault(_END, []).append(index)  # type: ignore[union-attr]
    for key in words.keys:
        found: dict[int, None] = {}
        _walk(root, key.split("."), 0, found)
        yield list(found)


def _walk(node: _Node, key: list[str], at: int, found: dict[int, None]) -> None:
    if at == len(key):
        ends = node.get(_END, [])
        assert isinstance(ends, list)
        found.update(dict.fromkeys(ends))
    else:
        for word in (key[at], "*"):
            below = node.get(word)
            if isinstance(below, dict):
                _walk(below, key, at + 1, found)
    many = node.get("#")
    if isinstance(many, dict):
        for rest in range(at, len(key) + 1):
            _walk(many, key, rest, found)
