"""The short attacks, as a part of every test run; `python -m tests.attacks` has all."""

import pytest

from tests.attacks.__main__ import all_attacks
from tests.attacks.stage import Attack, play

pytestmark = pytest.mark.slow

QUICK = [each for each in all_attacks() if each.is_quick]


@pytest.mark.parametrize("attack", QUICK, ids=lambda attack: str(attack.name))
def test_nobody_else_notices_much(attack: Attack) -> None:
    assert not play(attack).problems
