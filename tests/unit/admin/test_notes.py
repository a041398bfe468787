"""Sentences about what is no fault: what they say of who votes."""

from dataclasses import replace

import pytest

from fedq.admin.notes import find_notes
from fedq.node.views.overview_types import ClusterOverview, MemberRole, MemberState
from tests.unit.admin.served import a_member


def cluster(voters: int, down: int = 0, observers: int = 0, drained: int = 0) -> ClusterOverview:
    members = [a_member(f"n{number}") for number in range(1, voters + 1)]
    for number in range(down):
        members[number] = replace(members[number], state=MemberState.DOWN)
    for number in range(observers):
        one = replace(a_member(f"o{number + 1}"), role=MemberRole.OBSERVER)
        members.append(replace(one, drained=False) if number < drained else one)
    return ClusterOverview(1, tuple(members), 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("voters", "sentence"),
    [
        (2, "2 nodes vote, which is no safer than 1: 2 of them must be up, and no more than 0"),
        (4, "4 nodes vote, which is no safer than 3: 3 of them must be up, and no more than 1"),
    ],
)
def test_an_even_number_of_voters_is_said_to_be_no_better(voters: int, sentence: str) -> None:
    (note,) = find_notes(cluster(voters), [])
    assert note.startswith(sentence)


@pytest.mark.parametrize("voters", [1, 3, 5])
def test_of_an_odd_number_nothing_is_said(voters: int) -> None:
    assert find_notes(cluster(voters, observers=1), []) == []
    assert find_notes(cluster(voters, down=1), []) == []


def test_a_voter_that_is_away_may_be_replaced_by_an_observer_that_is_not_drained() -> None:
    (note,) = find_notes(cluster(5, down=2, observers=2, drained=1), [])
    assert note.startswith("n1 and n2 would vote and are not up: after")
    assert "o2 may vote instead" in note
    assert find_notes(cluster(5, down=1, observers=1, drained=1), []) == []
