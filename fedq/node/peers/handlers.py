"""Which part of a node hears which message of a peer."""

from collections.abc import Callable
from typing import Any, TypeAlias

from fedq.core import peer_messages as p
from fedq.core.ids import NodeId
from fedq.core.reader_messages import ReadAs, ReadTurn
from fedq.node.cluster.cluster_flow import ClusterFlow
from fedq.node.consuming.room import Consuming
from fedq.node.copies.room import Copies
from fedq.node.private.room import Private
from fedq.node.publishing.room import Publishing
from fedq.node.streams.room import Streams

#: Takes a message of one type, and who sent it.
Handler: TypeAlias = Callable[[NodeId, Any], None]


def handlers_of(
    cluster: ClusterFlow, publishing: Publishing, consuming: Consuming, private: Private,
    copies: Copies, streams: Streams, on_map_applied: Handler,
) -> dict[type, Handler]:  # fmt: skip
    """The handlers by the type of message; that of the map, which is above, comes last."""
    return {
        p.PublishBatch: copies.fragments.on_publish_batch,
        p.PublishAtomic: copies.fragments.on_publish_atomic,
        p.PublishDone: publishing.outlets.on_publish_done,
        p.Watch: copies.fragments.on_watch,
        p.Offer: consuming.flow.on_offer,
        p.Credit: copies.fragments.on_credit,
        p.CreditBack: consuming.flow.on_credit_back,
        p.Get: copies.fragments.on_get,
        p.Got: consuming.getting.on_got,
        p.Deliver: consuming.flow.on_deliver,
        p.Settle: copies.fragments.on_settle,
        p.Attach: copies.fragments.on_attach,
        p.ReplicaOffer: copies.fragments.on_replica_offer,
        p.ReplicaWanted: copies.replicas.on_wanted,
        p.CopyQuery: cluster.reviving.on_query,
        p.CopyWorth: cluster.deciding.on_worth,
        p.CopyStart: copies.replicas.on_copy_start,
        p.CopyChunk: copies.replicas.on_copy_chunk,
        p.Replicate: copies.replicas.on_replicate,
        p.ReplicaAck: copies.fragments.on_replica_ack,
        p.MapApplied: on_map_applied,
        p.Interest: private.flow.on_interest,
        p.InterestDone: private.flow.on_interest_done,
        p.Relay: publishing.relays.on_relay,
        p.RelayDone: publishing.relays.on_relay_done,
        p.BodiesWanted: copies.lending.on_wanted,
        p.Bodies: copies.mending.on_bodies,
        p.Call: copies.fragments.on_call,
        p.Reply: copies.asking.on_reply,
        p.ReadStream: streams.serving.on_read,
        p.StreamPart: streams.reading.on_part,
        ReadAs: streams.naming.on_step,
        ReadTurn: streams.naming.on_turn,
        p.Quiesce: copies.quieting.on_quiesce,
        p.Quiesced: cluster.handing.on_quiesced,
        p.Tally: cluster.tallies.on_tally,
    }
