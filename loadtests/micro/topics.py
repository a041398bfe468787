"""Claim: a topic lookup costs its words and branches, not the number of bindings."""

from fedq.wiring.topics import TopicTrie
from loadtests.micro.timing import Case

WORDS = ("stock", "order", "news", "trade", "quote")


def trie_of(patterns: int) -> TopicTrie[int]:
    """A trie of plain, starred and hashed patterns in equal parts."""
    trie: TopicTrie[int] = TopicTrie()
    for number in range(patterns):
        first, last = WORDS[number % len(WORDS)], f"k{number // 3}"
        shapes = (f"{first}.nyse.{last}", f"{first}.*.{last}", f"{first}.#.{last}")
        trie.add(shapes[number % 3], number)
    return trie


SMALL, LARGE = trie_of(100), trie_of(10_000)
KEYS = [f"{WORDS[number % len(WORDS)]}.nyse.k{number}" for number in range(200)]


def look_up(trie: TopicTrie[int]) -> int:
    """Looks up every key; returns how many targets matched."""
    matched = 0
    for key in KEYS:
        found: dict[int, int] = {}
        trie.match(key, found)
        matched += len(found)
    return matched


CASES = [
    Case("topic lookup, 100 patterns", len(KEYS), lambda: look_up(SMALL)),
    Case("topic lookup, 10,000 patterns", len(KEYS), lambda: look_up(LARGE)),
]
