"""What is kept singly and on disk alone, against a dict and a set."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.fragments.singly.absent import Absent

POSITIONS = st.integers(1, 40)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "add", "discard", "ask"]), POSITIONS, st.integers(0, 9)),
    max_size=60,
)


@given(CHANGES, POSITIONS, POSITIONS)
def test_it_says_what_a_dict_would(
    changes: list[tuple[str, int, int]], first: int, last: int
) -> None:
    found = Absent()
    model: dict[int, bool] = {}
    asked: set[int] = set()
    for change, position, size in changes:
        if change == "add" and position not in model:
            found.add(position, size % 2 > 0)
            model[position] = size % 2 > 0
            asked.discard(position)
        elif change == "discard":
            found.discard(position)
            model.pop(position, None)
        elif change == "ask":
            found.ask(position, position + size)
            asked.update(range(position, position + size + 1))
        assert dict(found) == model
        assert list(found) == sorted(model)
        assert len(found) == len(model)
        unasked = [each for each in sorted(model) if each not in asked]
        assert found.next_unasked() == (unasked[0] if unasked else None)
        assert [p for p in model if not found.is_asked(p)] == [p for p in model if p not in asked]
        assert found.after(first) == min([p for p in model if p > first], default=None)
        assert found.within(first, last) == [p for p in sorted(model) if first <= p <= last]
