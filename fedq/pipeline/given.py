"""The options that a user has given, by name in any case, and the forms of their values.

Input: names and texts, as Spark hands them over, and the names there are. `OptionError` for what is
not known or has another form: ignored, it would be a wrong result.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from fedq.pipeline.failure import OptionError

#: The highest number of an offset, a time or a count.
NUMBER_MAX: Final = 1 << 62

Parsed = TypeVar("Parsed")


class Given:
    """The options that were given."""

    def __init__(self, options: Mapping[str, str], known: Sequence[str]) -> None:
        """`known`: the names there are; raises OptionError for another one."""
        self._values = {name.lower(): str(value) for name, value in options.items()}
        names = {name.lower() for name in known}
        unknown = sorted(name for name in self._values if name not in names)
        if unknown:
            raise OptionError(f"{unknown[0]}: no such option; there are {', '.join(known)}")

    def has(self, name: str) -> bool:
        """Whether it was given."""
        return name.lower() in self._values

    def text(self, name: str, default: str) -> str:
        """The text of an option."""
        return self._values.get(name.lower(), default)

    def parse(self, name: str, default: Parsed, parse: Callable[[str, str], Parsed]) -> Parsed:
        """The value of an option, by a function of its name and text; raises OptionError."""
        if not self.has(name):
            return default
        return parse(name, self._values[name.lower()].strip())


def number(name: str, text: str) -> int:
    """A number of 0 or more."""
    if not text.isascii() or not text.isdecimal() or len(text) > 20 or int(text) > NUMBER_MAX:
        raise OptionError(f"{name}: {text!r} is no number of 0 or more")
    return int(text)


def positive(name: str, text: str) -> int:
    """A number of 1 or more."""
    found = number(name, text)
    if not found:
        raise OptionError(f"{name}: at least 1")
    return found


def seconds(name: str, text: str) -> float:
    """A time in seconds, at most a day."""
    found = number(name, text.removesuffix("s"))
    if found > 86_400:
        raise OptionError(f"{name}: at most 86400 seconds")
    return float(found)


def flag(name: str, text: str) -> bool:
    """True or false."""
    if text.lower() not in ("true", "false"):
        raise OptionError(f"{name}: true or false, not {text!r}")
    return text.lower() == "true"
