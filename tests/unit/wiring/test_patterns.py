"""What patterns of permissions mean, and which are refused."""

import pytest

from fedq.core import limits
from fedq.wiring.patterns import EVERYTHING, Pattern, PatternError, compile_text


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("", [""], ["a"]),
        ("orders", ["orders", "my-orders-2"], ["order"]),
        ("^orders$", ["orders"], ["orders2", "orders\n"]),
        (r"^orders\..*", ["orders.eu"], ["orders", "ordersxeu"]),
        (r"^(amq\.gen.*|amq\.default)$", ["amq.gen-x", "amq.default"], ["amq.topic"]),
        ("^[a-z0-9_-]{2,4}$", ["a-9", "ab"], ["a", "abcde", "AB"]),
        (r"^\w+\x2e[^.\s]+$", ["a.b"], ["a.b.c", "a. "]),
        ("^a{2}$", ["aa"], ["a", "aaa"]),
        ("{}", ["{}"], ["a"]),
        (r"\Aab\z", ["ab"], ["abc"]),
        ("^[]x-]$", ["]", "x", "-"], ["y"]),
    ],
)
def test_patterns_mean_what_administrators_expect(text: str, yes: list[str], no: list[str]) -> None:
    pattern = Pattern(text)
    assert [name for name in yes if not pattern.matches(name)] == []
    assert [name for name in no if pattern.matches(name)] == []


def test_what_matches_every_name_needs_no_look() -> None:
    assert compile_text(".*") is compile_text("^.*$") is EVERYTHING
    assert EVERYTHING.matches("anything")
    assert compile_text(".+") is not EVERYTHING


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "a group is not closed at character 2"),
        (")", "a ) closes no group"),
        ("[a", "a [ is not closed"),
        ("*", "nothing to repeat"),
        ("a**", "a repetition is repeated"),
        ("a{3,2}", "ends before it begins"),
        ("[z-a]", "ends before it begins"),
        ("a\\", "nothing follows the backslash"),
        ("(?=a)", "(? are not supported"),
        ("(a)\\1", "\\1 is not supported"),
        ("a++", "possessive"),
        ("^*", "cannot be repeated"),
        ("[[:alpha:]]", "named classes"),
        ("a{1001}", "more than 1000 repetitions"),
        ("(" * 51 + ")" * 51, "nested deeper than 50"),
        ("((a{99}){99}){99}", "more than 1000 steps"),
        ("((){999}){999}", "more than 1000 steps"),
        ("x" * (limits.pattern_bytes_max + 1), "longer than 1024 bytes"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(PatternError) as refused:
        Pattern(text)
    assert why in str(refused.value)
