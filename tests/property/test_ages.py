"""How old a message may be: marks that are thinned out, against all that ever happened."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import FragmentId
from fedq.node.records.ages import MARKS_MAX, Ages

ONE = FragmentId(1)
#: How many messages come, how many go, how much time passes, and whether somebody marks it.
STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 9_000), st.booleans()),
    max_size=300,
)


@given(STEPS, st.integers(0, 5))
def test_no_message_is_younger_or_older_than_is_said(
    steps: list[tuple[int, int, int, bool]], before: int
) -> None:
    """`before`: what an earlier reign has left."""
    ages, now_ms, last = Ages(), 1_000, before
    ages.begin(ONE, before, now_ms)
    came: dict[int, int | None] = dict.fromkeys(range(1, before + 1))
    for arrivals, gone, passed_ms, is_marked in steps:
        now_ms += passed_ms
        for _ in range(arrivals):
            last += 1
            came[last] = now_ms
        for position in list(came)[:gone]:
            del came[position]
        if is_marked:
            ages.mark(ONE, next(iter(came), None), last, now_ms)
        if came:
            first = next(iter(came))
            age, came_ms = ages.of(ONE, first, now_ms), came[first]
            if came_ms is None:
                assert age.at_most is None
                assert age.at_least == now_ms - 1_000
            else:
                assert age.at_most is not None
                assert age.at_least <= now_ms - came_ms <= age.at_most


def test_marks_are_bounded_and_tell_the_age_of_what_stays_well() -> None:
    ages, count = Ages(), 10 * MARKS_MAX
    ages.begin(ONE, 0, 0)
    for last in range(1, count):
        ages.mark(ONE, 1, last, last * 1_000)
    age = ages.of(ONE, 1, count * 1_000)
    assert age == ((count - 1) * 1_000, count * 1_000)
    middle = ages.of(ONE, count // 2, count * 1_000)
    assert middle.at_most is not None
    assert middle.at_most - middle.at_least < count * 1_000 // 4
    assert middle.at_least > 0
    newest = ages.of(ONE, count - 1, count * 1_000)
    assert newest.at_most is not None
    assert newest.at_most < count * 1_000 // 16


def test_a_fragment_without_marks_has_no_age() -> None:
    ages = Ages()
    assert ages.of(ONE, 1, 5_000) == (0, None)
    ages.begin(ONE, 0, 1_000)
    ages.forget(ONE)
    ages.forget(ONE)
    assert ages.fragments == []
