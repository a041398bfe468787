"""The patterns of a topic exchange as a trie of words (specification 3.1.3.4).

Inputs: patterns with their targets, and routing keys; output: the targets whose patterns match.
Words are separated by dots; `*` stands for exactly one word, `#` for any number of them, none
included. As in RabbitMQ, the empty key has no words, and "a..b" has an empty one in the middle.

Matching walks all branches at once, word by word, and visits no branch twice for one word: the
cost is at most words times branches, however many `#` a pattern has.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Target = TypeVar("Target", bound=Hashable)


class _Branch(Generic[Target]):
    """The patterns that begin with the words on the way here. Sparse: most have no children."""

    __slots__ = ("hash", "is_hash", "star", "targets", "words")

    def __init__(self, is_hash: bool) -> None:
        self.is_hash = is_hash
        self.words: dict[str, _Branch[Target]] | None = None
        self.star: _Branch[Target] | None = None
        self.hash: _Branch[Target] | None = None
        #: The targets of the pattern that ends here, each with how often it was added.
        self.targets: dict[Target, int] | None = None

    def child(self, word: str) -> "_Branch[Target] | None":
        if word == "*":
            return self.star
        if word == "#":
            return self.hash
        return self.words.get(word) if self.words is not None else None

    def grow(self, word: str) -> "_Branch[Target]":
        child: _Branch[Target] = _Branch(word == "#")
        if word == "*":
            self.star = child
        elif word == "#":
            self.hash = child
        else:
            if self.words is None:
                self.words = {}
            self.words[word] = child
        return child

    def prune(self, word: str) -> None:
        if word == "*":
            self.star = None
        elif word == "#":
            self.hash = None
        else:
            assert self.words is not None
            del self.words[word]
            self.words = self.words or None

    def is_bare(self) -> bool:
        return not (self.targets or self.words or self.star or self.hash)

    def children(self) -> Iterator["_Branch[Target]"]:
        if self.star is not None:
            yield self.star
        if self.hash is not None:
            yield self.hash
        if self.words is not None:
            yield from self.words.values()


class TopicTrie(Generic[Target]):
    """Patterns and targets; a target added n times under a pattern leaves when removed n times."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Branch[Target] = _Branch(False)

    def add(self, pattern: str, target: Target) -> None:
        """Adds the target under the pattern once more."""
        branch = self._root
        for word in _split(pattern):
            branch = branch.child(word) or branch.grow(word)
        if branch.targets is None:
            branch.targets = {}
        branch.targets[target] = branch.targets.get(target, 0) + 1

    def remove(self, pattern: str, target: Target) -> None:
        """Removes the target from the pattern once; it has to be there."""
        way = [self._root]
        words = _split(pattern)
        for word in words:
            child = way[-1].child(word)
            assert child is not None, "the pattern was never added"
            way.append(child)
        targets = way[-1].targets
        assert targets is not None, "the target was never added"
        if targets[target] > 1:
            targets[target] -= 1
            return
        del targets[target]
        way[-1].targets = targets or None
        for parent, word, branch in zip(way[-2::-1], words[::-1], way[:0:-1], strict=True):
            if not branch.is_bare():
                break
            parent.prune(word)

    def match(self, key: str, found: dict[Target, int]) -> None:
        """Adds the targets whose patterns match the routing key to the keys of `found`."""
        active: dict[_Branch[Target], None] = {}
        _reach(self._root, active)
        for word in _split(key):
            following: dict[_Branch[Target], None] = {}
            for branch in active:
                if branch.is_hash:
                    following[branch] = None
                if branch.words is not None:
                    child = branch.words.get(word)
                    if child is not None:
                        _reach(child, following)
                if branch.star is not None:
                    _reach(branch.star, following)
            if not following:
                return
            active = following
        for branch in active:
            if branch.targets is not None:
                found.update(branch.targets)

    def targets(self) -> Iterator[Target]:
        """All targets, once for each of their patterns."""
        left = [self._root]
        while left:
            branch = left.pop()
            if branch.targets is not None:
                yield from branch.targets
            left.extend(branch.children())

    def is_empty(self) -> bool:
        """Whether nothing is left, not even a branch."""
        return self._root.is_bare()


def _split(key: str) -> list[str]:
    return key.split(".") if key else []


def _reach(branch: _Branch[Target], active: dict[_Branch[Target], None]) -> None:
    """Enters a branch, and those beyond a `#` that stands for no word at all."""
    active[branch] = None
    beyond = branch.hash
    while beyond is not None:
        active[beyond] = None
        beyond = beyond.hash
