"""A model of a fan-out over a cluster: from sizes and costs to time, memory, bytes and processor.

In: a `Cluster`, `Traffic`. Out: a `Prediction`. It has one broadcast in mind: each message goes to
every subscriber. A node has one core, as in fedq.

    publish at one node --> a frame to each other node, one after the other --> deliveries there

With `relays` the frames go along a tree: a node hands a message on to so many others. fedq has no
such trees; the model says when they would pay.
"""

import math
from dataclasses import dataclass

from loadtests.scale import costs


@dataclass(frozen=True, slots=True)
class Cluster:
    """What there is."""

    nodes: int
    subscribers: int
    #: Heartbeats are so many times rarer than by default (`timing`).
    slower: float = 1.0
    #: How many nodes each one hands a publish on to; 0: the publisher's node sends to all.
    relays: int = 0
    #: A delivery on this machine, over one on the machine that the costs were measured on.
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is published: one message to all, at a rate, by clients of one node or of all."""

    rate: float = 1.0
    body_bytes: int = 64


@dataclass(frozen=True, slots=True)
class Prediction:
    """What that takes."""

    #: From the publish until the last subscriber has it.
    last_s: float
    #: Of that: until the last node has the frame.
    spread_s: float
    #: Messages a second at which the busiest node has no processor left.
    rate_max: float
    node_bytes: float
    descriptors: int
    #: Between all nodes, a second.
    wire_bytes_s: float
    #: Of each second, of the publisher's node, and of any other.
    publisher_busy: float
    node_busy: float
    #: Of that: heartbeats.
    beats_busy: float
    #: Until all have come back that a node had, to all others together.
    storm_s: float
    #: The same where each has a queue with a name that its client chose.
    named_storm_s: float


def spread(nodes: int, relays: int, speed: float = 1.0) -> float:
    """How long a message takes from its node to the last other one, in seconds."""
    frame = costs.FRAME_S * speed
    if nodes <= 1:
        return 0.0
    if not relays:
        return (nodes - 1) * frame + costs.HOP_S + frame
    depth = tree_depth(nodes, relays)
    return depth * (relays * frame + costs.HOP_S + frame)


def tree_depth(nodes: int, relays: int) -> int:
    """How many hops it is to the last node, where each hands on to so many."""
    reached, depth, width = 1, 0, 1
    while reached < nodes:
        width *= relays
        reached += width
        depth += 1
    return depth


def predict(cluster: Cluster, traffic: Traffic) -> Prediction:
    """What a cluster takes for such traffic."""
    nodes, speed = cluster.nodes, cluster.speed
    here = cluster.subscribers / nodes
    delivery = costs.delivery_s(here) * speed
    frame = costs.FRAME_S * speed
    peers = nodes - 1
    # A frame there and one back, with what is done or a heartbeat: the answers gather.
    sends = min(cluster.relays, peers) if cluster.relays else peers
    spread_s = spread(nodes, cluster.relays, speed)
    beats = 2 * peers * costs.BEATS / cluster.slower * frame
    idle = costs.IDLE_S + beats
    deliver_s = here * delivery
    own = costs.PUBLISH_S * speed + 2 * sends * frame + deliver_s
    hands_on = 2 * sends * frame if cluster.relays else 0.0
    others = 2 * frame + hands_on + deliver_s
    crossing = traffic.body_bytes + costs.RELAY_BYTES + 2 * costs.FRAME_BYTES
    beat_bytes = costs.BEAT_BYTES + costs.FRAME_BYTES
    return Prediction(
        last_s=costs.FIRST_S + spread_s + here * delivery * costs.SENT,
        spread_s=spread_s,
        rate_max=max(0.0, 1 - idle) / max(own, others),
        node_bytes=memory(here),
        descriptors=math.ceil(here) + costs.RESERVED,
        wire_bytes_s=peers * (
            traffic.rate * crossing + nodes * costs.BEATS / cluster.slower * beat_bytes
        ),
        publisher_busy=idle + traffic.rate * own,
        node_busy=idle + traffic.rate * others,
        beats_busy=beats,
        storm_s=here / max(peers, 1) * costs.SUBSCRIBE_S * speed,
        named_storm_s=here * (costs.SUBSCRIBE_S / max(peers, 1) + costs.NAMED_S) * speed,
    )  # fmt: skip


def memory(subscribers: float) -> float:
    """What a node takes with so many subscribers, in bytes."""
    return costs.NODE_BYTES + growth(subscribers)


def growth(subscribers: float) -> float:
    """What a node takes more with so many subscribers than without any."""
    return costs.WARM_BYTES + subscribers * costs.SUBSCRIBER_BYTES if subscribers else 0.0


def worked(cluster: Cluster, seconds: float, published: float, delivered: float) -> float:
    """What a node's process has worked, in processor seconds: from its start, so long.

    `published`: at this node or another one; `delivered`: at all nodes together.
    """
    here = cluster.subscribers / cluster.nodes
    peers = cluster.nodes - 1
    work = here * costs.SUBSCRIBE_S
    work += seconds * 2 * peers * costs.BEATS / cluster.slower * costs.FRAME_S
    work += published / cluster.nodes * (costs.PUBLISH_S + 2 * peers * costs.FRAME_S)
    work += published * 2 * costs.FRAME_S
    work += delivered / cluster.nodes * costs.delivery_s(here)
    pages = seconds / costs.METRICS_EVERY_S * costs.METRICS_S
    return costs.START_S + seconds * costs.IDLE_S + pages + work * cluster.speed


def best_relays(nodes: int) -> int:
    """To how many others each node would best hand on; 0: it is best to send to all at once."""
    return min(range(nodes), key=lambda relays: (spread(nodes, relays), relays))
