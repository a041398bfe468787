"""The data directory of a node that does not run, for tools that read it.

Inputs: a directory. Outputs: its journal, held so that no node starts on it meanwhile; whose it is.
Invariants: nothing in the directory is written; what a newer release wrote is refused.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson

from fedq.core.errors import NodeFailure

JOURNAL: Final = "journal"
_LOCK: Final = "lock"
_IDENTITY: Final = "identity.json"
#: The newest form of `identity.json` that this release reads.
_FORMAT: Final = 1


class StoreError(NodeFailure):
    """A data directory that cannot be used as one; the text says why, and what to do."""


@contextmanager
def held(data: Path) -> Iterator[Path]:
    """The journal of a data directory, whose node does not run and cannot start meanwhile.

    Raises `StoreError`.
    """
    journal = data / JOURNAL
    if not journal.is_dir():
        raise StoreError(f"{data} has no journal; name the node's data directory")
    node_of(data)
    try:
        lock = os.open(journal / _LOCK, os.O_RDONLY)
    except FileNotFoundError:
        # No node has ever run on it.
        yield journal
        return
    try:
        _take(lock, data)
        yield journal
    finally:
        os.close(lock)


def process_on(data: Path) -> str | None:
    """The process that has a data directory open, as far as it says who it is; None: nobody."""
    try:
        lock = os.open(data / JOURNAL / _LOCK, os.O_RDONLY)
    except OSError:
        return None
    try:
        return _owner(lock)
    finally:
        os.close(lock)


def _owner(lock: int) -> str | None:
    """The process that holds the lock, "(unknown)" if it does not say so; None: now this one."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "(unknown)"
    return None


def _take(lock: int, data: Path) -> None:
    owner = _owner(lock)
    if owner is not None:
        raise StoreError(
            f"{data} is in use by process {owner}: stop that node first; nothing was changed"
        )


def node_of(data: Path) -> str:
    """The name of the node whose directory it is; "" for one of a release that wrote none.

    Raises `StoreError` for a form that this release does not know.
    """
    path = data / _IDENTITY
    if not path.exists():
        return ""
    try:
        form = orjson.loads(path.read_bytes())
        is_known = isinstance(form, dict) and type(form.get("format")) is int
    except ValueError:
        is_known = False
    if not is_known:
        raise StoreError(f"{path} is damaged; restore it, or delete it: nothing was changed")
    if form["format"] > _FORMAT:
        raise StoreError(
            f"{path} has form {form['format']}, this release reads form {_FORMAT}: use the release "
            "of fedq that wrote it; nothing was changed"
        )
    return str(form.get("node", ""))
