"""The cluster map as a voter's files have it, for tools: nothing is written, nobody votes.

Input: the directory of a Raft log whose node does not run. Output: the map after all entries that
are there. The last of them may not have been decided, so this is what the node knew at most.
"""

from pathlib import Path

from fedq.core.errors import NodeFailure
from fedq.shell.raft.journal import RaftStorageError, read_entries
from fedq.shell.raft.snapshot import SnapshotFile
from fedq.shell.raft.storage import JOURNAL_NAME, SNAPSHOT_NAME
from fedq.shell.raft.wire import ENTRY_COMMAND
from fedq.wiring.cluster_map.map import ClusterMap, ReadMap


def read_map(directory: Path) -> ClusterMap:
    """The map in the files of a voter.

    Raises `RaftStorageError` where they are missing, damaged, or of a newer release.
    """
    found = ClusterMap()
    try:
        snapshot = SnapshotFile(directory / SNAPSHOT_NAME).load()
        entries = read_entries(directory / JOURNAL_NAME)
        covered = 1
        if snapshot is not None:
            found.take(ReadMap(snapshot.data))
            covered = snapshot.number
        if entries[0].number > covered:
            raise RaftStorageError(f"{directory}: the snapshot and the journal do not fit")
        for entry in entries:
            if entry.number > covered and entry.command[0] == ENTRY_COMMAND:
                found.apply(entry.command[1:])
    except (OSError, ValueError, NodeFailure) as error:
        raise RaftStorageError(f"the cluster map in {directory} cannot be read: {error}") from error
    return found
