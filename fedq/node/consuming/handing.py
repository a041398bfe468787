"""Messages of a fragment of this node go to the other nodes whose consumers have room for them.

In: the fragment, what nodes have credit for, how far they keep up. Out: `Deliver` to these nodes.
"""

from fedq.core.batches import cut
from fedq.core.limits import PEER_FRAME_BYTES_MAX
from fedq.core.peer_messages import Deliver
from fedq.node.consuming.keeping_up import note_taken, rooms_elsewhere
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState


def hand_to_nodes(state: NodeState, primary: Primary, level: int | None, spared: int = 0) -> None:
    """Hands messages to the other nodes that have credit of a higher priority than `level`.

    `None`: whatever its priority. `spared`: so many messages are left for consumers here.
    """
    fragment = primary.fragment
    ids = (fragment.fragment_id, fragment.reign)
    rooms = rooms_elsewhere(state, primary)
    ready = fragment.within(fragment.at_hand - spared, PEER_FRAME_BYTES_MAX)
    given = 0
    for node, share in primary.takers.shares(ready, level, rooms):
        taken = fragment.take(node, share)
        state.at, state.at_what = primary, taken
        got = len(taken.messages)
        if got < share:
            # Messages that are kept singly may stand behind some that are on disk alone.
            primary.takers.return_share(node, share - got)
        given += got
        note_taken(state, primary, node, got)
        seen, all_positions = dict.fromkeys(taken.redelivered), taken.positions
        for start, stop in cut(taken.messages):
            positions = all_positions[start:stop]
            again = [position for position in positions if position in seen]
            state.send(node, Deliver(*ids, positions, again, taken.messages[start:stop]))
    if given == ready < fragment.at_hand + given - spared:
        # There may be credit for more bytes than go at once.
        state.marks.unfinished[fragment.fragment_id] = None
