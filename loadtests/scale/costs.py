"""What one subscriber, delivery, publish, frame and node costs, each with where it was measured.

Processor seconds are those of the machine of 22 November (`loadtests/results/2026-11-22-bench`);
another machine has a *speed*, the cost of a delivery there over the cost here.
"""

import math
from typing import Final

# --- processor time, in seconds -----------------------------------------------------------------

#: A paced delivery to one of 1,000 connections: 161,000 a CPU-second (`fanout-1000-paced`).
DELIVERY_S: Final = 6.22e-6
#: How much more it is with ten times as many: each subscriber's state is colder. Of 10,000 in three
#: records 1.29, 1.48 and 1.55 times (`fanout-10000-paced`).
DECADE: Final = 1.42
#: Beyond so many connections it grows no more: everything is cold by then.
COLD: Final = 30_000
#: The part of a delivery that is done when the last subscriber has it; the rest is tidied up after.
SENT: Final = 0.9
#: From the publisher to the first delivery, and through the last subscriber's own socket.
FIRST_S: Final = 2.7e-3
#: Connection, channel, queue, binding, consumer (200 to 350 µs, PERFORMANCE.md): the broker's part.
SUBSCRIBE_S: Final = 3.4e-4
#: A publish, by itself, at its own node (`latency-1000`: 120 µs of the process).
PUBLISH_S: Final = 1.2e-4
#: A frame between nodes at one end: 91 µs at both (ADR 0098, loadtests.micro.peer_streams).
FRAME_S: Final = 4.55e-5
#: What a subscriber with a name of its own queue costs every node besides: a commit of the map.
#: (155 µs at each of the four others on the machine of 27 November, with `fedq bench`.)
NAMED_S: Final = 1.4e-4

# The following three were measured on 27 November, on a busy machine of the kind of 26 November.

#: A node of a cluster with nothing to do, without heartbeats: 31 to 36 ms a second in one of three
#: (33.2 in the middle, with 40 frames), 27 to 38 in one of five that wait five times as long (30.8,
#: with 16).
IDLE_S: Final = 0.0307
#: From the start of a process until it is in its cluster.
START_S: Final = 1.8
#: A page of metrics, which `make load` reads every two seconds.
METRICS_S: Final = 2.6e-3
METRICS_EVERY_S: Final = 2.0

# --- time between nodes -------------------------------------------------------------------------

#: A frame from the end of one node's turn into the next one's, on one machine or in one room.
HOP_S: Final = 1.0e-3
#: Heartbeats of a node to each other one, a second, with the default timing.
BEATS: Final = 10.0

# --- bytes --------------------------------------------------------------------------------------

#: A process before anybody came, and what it takes once anybody has.
NODE_BYTES: Final = 108 << 20
WARM_BYTES: Final = 2_200_000
#: A subscriber: connection, channel, exclusive queue, binding, consumer.
SUBSCRIBER_BYTES: Final = 7_400
#: A member in the map, as it is stored.
MEMBER_BYTES: Final = 260
#: A frame of heartbeats as protobuf, and what gRPC, HTTP/2, TLS and TCP/IP add to a frame.
BEAT_BYTES: Final = 35
FRAME_BYTES: Final = 110
#: A publish in a frame beside its body: envelope, exchange, key.
RELAY_BYTES: Final = 70
#: Descriptors that are not for clients (`fedq.core.limits.RESERVED_DESCRIPTORS`).
RESERVED: Final = 352


def delivery_s(subscribers: float) -> float:
    """A paced delivery where so many are connected to the node."""
    decades = math.log10(max(1_000.0, min(subscribers, COLD)) / 1_000)
    return DELIVERY_S * (1 + (DECADE - 1) * decades)
