"""Runs of publishers with names, in a batch of publishes between nodes: on the wire and off it.

In: `NamedRun`s, or what a peer sent. Out: the other one; `MalformedFrameError` for a run that is
none. Whether runs fit together is the matter of `fitting`.
"""

from collections.abc import Sequence
from typing import Any

from fedq.core.limits import NAME_BYTES_MAX
from fedq.core.publish_messages import NamedRun
from fedq.shell.peers.malformed import MalformedFrameError


def put_runs(part: Any, value: Sequence[NamedRun]) -> None:
    """Adds the runs to a message."""
    for run in value:
        part.named.add(place=run.place, size=run.size, publisher=run.publisher, first=run.first)


def get_runs(part: Any) -> tuple[NamedRun, ...]:
    """The runs of a message."""
    return tuple(map(_run_of, part.named))


def _run_of(run: Any) -> NamedRun:
    if not run.publisher or not run.size or not run.first:
        raise MalformedFrameError("a run of a publisher without a name, a message or a sequence")
    if len(run.publisher.encode()) > NAME_BYTES_MAX:
        raise MalformedFrameError(f"a publisher's name is longer than {NAME_BYTES_MAX} bytes")
    return NamedRun(run.place, run.size, run.publisher, run.first)
