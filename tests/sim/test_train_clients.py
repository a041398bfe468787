"""A client of the simulator that declares and deletes many queues in one write."""

from dataclasses import replace

import pytest

from fedq.amqp.methods import QueueDeclare, QueueDeclareOk, QueueDelete
from tests.sim.actors import ClosedError
from tests.sim.client_connection import Refusal
from tests.sim.run import Run
from tests.sim.swarm import plan_of
from tests.sim.train_clients import Step, TrainClient
from tests.sim.world import Trace


def run_of(seed: int, lite: bool) -> Run:
    plan = replace(plan_of(seed, lite=lite, no_changes=True), trains=20)
    return Run(plan, Trace(echo=False, digest=False))


def trains_of(run: Run) -> TrainClient:
    assert run.trains is not None
    return run.trains


@pytest.mark.parametrize(("seed", "lite"), [(1, True), (912_004, False)])
def test_trains_are_answered_in_order_and_known_everywhere(seed: int, lite: bool) -> None:
    run = run_of(seed, lite)
    run.go()
    assert run.ledger.problems == []
    assert trains_of(run).ended > trains_of(run).refused > 0


def test_what_is_answered_in_the_wrong_place_is_a_problem() -> None:
    run = run_of(1, True)
    client = trains_of(run)
    steps: list[Step] = [(QueueDeclare("a"), QueueDeclareOk("a", 0, 0)), (QueueDeclare("a"), None)]
    refused = ClosedError(Refusal(406, "PRECONDITION_FAILED"))
    client.on_other(1, QueueDeclareOk("a", 0, 0))
    assert client.is_refused_in_place(steps, refused)
    assert run.ledger.problems == []
    assert not client.is_refused_in_place([(QueueDelete("a"), None), *steps], refused)
    assert len(run.ledger.problems) == 1
