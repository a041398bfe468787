"""Rows of `fedq cluster status`: one for each member, or one for a host whose workers are all well.

In: members as forms. Out: the rows. Workers are told by their names, NAME and
NAME.2, NAME.3 and so on, on one host (docs/adr/0098).
"""

import re
from collections.abc import Sequence
from typing import Final

from fedq.cli.asking.forms import Form, member_state
from fedq.cli.terminal.screen import Cell, word

HEADINGS: Final = ("NODE", "STATE", "ROLE", "VOTES", "AMQP", "PEER")
_WORKER: Final = re.compile(r"(?P<first>.+)\.(?:[2-9]|[1-9][0-9]+)")


def by_host(members: Sequence[Form]) -> list[list[Form]]:
    """The members, workers of one host together, the first of them first."""
    known = {(member["node"], member["host"]): member for member in members}
    groups: dict[str, list[Form]] = {}
    for member in members:
        found = _WORKER.fullmatch(member["node"])
        is_further = found is not None and (found["first"], member["host"]) in known
        name = found["first"] if found is not None and is_further else member["node"]
        groups.setdefault(name, []).append(member)
    return [sorted(group, key=_order) for group in groups.values()]


def _order(member: Form) -> tuple[int, str]:
    """Workers in the order of their numbers: the second before the tenth."""
    return len(member["node"]), member["node"]


def status_rows(members: Sequence[Form], *, unfolds: bool) -> list[Sequence[Cell]]:
    """The rows below `HEADINGS`; a host whose workers are not all up has one for each of them."""
    rows: list[Sequence[Cell]] = []
    for group in by_host(members):
        if unfolds or len(group) == 1 or any(member_state(each) != "up" for each in group):
            rows += [_member_row(each) for each in group]
        else:
            rows.append(_host_row(group))
    return rows


def _member_row(member: Form) -> Sequence[Cell]:
    return (
        member["node"], word(member_state(member)), role_of(member), word(member["role"]),
        member["amqp_address"], member["peer_address"],
    )  # fmt: skip


def _host_row(group: Sequence[Form]) -> Sequence[Cell]:
    first = group[0]
    roles = [member["figures"]["raft_role"] for member in group]
    voters = sum(member["role"] == "voter" for member in group)
    return (
        f"{first['node']} ({len(group)} workers)", word("up"),
        word("leader" if "leader" in roles else roles[0]),
        word("voter" if voters == 1 else f"{voters} voters"),
        first["amqp_address"], first["peer_address"],
    )  # fmt: skip


def role_of(member: Form) -> Cell:
    """A member's part in the log; unknown if it is up and silent, none if it is not up."""
    figures: Form | None = member["figures"]
    if figures is not None:
        return word(figures["raft_role"])
    return None if member["state"] == "up" else ""
