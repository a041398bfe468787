"""The patterns of a topic exchange as a trie of words (specification 3.1.3.4).

Inputs: patterns with their targets, and routing keys, all as bytes; output: the targets whose
patterns match, as a tuple. A target is a small number that the owner gives out (0, 1, 2, …) and
gives out again when it is over: what a trie holds is as large as its largest one.

Words are separated by dots; `*` stands for exactly one word, `#` for any number of them, none
included. As in RabbitMQ, the empty key has no words, and "a..b" has an empty one in the middle.

A match walks all branches at once, word by word. A branch below `#` stays reached to the key's
end, so it is kept apart and entered once; any other has one parent and is reached once for a word.
The cost is at most words times branches, however many `#` a pattern has.

The order of the targets is that of the walk: those of patterns that end in `#` as they are
reached, then the others, each target once. So it depends on the patterns and on the order in which
they came, and on nothing else. The walk ends when every target there is has been found.

`topics.pyx` is the compiled twin: the same order, the same answers.
"""


class _Branch:
    """The patterns that begin with the words on the way here. Sparse: most have no children."""

    __slots__ = ("hash", "star", "targets", "words")

    def __init__(self) -> None:
        self.words: dict[bytes, _Branch] | None = None
        self.star: _Branch | None = None
        self.hash: _Branch | None = None
        #: The targets of the pattern that ends here, each with how often it was added.
        self.targets: dict[int, int] | None = None

    def child(self, word: bytes) -> "_Branch | None":
        if word == b"*":
            return self.star
        if word == b"#":
            return self.hash
        return self.words.get(word) if self.words is not None else None

    def grow(self, word: bytes) -> "_Branch":
        child = _Branch()
        if word == b"*":
            self.star = child
        elif word == b"#":
            self.hash = child
        else:
            if self.words is None:
                self.words = {}
            self.words[word] = child
        return child

    def prune(self, word: bytes) -> None:
        if word == b"*":
            self.star = None
        elif word == b"#":
            self.hash = None
        else:
            assert self.words is not None
            del self.words[word]
            self.words = self.words or None

    def is_bare(self) -> bool:
        return not (self.targets or self.words or self.star or self.hash)


class TopicTrie:
    """Patterns and targets; a target added n times under a pattern leaves when removed n times."""

    __slots__ = ("_root", "_uses", "walked")

    def __init__(self) -> None:
        #: How many branches were looked at so far, by all matches.
        self.walked = 0
        self._root = _Branch()
        #: Of how many patterns each target is one.
        self._uses: dict[int, int] = {}

    def add(self, pattern: bytes, target: int) -> None:
        """Adds the target (0 or more) under the pattern once more."""
        assert target >= 0, "targets are numbers from 0 on"
        branch = self._root
        for word in _split(pattern):
            branch = branch.child(word) or branch.grow(word)
        if branch.targets is None:
            branch.targets = {}
        if target not in branch.targets:
            self._uses[target] = self._uses.get(target, 0) + 1
        branch.targets[target] = branch.targets.get(target, 0) + 1

    def remove(self, pattern: bytes, target: int) -> None:
        """Removes the target from the pattern once; it has to be there."""
        way = [self._root]
        words = _split(pattern)
        for word in words:
            child = way[-1].child(word)
            assert child is not None, "the pattern was never added"
            way.append(child)
        targets = way[-1].targets
        assert targets is not None, "the pattern was never added"
        assert target in targets, "the target was never added"
        if targets[target] > 1:
            targets[target] -= 1
            return
        del targets[target]
        self._uses[target] -= 1
        if not self._uses[target]:
            del self._uses[target]
        way[-1].targets = targets or None
        for parent, word, branch in zip(way[-2::-1], words[::-1], way[:0:-1], strict=True):
            if not branch.is_bare():
                break
            parent.prune(word)

    def match(self, key: bytes) -> tuple[int, ...]:
        """The targets whose patterns match the routing key."""
        root, every = self._root, len(self._uses)
        found: dict[int, int] = {}
        entered: dict[_Branch, None] = {}
        #: Branches below `#` that have something below them, in the order of their being reached.
        staying: list[_Branch] = []
        if root.hash is not None:
            _stay(root.hash, entered, staying, found)
        active = [root]
        for word in _split(key):
            following: list[_Branch] = []
            reached = staying + active
            self.walked += len(reached)
            for branch in reached:
                if branch.words is not None and word in branch.words:
                    child = branch.words[word]
                    following.append(child)
                    if child.hash is not None:
                        _stay(child.hash, entered, staying, found)
                child_of_any = branch.star
                if child_of_any is not None:
                    following.append(child_of_any)
                    if child_of_any.hash is not None:
                        _stay(child_of_any.hash, entered, staying, found)
            active = following
            if len(found) == every or not (active or staying):
                return tuple(found)
        for branch in active:
            if branch.targets is not None:
                found.update(branch.targets)
        return tuple(found)

    def is_empty(self) -> bool:
        """Whether nothing is left, not even a branch."""
        return self._root.is_bare()


def _split(key: bytes) -> list[bytes]:
    return key.split(b".") if key else []


def _stay(
    branch: _Branch, entered: dict[_Branch, None], staying: list[_Branch], found: dict[int, int]
) -> None:
    """Reaches a branch below `#`, and those below a further `#` that stands for no word at all."""
    beyond: _Branch | None = branch
    while beyond is not None and beyond not in entered:
        entered[beyond] = None
        if beyond.targets is not None:
            found.update(beyond.targets)
        if beyond.words is not None or beyond.star is not None:
            staying.append(beyond)
        beyond = beyond.hash
