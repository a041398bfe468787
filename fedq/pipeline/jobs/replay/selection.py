"""What a replay publishes, and how far it is: on disk, so that it goes on and numbers stay.

The directory of a replay has `selection.json`, written once: which rows, where they go, the
publisher's name, and up to which offsets the archive went. So message n of a replay is the same one
in each run, whatever the archive gets meanwhile. `progress.json` says up to which number all is
confirmed, and the place of that message.
"""

import re
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

from fedq.pipeline.failure import OptionError, PipelineError
from fedq.shell.disk.durable_files import replace_durably

JOB: Final = "replay"
_SELECTION: Final = "selection.json"
_PROGRESS: Final = "progress.json"
#: Routing keys that are shown of what reached no queue.
EXAMPLES_MAX: Final = 10
_PATTERN_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows of an archive go where."""

    archive: str
    stream: str
    #: None: the exchange that each was published to.
    exchange: str | None
    #: In AMQP's form, with `*` and `#`.
    keys: str
    #: ISO 8601; "" is no bound.
    begin: str
    end: str
    #: Without the password.
    target: str
    publisher: str = ""
    #: By fragment: the offset behind the last row.
    through: tuple[tuple[int, int], ...] = ()

    def bounds(self) -> tuple[datetime | None, datetime | None]:
        """From when on, and until before when."""
        begin, end = (datetime.fromisoformat(text) if text else None for text in self._times)
        return begin, end

    @property
    def _times(self) -> tuple[str, str]:
        return self.begin, self.end


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a row is in the order of a replay."""

    partition: str = ""
    #: Microseconds since 1970.
    time_us: int = -1
    fragment: int = -1
    offset: int = -1


@dataclass(frozen=True, slots=True)
class Done:
    """How far a replay is."""

    #: Up to this number all messages are confirmed; it is that of the message at `place`.
    number: int = 0
    place: Place = Place()
    #: Confirmed messages that reached no queue, and some of their keys.
    unroutable: int = 0
    unroutable_keys: tuple[str, ...] = ()
    #: Whether there are no more.
    finished: bool = False


def begin(directory: Path, wanted: Selection, through: Mapping[int, int]) -> tuple[Selection, Done]:
    """The selection that the directory has, and how far it is; raises OptionError."""
    path = directory / _SELECTION
    known = _read(path)
    if known is None:
        made = replace(
            wanted, publisher=f"fedq-replay-{uuid.uuid4().hex}",
            through=tuple(sorted(through.items())),
        )  # fmt: skip
        replace_durably(path, _bytes(asdict(made)))
        return made, Done()
    try:
        known["through"] = tuple((int(number), int(at)) for number, at in known["through"])
        found = Selection(**known)
        differing = [
            name
            for name in ("archive", "stream", "exchange", "keys", "begin", "end", "target")
            if getattr(found, name) != getattr(wanted, name)
        ]
        if differing:
            name = differing[0]
            raise OptionError(
                f"{directory} is of a replay with {name} {getattr(found, name)!r}, not "
                f"{getattr(wanted, name)!r}: name another directory"
            )
        return found, _done(directory)
    except (KeyError, TypeError, ValueError) as error:
        raise PipelineError(f"{path} is damaged ({error}): name another directory") from error


def save(directory: Path, done: Done) -> None:
    """Writes down how far a replay is."""
    replace_durably(directory / _PROGRESS, _bytes(asdict(done)))


def pattern_of(keys: str) -> str:
    """The regular expression for a key's words, each behind a ".": AMQP's pattern with `*`, `#`.

    An empty key has no words, as in bindings.
    """
    if len(keys.encode()) > _PATTERN_MAX:
        raise OptionError(f"--keys: a pattern has at most {_PATTERN_MAX} bytes")
    words = {"*": r"\.[^.]*", "#": r"(?:\.[^.]*)*"}
    parts = [words.get(word) or r"\." + re.escape(word) for word in keys.split(".") if keys]
    # Neither `$` nor `\Z` means the very end in Java and in Python.
    return "^" + "".join(parts) + r"(?![\s\S])"


def _done(directory: Path) -> Done:
    known = _read(directory / _PROGRESS)
    if known is None:
        return Done()
    known["place"] = Place(**known["place"])
    known["unroutable_keys"] = tuple(known["unroutable_keys"])
    return Done(**known)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise PipelineError(f"{path} is damaged ({error}): name another directory") from error
    if not isinstance(found, dict):
        raise PipelineError(f"{path} is damaged (no object): name another directory")
    return found


def _bytes(form: dict[str, Any]) -> bytes:
    return orjson.dumps(form, option=orjson.OPT_INDENT_2) + b"\n"
