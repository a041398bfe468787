"""The topic trie, as each of its twins, against the plain definition."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import KINDS, pairs, twin

NAME = "fedq.wiring.routing.topics"
WORDS = ["a", "b", "c", "", "*", "#"]
patterns = st.lists(st.sampled_from(WORDS), max_size=6).map(".".join)
keys = st.lists(st.sampled_from(["a", "b", "c", "d", "", "#"]), max_size=7).map(".".join)
bindings = st.lists(st.tuples(patterns, st.integers(0, 5)), max_size=30)
#: Words of every length, and such that only whole words tell apart.
long_words = st.sampled_from(
    ["x" * size + end for size in (0, 6, 7, 8, 15, 16, 23, 40) for end in ("a", "b", "\x00", "ü")]
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "remove"]),
        st.lists(long_words | st.sampled_from(["a", "*", "#"]), max_size=4).map(".".join),
        st.integers(0, 3),
    ),
    max_size=40,
)


def matches(pattern: list[str], key: list[str]) -> bool:
    """RabbitMQ's definition, word for word."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return matches(pattern[1:], key) or (bool(key) and matches(pattern, key[1:]))
    return bool(key) and pattern[0] in ("*", key[0]) and matches(pattern[1:], key[1:])


def split(text: str) -> list[str]:
    return text.split(".") if text else []


def new_trie(kind: str) -> Any:
    """An empty trie of one of the twins."""
    return twin(NAME, kind).TopicTrie()


def found(trie: Any, key: str) -> list[int]:
    """The targets in order of their numbers; each is found once."""
    targets: tuple[int, ...] = trie.match(key.encode())
    assert len(targets) == len({*targets}), "a target twice"
    return sorted(targets)


@pytest.mark.parametrize("kind", KINDS)
@given(bindings, st.lists(keys, max_size=8))
def test_the_trie_finds_what_the_definition_says(
    kind: str, bindings: list[tuple[str, int]], published: list[str]
) -> None:
    trie = new_trie(kind)
    for pattern, target in bindings:
        trie.add(pattern.encode(), target)
    for key in published:
        assert found(trie, key) == sorted(
            {target for pattern, target in bindings if matches(split(pattern), split(key))}
        )


@pytest.mark.parametrize("kind", KINDS)
@given(steps)
def test_what_comes_and_goes_is_found_while_it_is_there(
    kind: str, history: list[tuple[str, str, int]]
) -> None:
    trie = new_trie(kind)
    there: Counter[tuple[str, int]] = Counter()
    for verb, pattern, target in history:
        if verb == "add":
            trie.add(pattern.encode(), target)
            there[pattern, target] += 1
        elif there[pattern, target]:
            trie.remove(pattern.encode(), target)
            there[pattern, target] -= 1
        for key in (pattern.replace("*", "a").replace("#", "a.a"), pattern, "a"):
            wanted = {
                target
                for (bound, target), count in there.items()
                if count and matches(split(bound), split(key))
            }
            assert found(trie, key) == sorted(wanted)
    for pattern, target in there.elements():
        trie.remove(pattern.encode(), target)
    assert trie.is_empty()


@given(steps, st.lists(keys, max_size=8))
def test_both_find_the_same_in_the_same_order(
    history: list[tuple[str, str, int]], published: list[str]
) -> None:
    pure, compiled = (module.TopicTrie() for module in pairs(NAME))
    there: Counter[tuple[str, int]] = Counter()
    for verb, pattern, target in history:
        removes = verb == "remove" and there[pattern, target] > 0
        there[pattern, target] += -1 if removes else 1
        for trie in (pure, compiled):
            (trie.remove if removes else trie.add)(pattern.encode(), target)
        for key in (*published, pattern):
            assert pure.match(key.encode()) == compiled.match(key.encode())
    assert pure.is_empty() == compiled.is_empty()


