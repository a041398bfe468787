"""What patterns of permissions mean, and which are refused."""

import sys
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from fedq.core import limits
from fedq.wiring.cluster_map.pattern_parser import Characters, one_of
from fedq.wiring.cluster_map.patterns import EVERYTHING, Pattern, PatternError, compile_text

if TYPE_CHECKING:
    from _typeshed import TraceFunction


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
        ("x" * (limits.PATTERN_BYTES_MAX + 1), "longer than 1024 bytes"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(PatternError) as refused:
        Pattern(text)
    assert why in str(refused.value)


def test_many_ranges_cost_no_more_than_one() -> None:
    """The lines that are run are counted: once for each range, a name took seconds."""
    # Every second character: ranges that cannot be merged.
    apart = "".join(chr(256 + 4 * n) + "-" + chr(257 + 4 * n) for n in range(130))
    hostile, plain = Pattern(f"([{apart}]?){{240}}x"), Pattern("([a]?){240}x")
    name = chr(256 + 4 * 129) * 40
    assert lines_of(hostile, name) < 2 * lines_of(plain, "a" * 40)


def test_ranges_that_overlap_are_merged() -> None:
    assert one_of([Characters("c", (("a", "f"), ("d", "k"), ("l", "m")))]).cuts == (97, 110)
    assert one_of([Characters("", (("\0", chr(0x10FFFF)),))], negated=True).cuts == ()
    assert one_of([Characters("", (("\0", "a"),), negated=True)]).cuts == (98, 0x110000)
    assert one_of([], negated=True).cuts == (0, 0x110000)


def lines_of(pattern: Pattern, name: str) -> int:
    """How many lines of Python matching takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> "TraceFunction":
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        pattern.matches(name)
    finally:
        sys.settrace(before)
    return count
