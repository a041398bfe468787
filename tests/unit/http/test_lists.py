"""Long lists: what is gathered for a page, and that nothing about them is one long step."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from fedq.http.api import lists, slices
from fedq.http.api.lists import Listing, list_answer, of_rows
from fedq.http.api.slices import in_order, matching
from fedq.http.refusal import HttpRefusal
from fedq.http.serving.exchange import Answer, Row


class Numbers:
    """Names of which rows are gathered, and which were."""

    def __init__(self, count: int) -> None:
        self.gathered: list[int] = []
        numbers = list(range(count))
        random.Random(1).shuffle(numbers)
        self.listing = Listing(
            numbers, self._rows, lambda each: f"q{each}", lambda each: (each,),
            {"name": lambda each: f"q{each:06}"},
        )  # fmt: skip

    async def _rows(self, part: Sequence[int]) -> list[Row]:
        self.gathered += part
        return [{"name": f"q{each}", "messages": -each} for each in part if each != 3]

    def ask(self, **query: str) -> Any:
        """The JSON of the answer."""
        return orjson.loads(asyncio.run(self._body(query)))

    async def _body(self, query: dict[str, str]) -> bytes:
        answer: Answer = await list_answer(self.listing, query)
        if answer.parts is None:
            return answer.body
        return b"".join([part async for part in answer.parts])


@pytest.mark.parametrize(
    ("query", "first", "filtered"),
    [
        ({}, "q500", 5_000), ({"sort": "name"}, "q500", 5_000),
        ({"sort": "name", "sort_reverse": "true"}, "q4499", 5_000),
        ({"name": "Q49"}, None, 111), ({"name": "^q4[0-9]*9$", "use_regex": "true"}, None, 111),
    ],
)  # fmt: skip
def test_a_page_is_chosen_before_it_is_gathered(
    query: dict[str, str], first: str | None, filtered: int
) -> None:
    numbers = Numbers(5_000)
    found = numbers.ask(page="2" if first else "1", page_size="500", **query)
    assert (found["total_count"], found["filtered_count"]) == (5_000, filtered)
    assert len(numbers.gathered) <= 500
    assert first in (None, found["items"][0]["name"])


def test_all_rows_come_in_parts_and_in_order() -> None:
    found = Numbers(2_101).ask()
    assert [each["name"] for each in found] == [f"q{each}" for each in range(2_101) if each != 3]


def test_sorting_by_a_figure_gathers_all_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = Numbers(1_000)
    found = numbers.ask(page="1", page_size="2", sort="messages")
    assert [each["name"] for each in found["items"]] == ["q999", "q998"]
    monkeypatch.setattr(lists, "HTTP_ROWS_SORTED_MAX", 999)
    with pytest.raises(HttpRefusal, match="at most 999 are sorted by this column") as no:
        numbers.ask(page="1", sort="messages")
    assert no.value.status == 400


def test_more_than_a_list_may_have_is_refused_before_any_is_gathered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lists, "HTTP_ROWS_MAX", 10)
    numbers = Numbers(11)
    with pytest.raises(HttpRefusal, match="more than 10 of them; ask for pages"):
        numbers.ask()
    assert not numbers.gathered
    assert numbers.ask(page="1", page_size="5")["total_count"] == 11


def test_order_is_that_of_a_sort_and_equals_stay_as_they_came() -> None:
    drawn = random.Random(2)
    things = [(drawn.randrange(50), number) for number in range(9_001)]
    found = asyncio.run(in_order(things, lambda each: each[:1]))
    assert found == sorted(things, key=lambda each: each[0])
    assert asyncio.run(in_order([], lambda each: each)) == []


def test_others_go_on_while_a_long_list_is_put_in_order() -> None:
    async def ticks() -> int:
        task = asyncio.ensure_future(in_order(list(range(20_000, 0, -1)), lambda each: (each,)))
        count = 0
        while not task.done():
            count += 1
            await asyncio.sleep(0)
        return count

    assert asyncio.run(ticks()) > 40


def test_a_pattern_that_takes_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Thread:
        """A clock that each look moves on by a second."""

        now_s = 0.0

        def thread_time(self) -> float:
            self.now_s += 1.0
            return self.now_s

    monkeypatch.setattr(slices, "time", Thread())
    with pytest.raises(HttpRefusal, match="this pattern takes longer than 2000 ms on 500 names"):
        asyncio.run(matching(["name"] * 500, lambda each: True))


def test_rows_of_mixed_types_have_an_order() -> None:
    rows: list[Row] = [{"a": "x"}, {"a": 2}, {}, {"a": True}, {"a": 1.5}, {"a": None}]
    answer = asyncio.run(list_answer(of_rows(rows), {"sort": "a"}))
    assert orjson.loads(answer.body) == [
        {"a": 1.5}, {"a": 2}, {"a": True}, {"a": "x"}, {}, {"a": None},
    ]  # fmt: skip
