"""Checks of health that depend on the other members."""

from fedq.node.views.overview_types import MemberState
from tests.unit.admin.served import a_cluster, set_member
from tests.unit.http.tool import tool


def test_a_node_without_which_there_is_no_majority_is_critical() -> None:
    cluster = a_cluster()
    set_member(cluster, "n3", state=MemberState.DOWN)
    with tool(cluster) as asked:
        status, said = asked.ask("health/checks/node-is-quorum-critical")
        assert (status, said["status"]) == (503, "failed")
        rows = {row["name"]: row["running"] for row in asked.ask("nodes")[1]}
        assert rows == {"n1": True, "n2": True, "n3": False}
