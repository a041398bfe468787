"""No turn is long, whatever clients send (docs/adr/0033-a-turn-has-a-budget-of-work.md)."""

import pytest

import fedq.node.node
from tests.cost.hostile import SCRIPTS, Script, count

#: Functions told of where a turn is too long.
TOLD = 12


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.name for script in SCRIPTS])
def test_no_turn_is_longer_than_its_budget_of_work(script: Script) -> None:
    if not fedq.node.node.__file__.endswith(".py"):
        pytest.skip("the instructions of compiled modules cannot be counted")
    turns = count(script)
    longest, most = turns.longest, script.instructions_max
    worst = sorted(longest, key=longest.__getitem__, reverse=True)[:TOLD]
    total = sum(longest.values())
    lines = [f"the longest of {turns.turns} turns takes {total:,} instructions, {most:,} at most:"]
    assert total <= most, "\n".join([*lines, *(f"{longest[name]:10,}  {name}" for name in worst)])
