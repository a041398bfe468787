"""Questions come in one by one, whatever comes at once."""

import asyncio
import itertools

from fedq.shell.clients.turnstile import Turnstile


async def _pass(seen: list[str], turnstile: Turnstile, name: str) -> None:
    await turnstile.enter()
    seen.append(name)


def test_between_two_questions_the_loop_looks_at_everything_else() -> None:
    async def play() -> list[str]:
        seen: list[str] = []
        turnstile = Turnstile("/peer/")
        asked = [asyncio.create_task(_pass(seen, turnstile, str(each))) for each in range(9)]
        while not all(each.done() for each in asked):
            seen.append("a client")
            await asyncio.sleep(0)
        return seen

    seen = asyncio.run(play())
    questions = [each for each in seen if each != "a client"]
    assert questions == [str(each) for each in range(9)]
    assert all("a client" in pair for pair in itertools.pairwise(seen))


def test_who_has_given_up_takes_nobodys_turn() -> None:
    async def play() -> list[str]:
        seen: list[str] = []
        turnstile = Turnstile("/peer/")
        asked = [asyncio.create_task(_pass(seen, turnstile, str(each))) for each in range(5)]
        await asyncio.sleep(0)
        for number in (0, 2, 4):
            asked[number].cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        await _pass(seen, turnstile, "later")
        return seen

    assert asyncio.run(play()) == ["1", "3", "later"]
