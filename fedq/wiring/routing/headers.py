"""The matching of headers exchanges.

A binding's arguments are its pattern: `x-match` says how (`all`, the default; `any`; and both
`-with-x`), every other entry is a header to look for. Entries whose names begin with "x-" are
looked for only by the `-with-x` forms. An entry without a value (void) asks for presence alone.

Values are equal if type and value are (`True` is not 1); the specification (3.1.3.3) leaves more
to the server, and RabbitMQ does the same.

`HeaderIndex` holds many patterns. Each hangs on *hooks*, of which a matching message has at least
one: a header with a certain value, or with any. A pattern for all of its headers hangs on the one
that fewest others hang on, a pattern for any of them on each. So a publish costs its headers and
the patterns that hang on them, not the number of bindings; unless all ask for the same.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

from fedq.core.errors import PRECONDITION_FAILED, Refused
from fedq.wiring.routing.arguments import binary_text, type_name, value_text

Name = TypeVar("Name", bound=Hashable)
#: A header's name with its value, or with None for any value; or nothing at all, which every
#: message has.
Hook: TypeAlias = tuple[str, object] | tuple[()]

MATCH_KINDS: Final = ("all", "any", "all-with-x", "any-with-x")


def refuse_arguments(arguments: Mapping[str, Any]) -> Refused | None:
    """The refusal of a binding whose `x-match` means nothing; None for a good one."""
    kind = arguments.get("x-match", "all")
    if not isinstance(kind, str):
        text = f"type {type_name(kind)} (value {value_text(kind)}); expected longstr"
        return Refused(PRECONDITION_FAILED, f"Invalid x-match field {text}")
    if kind in MATCH_KINDS:
        return None
    return Refused(
        PRECONDITION_FAILED,
        f"Invalid x-match field value {binary_text(kind)}; expected all, any, all-with-x, or "
        "any-with-x",
    )


class HeaderPattern:
    """The pattern of one binding, prepared for matching."""

    __slots__ = ("every", "wanted")

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """`arguments` were accepted by `refuse_arguments`."""
        kind = arguments.get("x-match", "all")
        #: Whether all of what is wanted must be there, or any of it.
        self.every = kind in ("all", "all-with-x")
        with_x = kind in ("all-with-x", "any-with-x")
        #: Names and values; None for any value.
        self.wanted = [
            (name, value)
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        ]

    def matches(self, headers: Mapping[str, Any]) -> bool:
        """Whether a message with these headers passes."""
        every = self.every
        for name, value in self.wanted:
            fits = name in headers and (value is None or _same(value, headers[name]))
            if fits is not every:
                return fits
        return every


def _same(wanted: object, given: object) -> bool:
    return type(wanted) is type(given) and bool(wanted == given)


class HeaderIndex(Generic[Name]):
    """Patterns by name."""

    __slots__ = ("_added", "_hooked", "_patterns", "looked")

    def __init__(self) -> None:
        self._added = 0
        #: How many patterns were looked at so far, by all matches.
        self.looked = 0
        #: By name: the pattern, when it came, and what it hangs on.
        self._patterns: dict[Name, tuple[HeaderPattern, int, list[Hook]]] = {}
        self._hooked: dict[Hook, dict[Name, None]] = {}

    def add(self, name: Name, pattern: HeaderPattern) -> None:
        """Adds a pattern; the name is new."""
        self._added += 1
        hooks: list[Hook] = [_hook(*wanted) for wanted in pattern.wanted]
        if pattern.every:
            hooks = [min(hooks, key=self._hanging, default=())]
        self._patterns[name] = pattern, self._added, hooks
        for hook in hooks:
            self._hooked.setdefault(hook, {})[name] = None

    def remove(self, name: Name) -> None:
        """Removes a pattern that is there."""
        _, _, hooks = self._patterns.pop(name)
        for hook in hooks:
            hanging = self._hooked[hook]
            del hanging[name]
            if not hanging:
                del self._hooked[hook]

    def match(self, headers: Mapping[str, Any]) -> list[Name]:
        """The names of the patterns that match, in the order in which they came."""
        hooked, patterns = self._hooked, self._patterns
        found: dict[Name, int] = {}
        for hook in _hooks_of(headers):
            hanging = hooked.get(hook)
            if hanging is None:
                continue
            self.looked += len(hanging)
            for name in hanging:
                if name not in found:
                    pattern, number, _ = patterns[name]
                    if pattern.matches(headers):
                        found[name] = number
        return sorted(found, key=found.__getitem__)

    def __len__(self) -> int:
        return len(self._patterns)

    def __iter__(self) -> Iterator[Name]:
        return iter(self._patterns)

    def _hanging(self, hook: Hook) -> int:
        return len(self._hooked.get(hook, ()))


def _hook(name: str, value: object) -> Hook:
    # Other values, such as tables, have no hash, or are too rare to need one.
    return name, value if isinstance(value, str | bytes | int) else None


def _hooks_of(headers: Mapping[str, Any]) -> Iterator[Hook]:
    """All that a pattern may hang on and these headers have.

    Equal hooks need not be equal values: True is 1 as a key. So whether a pattern matches is always
    seen in the values.
    """
    yield ()
    for name, value in headers.items():
        yield name, None
        if isinstance(value, str | bytes | int):
            yield name, value
