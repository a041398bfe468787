"""The way from configuration and identity of a process to the settings of its node.

In: the configuration, who this process is, where the members and it listen. Out: `NodeSettings`,
with what only the process knows: chance, the clock, the machine's memory.
"""

import os
from collections.abc import Iterable, Mapping

from fedq.core.ids import NodeId
from fedq.node.settings import NodeSettings
from fedq.shell.config.values import NodeConfig
from fedq.shell.host.resources import memory_default
from fedq.shell.host.system_clock import unix_offset_ms
from fedq.shell.identity import Identity
from fedq.shell.last_act import LastAct
from fedq.shell.raft.timing import RaftTiming


def node_settings(
    config: NodeConfig, identity: Identity, vouched_since: int, founders: Mapping[NodeId, str],
    neighbours: Iterable[NodeId], amqp_address: str, last_act: LastAct, connections_max: int,
) -> NodeSettings:  # fmt: skip
    """The settings of the process that `identity` names; `amqp_address`: where it listens.

    `founders`: who votes as long as the log names nobody, and this node. `neighbours`: all that
    this node begins to dial. `connections_max`: for how many clients there are descriptors.
    """
    timing = config.timing
    return NodeSettings(
        node=config.node,
        incarnation=identity.incarnation,
        directory=identity.directory,
        start=identity.start,
        started_ms=identity.started_ms,
        past=identity.past,
        vouched_since=vouched_since,
        suspects=last_act.recall(),
        last_stop=last_act.last_stop,
        peers=dict(founders),
        joins=identity.joined,
        electing=() if identity.voters is None else identity.voters.names,
        neighbours=tuple(node for node in neighbours if node not in founders),
        amqp_address=amqp_address,
        zone=config.zone,
        cluster_size=config.cluster_size,
        users=dict(config.users),
        seed=int.from_bytes(os.urandom(32)),
        unix_offset_ms=unix_offset_ms(),
        heartbeat_ms=timing.heartbeat_ms,
        lease_ms=timing.lease_ms,
        suspect_ms=timing.suspect_ms,
        backup_stall_ms=timing.backup_stall_ms,
        replace_backup_ms=timing.replace_backup_ms,
        replace_voter_ms=timing.replace_voter_ms,
        revive_wait_ms=timing.revive_wait_ms,
        stop_wait_ms=timing.stop_wait_ms,
        drain_grace_ms=timing.drain_grace_ms,
        fragment_threshold=config.fragment_threshold,
        memory_bytes_max=memory_bytes(config),
        connections_max=connections_max,
        channels_max=config.channels_max,
        consumers_per_channel_max=config.consumers_per_channel_max,
        consumers_per_connection_max=config.consumers_per_connection_max,
        exclusive_queue_messages=config.exclusive.queue_messages,
        exclusive_queue_bytes=config.exclusive.queue_bytes,
        exclusive_queue_disconnects=config.exclusive.overflow == "disconnect",
        exclusive_queue_keeps_oldest=config.exclusive.overflow == "drop-tail",
        exclusive_total_messages=config.exclusive.total_messages,
        exclusive_total_bytes=config.exclusive.total_bytes,
        exclusive_vhost_messages=config.exclusive.vhost_messages,
        exclusive_vhost_bytes=config.exclusive.vhost_bytes,
        disk_free_bytes_min=config.disk_free_bytes_min,
        scrub_bytes_per_second=config.scrub_bytes_per_second,
        retire_idle_ms=timing.retire_idle_ms,
        retire_age_ms=timing.retire_age_ms,
        scrub_every_ms=timing.scrub_every_ms,
    )


def log_timing(config: NodeConfig) -> RaftTiming:
    """The times of this node's log: one that nobody can call has nobody to listen for."""
    # Longer than whoever is of a cluster takes to call a node again that was away.
    return RaftTiming(listen_ms=0 if config.peer_listener is None else 2_000)


def memory_bytes(config: NodeConfig) -> int:
    """What the node may hold in memory, by its configuration or by what the machine has."""
    return config.memory_bytes_max or memory_default()
