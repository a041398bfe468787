"""Sentences about what is wrong: how they name nodes."""

import pytest

from fedq.admin.problems import find_problems, names
from fedq.core.ids import NodeId
from fedq.node.views.overview_types import ClusterOverview
from tests.unit.admin.served import a_member, a_node


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n1", "n2"], "n1 and n2"),
        (["n1", "n2", "n3"], "n1, n2 and n3"),
        ([f"n{number}" for number in range(1, 8)], "n1, n2, n3, n4, n5 and 2 more"),
    ],
)
def test_nodes_are_named_as_in_a_sentence(nodes: list[str], sentence: str) -> None:
    assert names(nodes) == sentence


def test_a_single_copy_where_more_are_wanted_is_a_problem_with_what_to_do() -> None:
    names_ = ("n1", "n2")
    (node, *_) = (a_node(name) for name in names_)
    cluster = ClusterOverview(
        1, tuple(a_member(name) for name in names_), 3, 3, 0, 0, ((NodeId("n1"), 2),)
    )
    (sentence,) = find_problems(node, cluster, [])
    assert sentence.startswith("2 of 3 queue fragments have one copy only, on n1:")
    assert "do not stop it" in sentence
