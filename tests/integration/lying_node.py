"""`fedq` as a member that lies to the others, over its real streams.

    python -m tests.integration.lying_node LIE VICTIM SECONDS node --config …

LIE is `words` (each frame is its last, a thousand times a second), `queries` (what a copy holds is
asked without end, of one fragment after the other, and no answer is acknowledged) or `calls` (how
many messages a fragment has is asked so, and no answer is acknowledged). It begins to lie
`HONEST_S` after its start. To be run by `harness.UNCOMPILED`: modules are patched before anything
is wired.
"""

import sys
import time
from typing import Any, Final

from fedq.cli.main import main
from fedq.core.ids import FragmentId, NodeId
from fedq.core.peer_messages import Call, CopyQuery, PeerFrame
from fedq.core.suspects import LastWords, Suspect
from fedq.node.node import Node
from fedq.proxy.links import Link
from fedq.shell.peers.client import PeerClient
from fedq.shell.peers.codec import encode_frame
from fedq.shell.peers.send_queue import FrameSendQueue

#: What is asked in one tick, and how much of that may be unacknowledged.
ASKED: Final = 1_000
ASKED_AHEAD_MAX: Final = 20_000
WORDS: Final = 50

began = time.monotonic()
lie, victim, honest_s = sys.argv[1], NodeId(sys.argv[2]), float(sys.argv[3])


def lies() -> bool:
    """Whether it is time."""
    return time.monotonic() - began > honest_s


def ask(node: Node) -> None:
    """Questions."""
    state = node.state
    fragments = list(state.map.fragments) or [FragmentId(1)]
    if state.peers[victim].link.bytes_unacked > 64 * ASKED_AHEAD_MAX:
        return
    for number in range(ASKED):
        fragment = fragments[number % len(fragments)]
        if lie == "queries":
            state.send(victim, CopyQuery(fragment, number))
        else:
            state.send(victim, Call(number + 1, fragment, 1))


def tick(self: Node) -> None:
    """`Node.on_tick`, and questions."""
    on_tick(self)
    if lies():
        ask(self)


def take_frames(self: Link, *args: Any) -> list[PeerFrame]:
    """`Link.take_frames`, which acknowledge nothing."""
    frames = take(self, *args)
    if not lies() or self.peer != victim:
        return frames
    return [frame._replace(acknowledged=0) for frame in frames]


def send(self: PeerClient, peer: Any, frames: list[PeerFrame]) -> None:
    """`PeerClient.send`, with last words of each frame."""
    if lies() and frames and peer == victim:
        suspects = [
            Suspect(FragmentId(number), number, number, number.to_bytes(16, "big"), True)
            for number in range(1, 100)
        ]
        void = frames[0]._replace(
            first=0, messages=[], heartbeat=None, last_words=LastWords("a lie", suspects)
        )
        frames = [*frames, *[void] * WORDS]
    send_all(self, peer, frames)


def take_one(self: FrameSendQueue) -> bytes | None:
    """`FrameSendQueue.take`, which joins none."""
    if not self._frames:
        return None
    frame, size = self._frames.popleft()
    self.bytes_waiting -= size
    return encode_frame(frame, self.version)


on_tick, take, send_all = Node.on_tick, Link.take_frames, PeerClient.send

if __name__ == "__main__":
    del sys.argv[1:4]
    if lie == "words":
        PeerClient.send = send  # type: ignore[method-assign]
        FrameSendQueue.take = take_one  # type: ignore[method-assign]
    else:
        Node.on_tick = tick  # type: ignore[method-assign]
        Link.take_frames = take_frames  # type: ignore[method-assign, assignment]
    main()