@pytest.mark.parametrize("kind", KINDS)
@given(bindings, st.data())
def test_what_is_removed_leaves_nothing(
    kind: str, bindings: list[tuple[str, int]], data: st.DataObject
) -> None:
    trie = new_trie(kind)
    for pattern, target in bindings:
        trie.add(pattern.encode(), target)
    for pattern, target in data.draw(st.permutations(bindings)):
        assert not trie.is_empty()
        trie.remove(pattern.encode(), target)
    assert trie.is_empty()


@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_bindings(kind: str) -> None:
    rng = random.Random(7)
    vocabulary = [f"w{number}" for number in range(12)]

    def pattern() -> str:
        size = rng.randint(0, 5)
        return ".".join(rng.choice([*vocabulary, "*", "*", "#"]) for _ in range(size))

    trie = new_trie(kind)
    bound = [(pattern(), target) for target in range(5_000)]
    for text, target in bound:
        trie.add(text.encode(), target)
    for left in (5_000, 2_500, 0):
        while len(bound) > left:
            text, target = bound.pop(rng.randrange(len(bound)))
            trie.remove(text.encode(), target)
        for _ in range(12):
            key = ".".join(rng.choices(vocabulary, k=rng.randint(0, 6)))
            assert found(trie, key) == sorted(
                target for text, target in bound if matches(split(text), split(key))
            )
    assert trie.is_empty()


@pytest.mark.parametrize("kind", KINDS)
def test_many_words_come_and_go(kind: str) -> None:
    trie = new_trie(kind)
    for generation in range(3):
        texts = [f"{number:0{1 + number % 20}}.{generation}".encode() for number in range(2_000)]
        for number, text in enumerate(texts):
            trie.add(text, number)
        for number, text in enumerate(texts):
            assert trie.match(text) == (number,)
            trie.remove(text, number)
            assert trie.match(text) == ()
        assert trie.is_empty()


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_is_that_of_the_walk(kind: str) -> None:
    trie = new_trie(kind)
    for target, pattern in enumerate([b"a.b", b"*.b", b"a.*", b"#.b", b"a.#", b"#", b"#.#"]):
        trie.add(pattern, target)
    assert trie.match(b"a.b") == (5, 6, 4, 3, 0, 2, 1), "those that end in # as they are reached"
    trie.add(b"a.b", 6)
    assert trie.match(b"a.b") == (5, 6, 4, 3, 0, 2, 1), "each once"


@pytest.mark.parametrize("kind", KINDS)
def test_many_hashes_do_not_explode(kind: str) -> None:
    trie = new_trie(kind)
    trie.add(b"#.a." * 60 + b"#", 1)
    assert trie.match(b".".join([b"a"] * 59)) == ()
    assert trie.match(b".".join([b"a"] * 120)) == (1,)
    for number in range(1_000):
        trie.add(b"#.a.#.b%d.#" % number, 0)
    assert trie.match(b".".join([b"a"] * 128)) == (1,)
    assert trie.match(b".".join([b"a", b"b999"] * 40)) == (0,)


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_bytes(kind: str) -> None:
    trie = new_trie(kind)
    for target, pattern in enumerate([b"\xff\x00.\xfe", b"\xff.*", b"\xff\x00\x00.*"]):
        trie.add(pattern, target)
    assert trie.match(b"\xff\x00.\xfe") == (0,)
    assert trie.match(b"\xff\x00\x00.") == (2,)
    assert trie.match(b"\xff\x00") == ()


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_never_added_cannot_be_removed(kind: str) -> None:
    trie = new_trie(kind)
    trie.add(b"a.b", 1)
    trie.add(b"a.c", 1)
    trie.add(b"a.c", 2)
    for pattern, target in ((b"a.b", 2), (b"a.c", 3), (b"a", 1), (b"b", 1), (b"#", 1), (b"", -1)):
        with pytest.raises(AssertionError):
            trie.remove(pattern, target)
    with pytest.raises(AssertionError):
        trie.add(b"a", -1)
    assert trie.match(b"a.b") == (1,)
    assert trie.match(b"a.c") == (1, 2)
