"""What a node failed at, as a file for its next start and its operator: `DATA/stopped.json`.

Written once, whole, when an exception stops the node; read when it starts again. Once that start
has gone well for a while the file is renamed to `stopped.handled.json`: what it names has been
set aside by then, and an operator may have put it back.

Invariants: bounded in size; whatever is in the file, reading it gives what it says or `ValueError`.
"""

import base64
from pathlib import Path
from typing import Any, Final

import orjson

from fedq.core.limits import STOP_WORDS_MAX, SUSPECTS_KEPT_BYTES_MAX, SUSPECTS_MAX
from fedq.core.suspects import Stopped, Suspect, checked
from fedq.shell.disk.durable_files import replace_durably

FILE: Final = "stopped.json"
HANDLED: Final = "stopped.handled.json"
_VERSION: Final = 1
#: Copies in base64, suspects, words, with room for JSON around them.
_BYTES_MAX: Final = 2 * SUSPECTS_KEPT_BYTES_MAX + 512 * SUSPECTS_MAX + 64 * STOP_WORDS_MAX
_NUMBER_MAX: Final = 1 << 62


class StoppedFile:
    """The file of one data directory."""

    __slots__ = ("_data",)

    def __init__(self, data: Path) -> None:
        self._data = data

    def write(self, stopped: Stopped) -> None:
        """Writes the file; it is on disk when this returns."""
        replace_durably(self._data / FILE, encode(stopped))

    def read(self) -> Stopped | None:
        """What the process before this one failed at; None: it did not fail.

        Raises `ValueError` for a file that is damaged, or of another release.
        """
        return _read(self._data / FILE)

    def read_last(self) -> Stopped | None:
        """As `read`, of the last stop however long ago; None, too, if its file is damaged."""
        for name in (FILE, HANDLED):
            try:
                found = _read(self._data / name)
            except ValueError:
                continue
            if found is not None:
                return found
        return None

    def handle(self) -> None:
        """Handles the file: what it names is set aside, and the node runs."""
        path = self._data / FILE
        if path.exists():
            path.replace(self._data / HANDLED)


def _read(path: Path) -> Stopped | None:
    try:
        with path.open("rb") as file:
            return decode(file.read(_BYTES_MAX + 1))
    except FileNotFoundError:
        return None


def encode(stopped: Stopped) -> bytes:
    """The file's content."""
    text = {
        "version": _VERSION,
        "incarnation": stopped.incarnation,
        "unix_ms": stopped.unix_ms,
        "step": stopped.step,
        "error": stopped.error,
        "suspects": [
            [each.fragment, each.position, each.size, each.digest.hex(), each.proven]
            for each in stopped.suspects
        ],
        "copies": [base64.b64encode(copy).decode() for copy in stopped.copies],
    }
    return orjson.dumps(text, option=orjson.OPT_INDENT_2)


def decode(data: bytes) -> Stopped:
    """What `encode` wrote; raises `ValueError` for anything else."""
    if len(data) > _BYTES_MAX:
        raise ValueError(f"more than {_BYTES_MAX} bytes")
    found = orjson.loads(data)
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        raise ValueError(f"it is not of version {_VERSION}")
    suspects = _list(found, "suspects")
    if len(suspects) > SUSPECTS_MAX:
        raise ValueError("too many suspects")
    return Stopped(
        _number(found, "incarnation"), _number(found, "unix_ms"), _text(found, "step"),
        _text(found, "error"), [_suspect(each) for each in suspects],
        [base64.b64decode(_string(each), validate=True) for each in _list(found, "copies")],
    )  # fmt: skip


def _suspect(found: Any) -> Suspect:
    if not isinstance(found, list) or len(found) != 5:
        raise ValueError("a suspect has five fields")
    fragment, position, size, digest, proven = found
    if any(type(number) is not int for number in found[:3]) or type(proven) is not bool:
        raise ValueError("a field of a suspect is of another type")
    return checked(fragment, position, size, bytes.fromhex(_string(digest)), proven)


def _string(found: Any) -> str:
    if not isinstance(found, str):
        raise ValueError("a text is none")
    return found


def _text(found: dict[str, Any], key: str) -> str:
    return _string(found.get(key))[: 2 * STOP_WORDS_MAX]


def _number(found: dict[str, Any], key: str) -> int:
    value = found.get(key)
    if type(value) is not int or not 0 <= value <= _NUMBER_MAX:
        raise ValueError(f"{key} is no number")
    return value


def _list(found: dict[str, Any], key: str) -> list[Any]:
    value = found.get(key)
    if not isinstance(value, list):
        raise ValueError(f"{key} is no list")
    return value
