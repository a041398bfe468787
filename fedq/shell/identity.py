"""The owner of a data directory, and which starts it has seen: `identity.json` and `voters` in it.

Inputs: the directory, the node's name and voters as configured, the clock. Outputs: this start's
number and random id, and the starts before it; errors that say what to do. Invariants:

* a directory belongs to one node for ever, and to one set of voters until its operator deletes the
  file `voters`, or the Raft log names other ones (docs/adr/0084): those are in `identity.json`;
* a start is in the file, on disk, before its process says anything to anybody;
* a directory of a release that had no such file gets one at its next start;
* a directory belongs to one cluster from the time on when that has a name (docs/adr/0074).

The number of a start is higher than all before it in the directory, and not below the clock's
seconds: so a node that lost its disk, or got an older copy of it, has a higher one than ever. If it
has not (a clock behind), the cluster says so, and `raise_number` is called.
"""

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from fedq.core.errors import NodeFailure
from fedq.core.ids import Incarnation, NodeId
from fedq.core.limits import STARTS_REMEMBERED_MAX
from fedq.shell.disk.durable_files import replace_durably
from fedq.shell.disk.journal_files import count_start
from fedq.shell.disk.vouching import COUNTER_NAME
from fedq.shell.raft.electorate import Memory
from fedq.shell.raft.voters import VoterSet

IDENTITY_NAME: Final = "identity.json"
VOTERS_NAME: Final = "voters"
_FORMAT: Final = 1
_START = re.compile(r"[0-9a-f]{16}|")


class ForeignDirectory(Exception):
    """The data directory is another node's, or was made for other voters; the text says which.

    `key`: the configuration's key that does not fit.
    """

    def __init__(self, key: str, sentence: str) -> None:
        super().__init__(sentence)
        self.key = key


class RaftMark(NamedTuple):
    """How far the Raft log had come: what it may not fall behind. Zeros: there was none."""

    term: int = 0
    applied: int = 0


class Identity(NamedTuple):
    """The identity of this process; see the module's docstring."""

    #: The data directory's own random id.
    directory: str
    incarnation: Incarnation
    #: This start's random id, and the wall clock in milliseconds.
    start: str
    started_ms: int
    #: The starts before it, oldest first: number and id ("" for those of earlier releases).
    past: tuple[tuple[int, str], ...]
    #: Where the Raft log was at least, when this directory was last used.
    raft: RaftMark
    #: The name of the cluster that the directory belongs to; "": it has none yet.
    cluster: str = ""
    #: The newest set of voters with which this node promised anything; None: the configuration's.
    voters: VoterSet | None = None
    #: It was let into a cluster that ran: it never founds one (docs/adr/0090).
    joined: bool = False
    #: The nodes of the cluster as they were known last, each with its peer address.
    roster: tuple[tuple[NodeId, str], ...] = ()


