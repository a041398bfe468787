"""The order of rows, and their hash: what only their content decides."""

import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from fedq.pipeline.sink.encoding import Front
from fedq.pipeline.sink.ordering import ROWS_BYTES_MAX, ROWS_MAX, Rows, Sorter, by_front, pieces_of

fronts = st.builds(Front, st.sampled_from(["", "e"]), st.text(max_size=2), st.binary(max_size=2))
Row = tuple[Front, bytes]
rows = st.lists(st.tuples(fronts, st.binary(max_size=3)), max_size=30)
#: So little is kept in memory that files are used all the time.
LITTLE = 300


def sorted_by(sorter: Sorter, given_rows: Sequence[Row]) -> tuple[str, list[Row]]:
    with sorter:
        for front, body in given_rows:
            sorter.add(Rows(front, [body]))
        found = [(front, body) for front, bodies in sorter.rows() for body in bodies]
        digest = sorter.digest()
        # As often as they are wanted.
        assert [(front, body) for front, bodies in sorter.rows() for body in bodies] == found
        return digest, found


@given(rows, st.randoms(use_true_random=False))
def test_rows_in_any_order_are_the_same_rows(given_rows: list[Row], order: random.Random) -> None:
    mixed = list(given_rows)
    order.shuffle(mixed)
    digest, found = sorted_by(Sorter(), given_rows)
    assert found == sorted(given_rows)
    assert sorted_by(Sorter(), mixed) == (digest, found)
    assert sorted_by(Sorter(LITTLE), mixed) == (digest, found)


@given(rows, rows)
def test_other_rows_have_another_hash(some: list[Row], others: list[Row]) -> None:
    is_same = sorted(some) == sorted(others)
    assert (sorted_by(Sorter(), some)[0] == sorted_by(Sorter(), others)[0]) is is_same


def test_what_is_before_a_cut_and_behind_it_is_not_mixed_up() -> None:
    def digest(*given_rows: Row) -> str:
        return sorted_by(Sorter(), given_rows)[0]

    front, other = Front("", "k", b"\0\0"), Front("", "l", b"\0\0")
    assert digest((front, b"ab"), (front, b"c")) != digest((front, b"a"), (front, b"bc"))
    assert digest((front, b"a"), (other, b"b")) != digest((front, b"b"), (other, b"a"))
    assert digest((front, b"a"), (front, b"a")) != digest((front, b"a"))
    assert digest((Front("a", "b", b""), b"")) != digest((Front("ab", "", b""), b""))


def test_pieces_are_bounded() -> None:
    front = Front("", "k", b"\0\0")
    many = [b"x" * (number % 7) for number in range(3 * ROWS_MAX + 1)]
    pieces = list(pieces_of(Rows(front, many)))
    assert [body for piece in pieces for body in piece.bodies] == many
    assert all(len(piece.bodies) <= ROWS_MAX for piece in pieces)
    large = [b"x" * ROWS_BYTES_MAX] * 5
    assert [len(piece.bodies) for piece in pieces_of(Rows(front, large))] == [1] * 5


def test_neighbours_of_one_front_go_together() -> None:
    a, b = Front("", "a", b""), Front("", "b", b"")
    found = list(by_front([a, a, b, a], [b"1", b"2", b"3", b"4"]))
    assert found == [Rows(a, [b"1", b"2"]), Rows(b, [b"3"]), Rows(a, [b"4"])]
