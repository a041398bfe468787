"""Values of a configuration that are taken from the environment: `${NAME}` in some keys.

In: the plain values of a file, and the environment. Out: the values, filled in; or a `ConfigError`
for a name that is not set, or in a key that is not filled. For containers, whose nodes share one
file: what differs between them is who a node is and where it is reached (`FILLED`). Invariants:
nothing else is ever filled, a value that was filled is text and is not looked at again, and no
error shows a value of the environment.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from fedq.shell.config.values import ConfigError
from fedq.shell.config.yaml import USERS_KEY, Value, key_text

#: A name as POSIX has it; whatever else follows `${` is told of, too.
_NAMED: Final = re.compile(r"\$\{([^}]*)\}?")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: The keys that are filled, `[]` for the number of an item; and all below those that end with `.`.
FILLED: Final = (
    "node",
    "data",
    "zone",
    "amqp.advertise",
    "amqp.listen[].host",
    "peer.host",
    "peer.advertise",
    "admin.host",
    "http.host",
    "metrics.host",
    "certificates.",
    "amqp.listen[].tls.",
    "http.tls.",
    "metrics.tls.",
)
_INDEX: Final = re.compile(r"\[\d+\]")


def fill(
    values: dict[str, Value], environment: Mapping[str, str], file: Path, lines: Mapping[str, int]
) -> dict[str, Value]:
    """The values with what the environment says. Raises `ConfigError`."""
    filled = _Filler(environment, file, lines).fill(values, ())
    assert isinstance(filled, dict)
    return filled


def _is_filled(key: str) -> bool:
    place = _INDEX.sub("[]", key)
    return any(place.startswith(each) if each[-1] == "." else place == each for each in FILLED)


class _Filler:
    def __init__(
        self, environment: Mapping[str, str], file: Path, lines: Mapping[str, int]
    ) -> None:
        self._environment = environment
        self._file = file
        self._lines = lines

    def fill(self, value: Value, path: tuple[str | int, ...]) -> Value:
        if isinstance(value, dict):
            return {key: self.fill(each, (*path, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [self.fill(each, (*path, index)) for index, each in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        key = key_text(path)
        if path[:1] == (USERS_KEY,):
            raise self._error(
                key,
                "nothing here is taken from the environment, which others can see; put the "
                "password into a file, and name it: `password_file: FILE`",
            )
        if not _is_filled(key):
            raise self._error(
                key, "is not taken from the environment (${…}); write the value itself"
            )
        return "".join(self._pieces(key, value))

    def _pieces(self, key: str, text: str) -> Iterator[str]:
        """The text with what each name stands for."""
        end = 0
        for found in _NAMED.finditer(text):
            yield text[end : found.start()]
            end = found.end()
            name = found.group(1)
            if not _NAME.fullmatch(name) or not found.group().endswith("}"):
                raise self._error(
                    key, f"{found.group()!r} names no variable; write ${{NAME}}, in letters, "
                    "digits and underscores",
                )  # fmt: skip
            value = self._environment.get(name, "")
            if not value:
                what = "is empty" if name in self._environment else "is not set"
                raise self._error(
                    key,
                    f"the environment variable {name} {what}; set it, or write the value itself",
                )
            yield value
        yield text[end:]

    def _error(self, key: str, sentence: str) -> ConfigError:
        return ConfigError(sentence, key=key, file=self._file, line=self._lines.get(key, 0))
