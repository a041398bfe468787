"""Sentences about what is wrong: how they name nodes."""

import pytest

from fedq.admin.problems import names


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
