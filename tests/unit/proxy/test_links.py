"""What a link does at once, and what it refuses: the cases that a random walk seldom meets."""

from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId, Origin
from fedq.core.limits import PEER_FRAME_BYTES_MAX, UNACKED_MESSAGES_MAX, UNACKED_STALL_MS
from fedq.core.peer_messages import (
    Heartbeat,
    Offer,
    PeerFrame,
    PeerMessage,
    PublishAtomic,
    Relay,
    Replicate,
)
from fedq.proxy.links import (
    ACK_MS,
    ASK_BYTES,
    FRAME_MESSAGES_MAX,
    HELD_FRAMES_MAX,
    LINGER_MS,
    NO_SESSION,
    RESEND_MS,
    Link,
)

ONE = MapVersion(1)


def pair() -> tuple[Link, Link]:
    """Two ends in one session, connected."""
    ann = Link(NodeId("ann"), Incarnation(1), NodeId("ben"))
    ben = Link(NodeId("ben"), Incarnation(1), NodeId("ann"))
    ann.set_session(1, 1)
    ben.set_session(1, 1)
    ann.on_connected()
    ben.on_connected()
    return ann, ben


def offers(*numbers: int) -> list[PeerMessage]:
    return [Offer(FragmentId(number), 1) for number in numbers]


def say(link: Link, *numbers: int) -> list[PeerFrame]:
    for message in offers(*numbers):
        link.send(message)
    return link.take_frames(ONE, 0, None)


def test_a_new_connection_carries_at_once_what_was_not_acknowledged() -> None:
    ann, ben = pair()
    say(ann, 1, 2)
    ann.on_disconnected()
    assert say(ann, 3) == []
    ann.on_connected()
    (frame,) = ann.take_frames(ONE, 1, None)
    assert (frame.first, frame.messages) == (1, offers(1, 2, 3))
    assert ben.on_frame(frame, ONE, 1) == offers(1, 2, 3)


def test_part_of_a_repeated_frame_may_be_new() -> None:
    ann, ben = pair()
    (first,) = say(ann, 1, 2)
    assert ben.on_frame(first, ONE, 0) == offers(1, 2)
    say(ann, 3)
    ann.on_disconnected()
    ann.on_connected()
    (again,) = ann.take_frames(ONE, 1, None)
    assert ben.on_frame(again, ONE, 1) == offers(3)


def test_nothing_of_an_earlier_session_is_heard() -> None:
    ann, ben = pair()
    (old,) = say(ann, 1)
    assert ben.set_session(5, 1)
    assert ben.on_frame(old, ONE, 0) == []
    assert not ben.set_session(5, 0)
    assert ben.session == NO_SESSION
    assert ben.on_frame(old, ONE, 0) == []
    ben.send(offers(1)[0])
    assert ben.take_frames(ONE, 0, None) == []


def test_an_acknowledgement_of_an_earlier_session_frees_nothing() -> None:
    ann, ben = pair()
    ben.on_frame(say(ann, 1)[0], ONE, 0)
    (answer,) = ben.take_frames(ONE, ACK_MS, None)
    ann.set_session(7, 1)
    say(ann, 2)
    ann.on_frame(answer, ONE, 0)
    assert ann.bytes_unacked > 0


def released(link: Link, version: int) -> list[PeerMessage]:
    """All that has waited for the map to be there."""
    heard: list[PeerMessage] = []
    while link.may_release(MapVersion(version)):
        heard += link.release(MapVersion(version), 0)
    return heard


def test_frames_wait_for_the_map_and_come_in_order() -> None:
    ann, ben = pair()
    ann.send(offers(1)[0])
    (ahead,) = ann.take_frames(MapVersion(4), 0, None)
    (behind,) = say(ann, 2)
    assert ben.on_frame(ahead, ONE, 0) == []
    assert ben.on_frame(behind, ONE, 0) == [], "it came after one that waits"
    assert ben.release(MapVersion(3), 0) == []
    assert released(ben, 4) == offers(1, 2)


def test_who_is_far_behind_the_map_keeps_only_so_much_and_loses_nothing() -> None:
    ann, ben = pair()
    ann.send(offers(1)[0])
    for frame in ann.take_frames(MapVersion(2), 0, None):
        ben.on_frame(frame, ONE, 0)
    for number in range(2, HELD_FRAMES_MAX + 50):
        for frame in say(ann, number):
            ben.on_frame(frame, ONE, 0)
    assert len(ben.held) == HELD_FRAMES_MAX
    heard = released(ben, 2)
    (answer,) = ben.take_frames(MapVersion(2), ACK_MS, None)
    ann.on_frame(answer, MapVersion(2), 0)
    for frame in ann.take_frames(ONE, RESEND_MS + 1, None):
        heard += ben.on_frame(frame, MapVersion(2), RESEND_MS + 1)
    assert heard == offers(*range(1, HELD_FRAMES_MAX + 50))


