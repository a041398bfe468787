"""Questions to the node's loop: paced by what they took, and refused where nobody answers."""

import asyncio
import itertools
import time

import pytest

from fedq.admin.refusal import not_found
from fedq.http import questions
from fedq.http.bounds import HTTP_NODE_PAUSE_MS, HTTP_QUESTIONS_MAX
from fedq.http.questions import NodeLoop
from fedq.http.refusal import HttpRefusal


class Thread:
    """A clock of a thread that each question moves on by so much."""

    def __init__(self, step_s: float) -> None:
        steps = itertools.count()
        self.thread_time = lambda: next(steps) * step_s
        self.monotonic = time.monotonic


def test_what_a_question_took_is_paid_off_before_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(questions, "time", Thread(0.1))

    async def ask() -> float:
        node = NodeLoop(asyncio.get_running_loop())
        await node.look(lambda: None)
        ended_s = time.monotonic()
        await node.look(lambda: None)
        return time.monotonic() - ended_s

    assert asyncio.run(ask()) >= 0.25, "a tenth of a second costs three tenths"


def test_one_that_took_long_is_not_paid_off_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "time", Thread(3_600.0))

    async def ask() -> None:
        node = NodeLoop(asyncio.get_running_loop())
        async with asyncio.timeout(20 + 3 * HTTP_NODE_PAUSE_MS / 1_000):
            for _ in range(2):
                await node.look(lambda: None)

    asyncio.run(ask())


def test_few_are_under_way_at_a_time() -> None:
    async def ask() -> int:
        node, under_way, most = NodeLoop(asyncio.get_running_loop()), 0, 0

        async def question() -> None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1

        await asyncio.gather(*(node.ask(question) for _ in range(20)))
        return most

    assert 1 <= asyncio.run(ask()) <= HTTP_QUESTIONS_MAX


def test_a_refusal_of_the_admin_service_is_one_of_http() -> None:
    async def ask() -> None:
        async def question() -> None:
            raise not_found("no such thing")

        with pytest.raises(HttpRefusal, match="no such thing") as refused:
            await NodeLoop(asyncio.get_running_loop()).ask(question)
        assert refused.value.status == 404

    asyncio.run(ask())


def test_a_node_that_has_stopped_is_unavailable() -> None:
    gone = asyncio.new_event_loop()
    gone.close()

    async def ask() -> None:
        with pytest.raises(HttpRefusal) as refused:
            await NodeLoop(gone).look(lambda: None)
        assert refused.value.status == 503

    asyncio.run(ask())


def test_changes_that_wait_for_a_quorum_leave_questions_be() -> None:
    async def ask() -> int:
        node = NodeLoop(asyncio.get_running_loop())
        waits = [asyncio.ensure_future(node.change(asyncio.Event().wait)) for _ in range(9)]
        async with asyncio.timeout(20):
            found = await node.look(lambda: 7)
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        return found

    assert asyncio.run(ask()) == 7
