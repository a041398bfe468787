"""What was failed at is known again, as long as it should be, and never more than has room."""

from fedq.core.ids import FragmentId
from fedq.core.limits import SUSPECTS_KNOWN_MAX, SUSPECTS_UNPROVEN_MS
from fedq.core.message import FLAG_SEEN, encode, with_flag
from fedq.core.suspects import Suspect, digest_of
from fedq.node.records.suspects import Suspects

F = FragmentId(7)


def _message(body: bytes) -> bytes:
    return encode(1, b"\0\4jobs", b"\0\0", body)


def _suspect(message: bytes, proven: bool = False, position: int = 0) -> Suspect:
    return Suspect(F, position, len(message), digest_of(message), proven)


def test_a_message_is_known_by_what_it_is_whatever_was_noted_on_its_way() -> None:
    suspects = Suspects()
    suspects.add([_suspect(_message(b"poison"))], 0)
    messages = [_message(b"good"), with_flag(_message(b"poison"), FLAG_SEEN), _message(b"others")]
    assert suspects.find(messages) == [1]


def test_what_was_not_proven_is_forgotten_after_a_while() -> None:
    suspects, doubted, proven = Suspects(), _message(b"a"), _message(b"b")
    suspects.add([_suspect(doubted), _suspect(proven, True)], 5_000)
    suspects.forget_old(5_000 + SUSPECTS_UNPROVEN_MS - 1)
    assert suspects.find([doubted, proven]) == [0, 1]
    suspects.forget_old(5_000 + SUSPECTS_UNPROVEN_MS)
    assert suspects.find([doubted, proven]) == [1]
    assert suspects.count == 1


def test_of_the_last_process_the_time_begins_with_this_ones_clock() -> None:
    suspects, doubted = Suspects(), _message(b"a")
    suspects.add([_suspect(doubted)], -1)
    suspects.forget_old(1 << 40)
    assert suspects.find([doubted]) == [0]
    suspects.forget_old((1 << 40) + SUSPECTS_UNPROVEN_MS)
    assert suspects.find([doubted]) == []


def test_places_are_taken_once() -> None:
    suspects = Suspects()
    suspects.add([_suspect(_message(b"a"), position=9), _suspect(_message(b"b"), position=5)], 0)
    assert suspects.take(F) == [5, 9]
    assert suspects.take(F) == []


def test_whatever_is_named_in_one_fragment_there_is_a_bound() -> None:
    suspects = Suspects()
    for position in range(1, 2 * SUSPECTS_KNOWN_MAX):
        suspects.add([_suspect(_message(b"%d" % position), True, position)] * 2, 0)
    assert suspects.places_count == SUSPECTS_KNOWN_MAX
    places = suspects.take(F)
    assert places == list(range(SUSPECTS_KNOWN_MAX, 2 * SUSPECTS_KNOWN_MAX))
    assert suspects.places_count == 0
    assert not suspects.places


def test_whatever_peers_name_there_is_a_bound() -> None:
    suspects = Suspects()
    for number in range(2 * SUSPECTS_KNOWN_MAX):
        message = _message(b"%d" % number)
        one = Suspect(FragmentId(number + 1), 3, len(message), digest_of(message), True)
        suspects.add([one, Suspect(FragmentId(number + 1), 0, 0, b"", False)], 0)
    assert suspects.count == len(suspects.places) == len(suspects.doubtful) == SUSPECTS_KNOWN_MAX
    assert suspects.find([message]) == [0]