def test_large_messages_travel_in_frames_of_their_own() -> None:
    ann, ben = pair()
    messages = [Relay(n, "/", [bytes(PEER_FRAME_BYTES_MAX)]) for n in (1, 2)]
    for message in messages:
        ann.send(message)
    frames = ann.take_frames(ONE, 0, None)
    assert [len(frame.messages) for frame in frames] == [1, 1]
    heard = [message for frame in frames for message in ben.on_frame(frame, ONE, 0)]
    assert heard == messages


def test_a_heartbeat_goes_out_though_there_is_nothing_to_say() -> None:
    ann, _ = pair()
    beat = Heartbeat(5, 0, False)
    (frame,) = ann.take_frames(ONE, 5, beat)
    assert (frame.first, frame.messages, frame.heartbeat) == (0, [], beat)
    assert ann.take_frames(ONE, 6, None) == []


def test_an_acknowledgement_waits_for_company_but_not_for_long() -> None:
    ann, ben = pair()
    ben.on_frame(say(ann, 1)[0], ONE, 5)
    assert ben.take_frames(ONE, 4 + ACK_MS, None) == []
    ben.send(offers(7)[0])
    (frame,) = ben.take_frames(ONE, 4 + ACK_MS, None)
    assert (frame.acknowledged, frame.messages) == (1, offers(7))
    assert ben.take_frames(ONE, 5 + ACK_MS, None) == [], "it has been told"
    ben.on_frame(say(ann, 2)[0], ONE, 50)
    (alone,) = ben.take_frames(ONE, 50 + ACK_MS, None)
    assert (alone.acknowledged, alone.messages) == (2, [])


def test_who_keeps_much_is_told_at_once() -> None:
    ann, ben = pair()
    ann.send(Relay(1, "/", [bytes(ASK_BYTES)]))
    (frame,) = ann.take_frames(ONE, 0, None)
    assert frame.asks
    ben.on_frame(frame, ONE, 0)
    (answer,) = ben.take_frames(ONE, 0, None)
    ann.on_frame(answer, ONE, 0)
    assert ann.bytes_unacked == 0
    assert not say(ann, 2)[0].asks


def record(previous: int, last: int) -> Replicate:
    return Replicate(FragmentId(1), 1, previous, last, bytes(range(previous + 1, last + 1)))


def test_what_is_patient_waits_for_company_but_not_for_long() -> None:
    ann, _ = pair()
    ann.send(record(0, 1), patient=True)
    waits = ann.take_frames(ONE, 7, None), ann.lingers
    assert waits == ([], True)
    (frame,) = ann.take_frames(ONE, 7 + LINGER_MS, None)
    assert (frame.messages, ann.lingers) == ([record(0, 1)], False)
    ann.send(record(1, 2), patient=True)
    ann.send(offers(1)[0])
    (together,) = ann.take_frames(ONE, 20, None)
    assert together.messages == [record(1, 2), *offers(1)]


def test_records_that_follow_on_each_other_become_one_message_until_they_are_sent() -> None:
    ann, ben = pair()
    ann.send(record(0, 1), patient=True)
    ann.send(record(1, 3), patient=True)
    ann.send(record(3, 4))
    (frame,) = ann.take_frames(ONE, 0, None)
    assert frame.messages == [record(0, 4)]
    # The peer may have it: what comes behind is a message of its own, also when both go again.
    ann.send(record(4, 5))
    ann.on_disconnected()
    ann.on_connected()
    ann.send(record(5, 6))
    (again,) = ann.take_frames(ONE, 1, None)
    assert again.messages == [record(0, 4), record(4, 6)]
    assert ben.on_frame(frame, ONE, 1) + ben.on_frame(again, ONE, 1) == [record(0, 4), record(4, 6)]


def test_a_gap_between_records_is_not_closed() -> None:
    ann, _ = pair()
    ann.send(record(0, 1))
    ann.send(record(2, 3))
    (frame,) = ann.take_frames(ONE, 0, None)
    assert frame.messages == [record(0, 1), record(2, 3)]


