"""The topic trie against the plain definition."""

import random

from hypothesis import given
from hypothesis import strategies as st

from fedq.wiring.topics import TopicTrie

WORDS = ["a", "b", "c", "", "*", "#"]
patterns = st.lists(st.sampled_from(WORDS), max_size=6).map(".".join)
keys = st.lists(st.sampled_from(["a", "b", "c", "d", "", "#"]), max_size=7).map(".".join)


def matches(pattern: list[str], key: list[str]) -> bool:
    """RabbitMQ's definition, word for word."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return matches(pattern[1:], key) or (bool(key) and matches(pattern, key[1:]))
    return bool(key) and pattern[0] in ("*", key[0]) and matches(pattern[1:], key[1:])


def split(text: str) -> list[str]:
    return text.split(".") if text else []


@given(st.lists(st.tuples(patterns, st.integers(0, 5)), max_size=30), st.lists(keys, max_size=8))
def test_the_trie_finds_what_the_definition_says(
    bindings: list[tuple[str, int]], published: list[str]
) -> None:
    trie: TopicTrie[int] = TopicTrie()
    for pattern, target in bindings:
        trie.add(pattern, target)
    for key in published:
        found: dict[int, int] = {}
        trie.match(key, found)
        assert sorted(found) == sorted(
            {target for pattern, target in bindings if matches(split(pattern), split(key))}
        )


@given(st.lists(st.tuples(patterns, st.integers(0, 3)), max_size=30), st.data())
def test_what_is_removed_leaves_nothing(
    bindings: list[tuple[str, int]], data: st.DataObject
) -> None:
    trie: TopicTrie[int] = TopicTrie()
    for pattern, target in bindings:
        trie.add(pattern, target)
    left = list(data.draw(st.permutations(bindings)))
    while left:
        trie.remove(*left.pop())
        assert sorted(trie.targets()) == sorted(
            target for _, target in {(pattern, target) for pattern, target in left}
        )
    assert trie.is_empty()


def test_thousands_of_bindings() -> None:
    rng = random.Random(7)
    vocabulary = [f"w{number}" for number in range(12)]

    def pattern() -> str:
        size = rng.randint(0, 5)
        return ".".join(rng.choice([*vocabulary, "*", "*", "#"]) for _ in range(size))

    trie: TopicTrie[int] = TopicTrie()
    bindings = [(pattern(), target) for target in range(5_000)]
    for text, target in bindings:
        trie.add(text, target)
    for _ in range(25):
        key = ".".join(rng.choices(vocabulary, k=rng.randint(0, 6)))
        found: dict[int, int] = {}
        trie.match(key, found)
        assert sorted(found) == [
            target for text, target in bindings if matches(split(text), split(key))
        ]


def test_many_hashes_do_not_explode() -> None:
    trie: TopicTrie[int] = TopicTrie()
    trie.add("#.a." * 60 + "#", 1)
    found: dict[int, int] = {}
    trie.match(".".join(["a"] * 59), found)
    assert not found
    trie.match(".".join(["a"] * 120), found)
    assert sorted(found) == [1]
