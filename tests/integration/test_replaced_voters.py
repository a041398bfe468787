"""Voters that do not come are replaced by an observer, in real processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.harness import Cluster
from tests.integration.newcomers import newcomer
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]

WITHIN_S = 60.0
TIMING = {"lease_ms": 2_000, "suspect_ms": 5_000, "replace_voter_ms": 1_000}


class Half(Cluster):
    """Five nodes by their configurations, two of which never come."""

    def start_all(self) -> None:
        """Starts three of them, and waits until the first one serves."""
        for name in ("n1", "n2", "n3"):
            self.nodes[name].start()
        self.wait_served("n1", WITHIN_S)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    names = ("n1", "n2", "n3", "n4", "n5")
    with Half(tmp_path, names, more={"timing": TIMING}) as running:
        yield running


def test_of_five_voters_one_that_never_came_is_replaced_by_a_node_that_joins(
    cluster: Cluster,
) -> None:
    observer = newcomer(cluster, "n6", "n1", {"timing": TIMING})
    observer.start()
    cluster.wait_served(observer.name, WITHIN_S)
    # n4 and n5 never came up; there is one observer.
    until("it votes", lambda: roles(cluster)[observer.name] == "voter", WITHIN_S)
    until("n4 does not", lambda: roles(cluster)["n4"] != "voter", WITHIN_S)
    assert roles(cluster)["n5"] == "voter"
    # Without n1 three of five voters are left; of those before they would be two.
    cluster.kill("n1")
    until("one of three of five leads", lambda: leader(cluster) in ("n2", "n3", "n6"), WITHIN_S)


def roles(cluster: Cluster) -> dict[str, str]:
    members = cluster.ask("cluster", "status", node="n2")["members"]
    return {str(each["node"]): str(each["role"]) for each in members}


def leader(cluster: Cluster) -> str | None:
    found = cluster.ask("cluster", "status", node="n2")["leader"]
    return None if found is None else str(found)
