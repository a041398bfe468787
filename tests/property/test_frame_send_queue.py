"""Frames that wait for their stream and are joined say what they would have said one by one."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId
from fedq.core.peer_messages import Heartbeat, Offer, PeerFrame, PeerMessage
from fedq.proxy.links import Link
from fedq.shell.peers.codec import decode_frame
from fedq.shell.peers.send_queue import FrameSendQueue

HERE, THERE = NodeId("here"), NodeId("there")
BEAT = Heartbeat(7, 3, True)


def linked() -> tuple[Link, Link]:
    """Both ends of a link."""
    sender = Link(HERE, Incarnation(1), THERE)
    receiver = Link(THERE, Incarnation(1), HERE)
    for link in (sender, receiver):
        link.set_session(4, 4)
        link.on_connected()
    return sender, receiver


def frame(first: int, *numbers: int, session: tuple[int, int] = (4, 4)) -> PeerFrame:
    """Messages numbered from `first`."""
    messages: list[PeerMessage] = [Offer(FragmentId(number), 1) for number in numbers]
    return PeerFrame(HERE, Incarnation(1), session, first, 0, MapVersion(1), messages, None)


def taken(queue: FrameSendQueue) -> list[PeerFrame]:
    """All that waits."""
    found: list[PeerFrame] = []
    while (data := queue.take()) is not None:
        found.append(decode_frame(data))
    return found


steps = st.lists(st.sampled_from(["send", "turn", "beat", "map", "write"]), max_size=60)


@given(steps)
def test_a_link_hears_the_same_whatever_was_joined(script: list[str]) -> None:
    sender, receiver = linked()
    queue, sent, version = FrameSendQueue(), 0, 1
    heard: list[PeerMessage] = []
    for step in [*script, "turn", *["write"] * len(script), "write"]:
        if step == "send":
            sent += 1
            sender.send(Offer(FragmentId(sent), 1))
        elif step == "map":
            version += 1
        elif step == "write":
            data = queue.take()
            if data is not None:
                heard += receiver.on_frame(decode_frame(data), MapVersion(version), 1)
        else:
            beat = BEAT if step == "beat" else None
            for each in sender.take_frames(MapVersion(version), 1, beat):
                queue.add(each)
    assert heard == [Offer(FragmentId(number), 1) for number in range(1, sent + 1)]
    assert queue.bytes_waiting == 0


def test_what_waits_becomes_one_frame_with_the_newest_word() -> None:
    queue = FrameSendQueue()
    queue.add(frame(1, 1, 2)._replace(acknowledged=5, asks=True))
    queue.add(frame(0)._replace(acknowledged=6, heartbeat=BEAT))
    queue.add(frame(3, 3)._replace(acknowledged=7, map_version=MapVersion(2)))
    whole = frame(1, 1, 2, 3)._replace(
        acknowledged=7, map_version=MapVersion(2), heartbeat=BEAT, asks=True
    )
    assert taken(queue) == [whole]


def test_what_was_sent_again_and_other_sessions_stay_apart() -> None:
    frames = [frame(1, 1, 2), frame(1, 1, 2), frame(3, 3, session=(4, 9)), frame(4, 4)]
    queue = FrameSendQueue()
    for each in frames:
        queue.add(each)
    assert taken(queue) == frames


def test_a_line_that_is_cleared_is_empty() -> None:
    queue = FrameSendQueue()
    queue.add(frame(1, 1))
    assert queue.bytes_waiting > 0
    queue.clear()
    assert (queue.take(), queue.bytes_waiting) == (None, 0)