class IdentityFile:
    """`identity.json` of a data directory, for the process that holds its journal's lock."""

    __slots__ = ("_data", "_identity", "_is_marked", "_node")

    def __init__(
        self, data: Path, node: NodeId, voters: Sequence[NodeId], *, joins: bool = False,
        notes_voters: bool = True,
    ) -> None:  # fmt: skip
        """Looks whether the directory is this node's; `joins`: it is to be let into a cluster.

        `notes_voters`: a new directory belongs to these voters from now on; without that nothing is
        written. Raises `ForeignDirectory`, or `NodeFailure` for files that cannot be read.
        """
        self._data = data
        self._node = node
        self._identity: Identity | None = None
        #: Its cluster is on the disk.
        self._is_marked = False
        form = self._read()
        name = form.get("node", node)
        if name != node:
            raise ForeignDirectory(
                "data",
                f"{data} is the data directory of node {name!r}, not of {node!r}: give this node a "
                "directory of its own, or its name back",
            )
        if joins and not (form.get("joined", False) or form.get("cluster", "")):
            self._refuse_founders()
        elif _voters_in(form) is None and not form.get("joined", False):
            self._check_voters(sorted(voters), notes_voters)

    def begin(self) -> Identity:
        """Counts this start; it is on disk when this returns. Raises `NodeFailure`, `OSError`."""
        form = self._read()
        journal = self._data / "journal"
        before = _counted(journal)
        number = count_start(journal)
        past = [(int(count), str(start)) for count, start in form.get("starts", [])]
        if before is not None and not any(count == before for count, _ in past):
            # Of a release that did not keep them, or the counter was set by hand.
            past.append((before, ""))
        self._identity = Identity(
            directory=form.get("directory") or os.urandom(8).hex(),
            incarnation=number,
            start=os.urandom(8).hex(),
            started_ms=int(time.time() * 1_000),
            past=tuple(past[-STARTS_REMEMBERED_MAX:]),
            raft=RaftMark(*form.get("raft", ())),
            cluster=form.get("cluster", ""),
            voters=_voters_in(form),
            joined=form.get("joined", False),
            roster=_roster_in(form),
        )
        self._write()
        self._is_marked = self._identity.cluster != ""
        return self._identity

    @property
    def cluster(self) -> str:
        """The name of the cluster that the directory belongs to; "" if it is not known."""
        return "" if self._identity is None else self._identity.cluster

    def mark_cluster(self, name: str) -> None:
        """Notes to which cluster the directory belongs. Blocks for the disk, once.

        Raises `NodeFailure` if it is another one already, and `OSError` if the disk does not take
        it: it counts for this process all the same, and is to be noted again.
        """
        # internal: the start is counted first.
        assert self._identity is not None
        known = self._identity.cluster
        if known and known != name:
            raise NodeFailure(
                f"{self._data} belongs to cluster {known}, and what it was just told of the "
                f"cluster map is of cluster {name}: give this node its own data directory"
            )
        if not self._is_marked:
            self._identity = self._identity._replace(cluster=name)
            self._write()
            self._is_marked = True

    def mark_joined(self, cluster: str, roster: Mapping[NodeId, str]) -> Identity:
        """Notes that this node was let into a cluster. Blocks for the disk.

        Raises `NodeFailure` if the directory belongs to another one, and `OSError`.
        """
        assert self._identity is not None, "the start is counted first"
        nodes = tuple(sorted(roster.items()))
        self._identity = self._identity._replace(joined=True, roster=nodes)
        self.mark_cluster(cluster)
        self._write()
        return self._identity

    def remember_roster(self, roster: Mapping[NodeId, str]) -> None:
        """Notes where the nodes of the cluster are. Blocks for the disk; raises `OSError`."""
        assert self._identity is not None, "the start is counted first"
        nodes = tuple(sorted(roster.items()))
        if nodes != self._identity.roster:
            before, self._identity = self._identity, self._identity._replace(roster=nodes)
            try:
                self._write()
            except OSError:
                self._identity = before
                raise

    def mark_raft(self, mark: RaftMark) -> None:
        """Notes how far the Raft log is. Blocks for the disk."""
        assert self._identity is not None, "the start is counted first"
        if mark != self._identity.raft:
            self._identity = self._identity._replace(raft=mark)
            self._write()

    def remember_voters(self, voters: VoterSet) -> None:
        """Notes who votes, by the newest entry of the log. Blocks for the disk; raises `OSError`.

        A Raft log that is lost is not asked for the votes of a set that it had outlived.
        """
        assert self._identity is not None, "the start is counted first"
        known = voters if voters.number else None
        if known != self._identity.voters:
            self._identity = self._identity._replace(voters=known)
            self._write()

    def raise_number(self, number: int) -> None:
        """Gives the next start a higher number than this one."""
        replace_durably(self._data / "journal" / COUNTER_NAME, f"{number}\n".encode())

    def _write(self) -> None:
        identity = self._identity
        assert identity is not None
        starts = [*identity.past, (int(identity.incarnation), identity.start)]
        form = {
            "format": _FORMAT,
            "node": self._node,
            "directory": identity.directory,
            "starts": starts[-STARTS_REMEMBERED_MAX:],
            "raft": list(identity.raft),
            "cluster": identity.cluster,
        }
        if identity.joined:
            form["joined"] = True
        if identity.roster:
            form["roster"] = dict(identity.roster)
        if identity.voters is not None:
            form["voters"] = [identity.voters.number, list(identity.voters.names)]
        replace_durably(self._data / IDENTITY_NAME, orjson.dumps(form) + b"\n")

    def _read(self) -> dict[str, Any]:
        path = self._data / IDENTITY_NAME
        if not path.exists():
            return {}
        try:
            form = orjson.loads(path.read_bytes())
            if _is_identity(form):
                return dict(form)
            if isinstance(form, dict) and _is_newer(form.get("format")):
                raise NodeFailure(
                    f"{path} was written by a newer version of fedq: run a newer version of fedq "
                    "on this data directory"
                )
            reason = "it is of another format"
        except ValueError as error:
            reason = str(error)
        raise NodeFailure(
            f"{path} cannot be used: {reason}. Restore the file, or delete it if this is the data "
            f"directory of node {self._node!r}: its copies then count as old"
        )

    def _refuse_founders(self) -> None:
        """Refuses a directory that is to found a cluster: it began as a voter's."""
        if (self._data / VOTERS_NAME).exists():
            raise ForeignDirectory(
                "join",
                f"{self._data} is not new: its node is to begin a cluster, alone or with those "
                "under `peers`. To join another one give this node an empty data directory; to "
                "go on with its own leave `join` out",
            )

    def _check_voters(self, voters: list[NodeId], are_noted: bool) -> None:
        path = self._data / VOTERS_NAME
        if not path.exists():
            if are_noted:
                replace_durably(path, "".join(f"{name}\n" for name in voters).encode())
            return
        known = path.read_text("utf-8", errors="replace").split("\n")[:-1]
        if known != voters:
            raise ForeignDirectory(
                "peers",
                f"the nodes of this cluster are {', '.join(known)}, as {path} says, and not "
                f"{', '.join(voters)}: two groups of nodes that count differently would become two "
                "clusters. To change them stop every node, change `peers` in every file, delete "
                f"the file `{VOTERS_NAME}` in every data directory, and start them all",
            )


