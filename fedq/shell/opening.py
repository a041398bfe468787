"""How a data directory is opened: whose it is, which start this is, and of which cluster.

In: the configuration. Out: its journal's files; the identity of this process, of which the cluster
knows if this node is to join it. Errors are sentences for operators: `ConfigError` about what the
configuration can mend, `NodeFailure` about the rest.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from fedq.core.errors import NodeFailure
from fedq.core.ids import NodeId
from fedq.shell.config.values import NodeConfig
from fedq.shell.disk.durable_files import disk_failure
from fedq.shell.disk.journal_files import DirectoryInUse, JournalFiles
from fedq.shell.durations import Durations
from fedq.shell.identity import ForeignDirectory, Identity, IdentityFile
from fedq.shell.joining import Joining
from fedq.shell.peers.certificates import NodeCertificates

logger = logging.getLogger("fedq.node")

#: How long a node of a cluster that has moved asks to have that noted before it starts.
_MOVED_S: Final = 3.0


def open_journal(
    config: NodeConfig, on_synced: Callable[[int], None], on_failed: Callable[[str], None],
    syncs: Durations,
) -> JournalFiles:  # fmt: skip
    """The files of the journal, which nobody else has open; raises `ConfigError`."""
    directory = config.data / "journal"
    try:
        return JournalFiles(directory, on_synced, on_failed, asyncio.get_running_loop(), syncs)
    except DirectoryInUse as error:
        raise config.error("data", str(error)) from error
    except OSError as error:
        raise config.error(
            "data",
            f"{error.filename or directory} cannot be used: {error.strerror}; make it "
            "writable for this user or choose another directory",
        ) from error


def begin_start(config: NodeConfig) -> tuple[IdentityFile, Identity]:
    """Looks whose the data directory is, and counts this start in it.

    Raises `ConfigError`, `NodeFailure` and `OSError`.
    """
    voters = [*config.peers] or [config.node]
    try:
        file = IdentityFile(config.data, config.node, voters, joins=bool(config.join))
    except ForeignDirectory as error:
        raise config.error(error.key, str(error)) from error
    return file, file.begin()


async def enter_cluster(
    config: NodeConfig, file: IdentityFile, identity: Identity,
    certificates: NodeCertificates | None, stop: asyncio.Event,
) -> Identity:  # fmt: skip
    """Has this node let into the cluster that it is to join, if that has not been done.

    It asks again if it is to be reached elsewhere, and goes on if nobody answers soon. Raises
    `ConfigError`, `NodeFailure` and `OSError`; `stop` ends the wait.
    """
    known = dict(identity.roster)
    if identity.joined:
        here = config.peer_address
        if not here:
            raise config.error(
                "peer", "this node has joined a cluster, which has to reach it: say where"
            )
        if known.get(config.node) == here:
            return identity
    elif identity.cluster:
        if config.join:
            logger.info(
                "this node's data directory belongs to cluster %s: it goes on in that, and asks "
                "nobody of those under `join`", identity.cluster,
            )  # fmt: skip
        return identity
    elif not config.join:
        return identity
    others = [address for node, address in known.items() if node != config.node]
    joining = Joining(config, identity, certificates).join([*config.join, *others], stop)
    if identity.joined:
        # It may be needed for the majority that this takes: whom it dials hears where it is.
        try:
            async with asyncio.timeout(_MOVED_S):
                admitted = await joining
        except (NodeFailure, TimeoutError):
            logger.warning(
                "this node has moved to %s, and nobody has noted that yet: it starts all the same, "
                "and tells those whom it reaches", config.peer_address,
            )  # fmt: skip
            return identity
    else:
        admitted = await joining
    try:
        return file.mark_joined(*admitted)
    except OSError as error:
        raise disk_failure(error, config.data) from error


def founders(config: NodeConfig, identity: Identity, amqp_address: str) -> dict[NodeId, str]:
    """The nodes that vote as long as the log names nobody, and this one, with their addresses."""
    own = {config.node: config.peer_address or amqp_address}
    return own if identity.joined else {**own, **config.peers}
