"""kill -9 under load: nothing confirmed is lost, and the others serve on.

The publishers and consumers are the demo's: stock clients in processes of their own that write
down what happened to them. How long the pauses were is reported, and bounded only loosely: a
shared test machine is no place to measure.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from demo.scenario import QUEUE, Scenario
from tests.integration.harness import Cluster

pytestmark = pytest.mark.slow

PAUSE_MS_MAX = 10_000
RATE = 300.0


def primary(cluster: Cluster) -> str:
    """The node that serves the queue."""
    return cluster.primary_of(QUEUE)


def backup(cluster: Cluster) -> str:
    """A node that holds the queue's copy."""
    return str(cluster.fragments(QUEUE)[0]["backups"][0])


def leader(cluster: Cluster) -> str:
    """The node that leads the cluster map."""
    return cluster.leader()


def bystander(cluster: Cluster) -> str:
    """The node that holds nothing of the queue."""
    fragment = cluster.fragments(QUEUE)[0]
    holders = {fragment["primary"], *fragment["backups"]}
    return next(name for name in cluster.nodes if name not in holders)


@pytest.mark.patience(150)
@pytest.mark.parametrize("role", [primary, backup, leader, bystander])
def test_no_confirmed_message_is_lost(
    role: Callable[[Cluster], str], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with Scenario(tmp_path, Console(highlight=False), RATE, publishers=3) as scenario:
        scenario.play(1.0)
        with scenario.killed(role(scenario.cluster)):
            scenario.play(1.0)
        scenario.play(0.5)
        verdict = scenario.finish()
    record_property("pause_ms", scenario.kills[0].pause.length_ms)
    scenario.account.verdict(verdict)
    assert verdict.lost == []
    assert verdict.duplicates_unflagged == 0
    assert verdict.confirmed == verdict.published > 300
    assert scenario.kills[0].pause.length_ms < PAUSE_MS_MAX


@pytest.mark.patience(150)
def test_a_queue_in_fragments_loses_nothing_either(tmp_path: Path) -> None:
    arguments: dict[str, object] = {"x-fedq-fragments": 3}
    console = Console(highlight=False)
    with Scenario(tmp_path, console, RATE, publishers=3, arguments=arguments) as scenario:
        scenario.play(1.0)
        with scenario.killed("b"):
            scenario.play(1.0)
        verdict = scenario.finish()
    scenario.account.verdict(verdict)
    assert (verdict.lost, verdict.duplicates_unflagged) == ([], 0)
    assert verdict.confirmed == verdict.published
