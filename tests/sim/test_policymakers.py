"""Policies that come and go in simulated histories, with and without faults."""

import pytest

from tests.sim.policymakers import PolicedRun


@pytest.mark.parametrize(("seed", "lite"), [(1, True), (2, True), (1_001, False), (1_002, False)])
def test_promises_hold_while_policies_come_and_go(seed: int, lite: bool) -> None:
    run = PolicedRun(seed, lite)
    run.go()
    assert not run.ledger.problems, f"seed {seed}: {run.ledger.problems}"
    assert run.policymaker.made
