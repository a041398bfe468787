"""What is wrong with a node, or to be known, that only it knows, as sentences for its operator.

Input: the node's state. Output: what goes behind the node's name in `fedq cluster status`.
"""

from collections.abc import Iterator
from typing import Final

from fedq.node.records.state import NodeState

#: How long something is told that the shell found out and does not find again.
FOUND_LASTS_MS: Final = 60_000
#: How long after it has joined a node says that the process before it failed.
STOP_LASTS_MS: Final = 600_000


def notes(state: NodeState) -> Iterator[str]:
    """What an operator who waits for something should know, without its subject."""
    known = state.map
    waiting = [
        fragment for fragment in state.holds_alone
        if fragment in state.primaries and (fragment in known.moves or state.me in known.drained)
    ]  # fmt: skip
    if waiting:
        key = known.fragments[waiting[0]].queue
        which = f"fragment {waiting[0]} of queue '{key.name}' in vhost '{key.vhost}'"
        others = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        yield (
            f"keeps {which}{others}: there are messages in it of which no copy is asked for "
            "(x-fedq-replicate), and they would be lost; it goes once they are consumed"
        )


def troubles(state: NodeState) -> Iterator[str]:
    """One sentence for each thing, without its subject; none: all is well."""
    if state.closed:
        yield f"says: {state.closed}: start the others"
    if state.disk_stalls:
        yield (
            "waits for the disk of its journal: other copies lead in its place where there are "
            "any in sync; check the disk"
        )
    if state.memory_full:
        yield "is low on memory: who publishes to it waits until consumers have taken enough"
    if state.disk_low:
        yield "is low on disk: who publishes to it waits; make room on its disk"
    if state.settings.last_stop and state.now_ms - state.joined_ms < STOP_LASTS_MS:
        yield state.settings.last_stop
    if state.log_stalls:
        yield (
            "waits for the disk of the cluster map's log: it serves nobody and keeps silent, and "
            "others take its place; check the disk"
        )
    for sentence, found_ms in state.found.values():
        if state.now_ms - found_ms < FOUND_LASTS_MS:
            yield f"says: {sentence}"
