"""What a replay publishes, and how far it is, without Spark and without a broker."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedq.pipeline.failure import OptionError, PipelineError
from fedq.pipeline.jobs.replay.page import page_of
from fedq.pipeline.jobs.replay.selection import (
    Done,
    Place,
    Selection,
    begin,
    pattern_of,
    save,
)
from fedq.pipeline.pages.page import html_of
from fedq.wiring.routing.topics import TopicTrie

WANTED = Selection("/archive", "events", None, "#", "", "", "amqp://host:5672/")

word = st.sampled_from(["a", "b", "", "a$", "\n", "ä", "*", "#"])
plain = st.sampled_from(["a", "b", "", "a$", "\n", "ä"])


@example([""], [""])
@example(["", "#"], [""])
@given(st.lists(word, min_size=1, max_size=4), st.lists(plain, min_size=1, max_size=4))
def test_patterns_mean_what_they_mean_in_bindings(pattern: list[str], key: list[str]) -> None:
    trie = TopicTrie()
    trie.add(".".join(pattern).encode(), 1)
    matches = bool(trie.match(".".join(key).encode()))
    words = "." + ".".join(key) if ".".join(key) else ""
    found = re.search(pattern_of(".".join(pattern)), words)
    assert bool(found) == matches


def test_a_pattern_has_a_length() -> None:
    with pytest.raises(OptionError, match="at most 255 bytes"):
        pattern_of("a" * 256)


def test_a_replay_goes_on_with_its_name_and_its_rows(tmp_path: Path) -> None:
    made, done = begin(tmp_path, WANTED, {1: 9, 0: 4})
    assert made.publisher.startswith("fedq-replay-")
    assert (made.through, done) == (((0, 4), (1, 9)), Done())
    far = Done(7, Place("day=2026-11-26/hour=09", 5, 1, 3), 2, ("a", "b"))
    save(tmp_path, far)
    # What the archive got meanwhile is not of this replay.
    assert begin(tmp_path, WANTED, {0: 400}) == (made, far)


def test_a_directory_is_of_one_replay(tmp_path: Path) -> None:
    begin(tmp_path, WANTED, {})
    with pytest.raises(OptionError, match=r"a replay with keys '#', not 'a\.#'"):
        begin(tmp_path, replace(WANTED, keys="a.#"), {})
    (tmp_path / "progress.json").write_text("{}")
    with pytest.raises(PipelineError, match="is damaged"):
        begin(tmp_path, WANTED, {})
    (tmp_path / "selection.json").write_text('{"archive": 1}')
    with pytest.raises(PipelineError, match="is damaged"):
        begin(tmp_path, WANTED, {})


def test_places_are_in_the_order_of_a_replay() -> None:
    places = [Place(), Place("day=1", 5, 0, 9), Place("day=1", 5, 1, 2), Place("day=2", 1, 0, 1)]
    assert sorted([places[2], places[0], places[3], places[1]]) == places


def test_the_page_says_what_reached_nobody() -> None:
    done = Done(9, Place("day=2026-11-26/hour=09", 5, 1, 3), 2, ("a.<b>",), True)
    found = html_of(page_of(WANTED, done, 0.0))
    assert "reached none: 2" in found
    assert "a.&lt;b&gt;" in found
    assert "none yet" in html_of(page_of(WANTED, Done(), 0.0))