def test_a_transaction_on_its_way_is_counted_by_its_bytes() -> None:
    """Before, it counted as 64 bytes, whatever it published."""
    ann, _ = pair()
    origin = Origin(NodeId("ann"), Incarnation(1))
    publishes = PublishAtomic(FragmentId(1), 1, origin, 1, False, [bytes(5_000)], [], [], [])
    ann.send(publishes)
    assert ann.bytes_unacked > 5_000


def test_a_peer_that_acknowledges_nothing_is_not_heard_while_much_waits_for_it() -> None:
    ann, _ = pair()
    said, heard, asked = 0, 0, offers(*range(1_000))
    for now_ms in range(0, 200_000, 50):
        frame = PeerFrame(
            NodeId("ben"), Incarnation(1), ann.session, said + 1, 0, ONE, asked, None
        )  # fmt: skip
        if ann.refuses(frame, now_ms):
            continue
        said += 1_000
        for message in ann.on_frame(frame, ONE, now_ms):
            heard += 1
            ann.send(message)
        ann.take_frames(ONE, now_ms, None)
    # What came before it was too long ago, and a frame now and then.
    most = UNACKED_MESSAGES_MAX + 1_000 * (UNACKED_STALL_MS // 50) + 10 * 1_000
    assert heard == ann.unacked <= most
    assert ann.deaf_ms


def test_a_peer_that_acknowledges_at_last_is_heard_and_nothing_is_lost() -> None:
    ann, ben = pair()
    much = list(range(UNACKED_MESSAGES_MAX + 1))
    say(ann, *much)
    late: list[PeerFrame] = []
    for now_ms in (0, UNACKED_STALL_MS, UNACKED_STALL_MS + 50):
        late += say(ben, now_ms)
        assert ann.refuses(late[-1], now_ms) == (now_ms > 0)
    heard: list[PeerMessage] = []
    now_ms = UNACKED_STALL_MS + 2_000
    for _ in range(10):
        now_ms += RESEND_MS + 1
        for frame in ann.take_frames(ONE, now_ms, None):
            ben.on_frame(frame, ONE, now_ms)
        for frame in ben.take_frames(ONE, now_ms, Heartbeat(now_ms, 0, False, False)):
            if not (frame.messages and ann.refuses(frame, now_ms)):
                heard += ann.on_frame(frame, ONE, now_ms)
    assert not ann.unacked
    assert not ann.deaf_ms
    assert heard == offers(0, UNACKED_STALL_MS, UNACKED_STALL_MS + 50)


def test_two_that_keep_much_for_each_other_come_out_of_it() -> None:
    ends = pair()
    count = UNACKED_MESSAGES_MAX + 1
    for end in ends:
        for message in offers(*range(count)):
            end.send(message)
    heard = [0, 0]
    for now_ms in range(0, 60_000, 50):
        # For some time each hears that the other one lives, and never what it waits for.
        is_bad = now_ms < 3 * UNACKED_STALL_MS
        for at, end in enumerate(ends):
            for frame in end.take_frames(ONE, now_ms, None):
                if is_bad and frame.messages:
                    frame = frame._replace(first=frame.first + 1, messages=frame.messages[1:])
                other = ends[1 - at]
                if not (frame.messages and other.refuses(frame, now_ms)):
                    heard[1 - at] += len(other.on_frame(frame, ONE, now_ms))
        if is_bad and now_ms > 2 * UNACKED_STALL_MS:
            assert any(end.deaf_ms for end in ends)
    assert heard == [count, count]
    assert not any(end.unacked or end.deaf_ms for end in ends)


def test_a_frame_brings_only_so_many_messages() -> None:
    ann, _ = pair()
    frames = say(ann, *range(FRAME_MESSAGES_MAX + 1))
    assert [len(frame.messages) for frame in frames] == [FRAME_MESSAGES_MAX, 1]


def test_of_much_that_is_not_acknowledged_one_frame_goes_again_and_the_rest_after_an_answer() -> (
    None
):
    ann, ben = pair()
    lost = say(ann, *range(3 * FRAME_MESSAGES_MAX))
    assert len(lost) == 3
    (probe,) = ann.take_frames(ONE, RESEND_MS + 1, None)
    assert probe.messages == lost[0].messages
    assert ann.take_frames(ONE, RESEND_MS + 2, None) == []
    heard = ben.on_frame(probe, ONE, RESEND_MS + 2)
    (answer,) = ben.take_frames(ONE, 3 * RESEND_MS, None)
    ann.on_frame(answer, ONE, RESEND_MS + 3)
    for frame in ann.take_frames(ONE, RESEND_MS + 3, None):
        heard += ben.on_frame(frame, ONE, RESEND_MS + 3)
    assert heard == offers(*range(3 * FRAME_MESSAGES_MAX))
