"""Messages left in the bytes they came in, against a dict of messages by position."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import Incarnation, NodeId, Origin
from fedq.core.message import FLAG_PERSISTENT
from fedq.fragments.copy.unread import Unread
from fedq.journal.payloads import Outline

ORIGIN = Origin(NodeId("n1"), Incarnation(1))
#: Bytes before the messages: those of the record they came in.
HEAD = b"record"
messages = st.lists(
    st.tuples(st.sampled_from([0, FLAG_PERSISTENT]), st.integers(6, 40)), min_size=1, max_size=30
)
steps = st.lists(
    st.tuples(st.just("add"), messages, st.integers(0, 3))
    | st.tuples(st.just("forget"), st.integers(0, 60), st.integers(0, 30)),
    max_size=25,
)


@given(steps)
def test_what_is_left_in_its_bytes_is_what_a_dict_would_hold(
    script: list[tuple[str, list[tuple[int, int]], int] | tuple[str, int, int]],
) -> None:
    unread, here = Unread(), dict[int, bytes]()
    last = 0
    for _, what, more in script:
        if isinstance(what, list):
            bodies = [bytes([flags]) + bytes(size) for flags, size in what]
            first = last + 1 + more
            last = first + len(bodies) - 1
            lengths = tuple(map(len, bodies))
            outline = Outline(first, ORIGIN, 1, False, HEAD + b"".join(bodies), len(HEAD), lengths)
            assert unread.add(outline) == any(flags & FLAG_PERSISTENT for flags, _ in what)
            here |= zip(range(first, last + 1), bodies, strict=True)
        else:
            concerned, singly = unread.forget((what, what + more))
            named = {p: message for p, message in here.items() if what <= p <= what + more}
            assert concerned or not any(
                message[0] & FLAG_PERSISTENT for p, message in named.items() if p not in singly
            )
            # What is to be dealt with singly comes out as it was, and is here no more.
            assert singly.items() <= here.items()
            here = {p: message for p, message in here.items() if p not in {**named, **singly}}
        assert unread.bytes_held == sum(map(len, here.values()))
        persistent = [p for p, message in here.items() if message[0] & FLAG_PERSISTENT]
        assert unread.oldest_persistent() == min(persistent, default=None)
    assert unread.read() == here
    assert not unread
    assert unread.bytes_held == 0
