"""Patterns of permissions against the standard library's engine, and against endless search."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.wiring.cluster_map.patterns import Pattern, PatternError

atoms = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "[ab]",
        "[^a]",
        "[a-c]",
        "(?:ab)",
        "(a|b)",
        "(a|)",
        "\\.",
        "\\d",
        "\\W",
        "^",
        "$",
    ]
)
repeats = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"])


def joined(parts: list[tuple[str, str]]) -> str:
    """Atoms with their repetitions; ends of the name are never repeated."""
    return "".join(atom if atom in "^$" else atom + repeat for atom, repeat in parts)


sequences = st.lists(st.tuples(atoms, repeats), max_size=5).map(joined)
choices = st.lists(sequences, min_size=1, max_size=3).map("|".join)
texts = st.one_of(
    sequences, choices, st.builds("({}){}{}".format, choices, repeats, sequences)
).filter(bool)
names = st.text("abc.1", max_size=8)


@given(texts, st.lists(names, min_size=1, max_size=8))
def test_it_finds_what_the_standard_library_finds(text: str, some: list[str]) -> None:
    pattern = Pattern(text)
    reference = re.compile(text.replace("$", r"\Z"))
    for name in some:
        assert pattern.matches(name) == (reference.search(name) is not None), (text, name)


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_a_pattern_or_refused(text: str, name: str) -> None:
    try:
        pattern = Pattern(text)
    except PatternError:
        return
    assert pattern.matches(name) in (True, False)


@given(st.text("ab(){}[]|*+?,0123456789^$\\-", max_size=40))
def test_any_mixture_of_signs_is_a_pattern_or_refused(text: str) -> None:
    try:
        pattern = Pattern(text)
    except PatternError:
        return
    assert pattern.matches("ab-a") in (True, False)


@pytest.mark.parametrize("text", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*)*x", "([ab]*a){10}c"])
def test_no_pattern_takes_for_ever(text: str) -> None:
    # Trying one way after the other would take longer than the sun has left.
    assert not Pattern(text).matches("a" * 254 + "!")
