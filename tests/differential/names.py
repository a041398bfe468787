"""The names of a script and those on the wire.

`q0`, `x0` become names that no other script uses. Names that the broker makes differ from broker
to broker: the first queue is `n0`, the first consumer tag `t0`, here as in scripts. `T-60` is the
time a minute ago, in seconds, as AMQP has times.
"""

import re
import time
from typing import Final, cast

from fedq.amqp.values import TableValue, Timestamp

_STANDS_FOR: Final = re.compile(r"[qxnrt]\d")

_TIME: Final = re.compile(r"T[+-]\d+")


class Names:
    """Of one script on one broker."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        #: What the broker made, by its alias.
        self._made: dict[str, str] = {}
        self._counts = {"n": 0, "r": 0, "t": 0}

    def learn(self, kind: str, name: str) -> str:
        """The broker made a name; `kind` is `n`, `r` or `t`. Returns the alias."""
        known = self.inward(name)
        if known != name:
            return known
        alias = f"{kind}{self._counts[kind]}"
        self._counts[kind] += 1
        self._made[alias] = name
        return alias

    def outward(self, value: TableValue) -> TableValue:
        """A value of a script as it goes over the wire; looks into lists and tables."""
        if isinstance(value, str) and _TIME.fullmatch(value):
            return Timestamp(max(0, int(time.time()) + int(value[1:])))
        if isinstance(value, str) and _STANDS_FOR.fullmatch(value):
            return self._made.get(value, self._prefix + value)
        if isinstance(value, list):
            return [self.outward(each) for each in value]
        if isinstance(value, dict):
            return {name: self.outward(each) for name, each in value.items()}
        return value

    def word(self, text: str) -> str:
        """The same for a text."""
        return cast(str, self.outward(text))

    def inward(self, text: str) -> str:
        """A text from the wire as a script would say it."""
        text = text.replace(self._prefix, "")
        for alias, name in self._made.items():
            text = text.replace(name, alias)
        return text