def raft_memory(identity: Identity) -> Memory:
    """What the data directory knows of its Raft files: they must be there if they ever were."""
    mark = identity.raft
    was_older_release = any(not start for _, start in identity.past)
    is_used = mark.applied > 0 or was_older_release
    return Memory(mark.term, mark.applied, is_used, identity.voters)


def _voters_in(form: dict[str, Any]) -> VoterSet | None:
    """The voters that a file of this format names, if it does."""
    if "voters" not in form:
        return None
    number, names = form["voters"]
    return VoterSet(number, tuple(NodeId(name) for name in names))


def _roster_in(form: dict[str, Any]) -> tuple[tuple[NodeId, str], ...]:
    """The nodes, with their addresses, that a file of this format names."""
    return tuple((NodeId(name), address) for name, address in form.get("roster", {}).items())


def _is_newer(form: object) -> bool:
    return type(form) is int and form > _FORMAT


def _is_identity(form: object) -> bool:
    if not isinstance(form, dict) or form.get("format") != _FORMAT:
        return False
    raft, starts = form.get("raft"), form.get("starts")
    return (
        isinstance(form.get("node"), str)
        and isinstance(form.get("directory"), str)
        and isinstance(form.get("cluster", ""), str)
        and isinstance(raft, list)
        and len(raft) == 2
        and all(type(number) is int for number in raft)
        and isinstance(starts, list)
        and all(map(_is_start, starts))
        and ("voters" not in form or _is_set(form["voters"]))
        and isinstance(form.get("joined", False), bool)
        and isinstance(form.get("roster", {}), dict)
        and all(isinstance(address, str) for address in form.get("roster", {}).values())
    )


def _is_set(item: object) -> bool:
    return (
        isinstance(item, list)
        and len(item) == 2
        and type(item[0]) is int
        and item[0] > 1
        and isinstance(item[1], list)
        and all(isinstance(name, str) for name in item[1])
    )


def _is_start(item: object) -> bool:
    return (
        isinstance(item, list)
        and len(item) == 2
        and type(item[0]) is int
        and isinstance(item[1], str)
        and _START.fullmatch(item[1]) is not None
    )


def _counted(journal: Path) -> int | None:
    """The number of the last start; None if there was none, or it cannot be read."""
    path = journal / COUNTER_NAME
    text = path.read_text("ascii", errors="replace").strip() if path.exists() else ""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None
