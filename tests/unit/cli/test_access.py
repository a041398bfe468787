"""`fedq user`, `fedq vhost` and `fedq permission` against a real admin service."""

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from fedq.cli.commands import app
from fedq.wiring.cluster_map.operations_access import AddVhost
from fedq.wiring.cluster_map.passwords import verify
from tests.unit.admin.served import Served, a_cluster, served
from tests.unit.cli.command import Outcome, fedq


@pytest.fixture
def servers() -> Iterator[Served]:
    with served(a_cluster(["n1"])) as one:
        yield one


def run(servers: Served, *arguments: str) -> Outcome:
    return fedq(*arguments, "--node", servers.address("n1"))


def test_a_user_from_the_first_to_the_last_day(servers: Served) -> None:
    added = run(servers, "user", "add", "ann", "--password", "geheim", "--tag", "a", "--tag", "b")
    assert (added.exit_code, added.out) == (0, "user ann added\n")
    assert verify(servers.shared.map.users["ann"].password, "geheim")
    twice = run(servers, "user", "add", "ann", "--password", "geheim")
    assert twice.exit_code == 1
    assert twice.sentence == "user 'ann' already exists"
    assert run(servers, "user", "set-tags", "ann", "c").out == "tags of user ann: c\n"
    run(servers, "user", "change-password", "ann", "--password", "other")
    assert run(servers, "user", "authenticate", "ann", "--password", "other").exit_code == 0
    wrong = run(servers, "user", "authenticate", "ann", "--password", "geheim")
    assert wrong.exit_code == 1
    assert wrong.sentence == "there is no user 'ann' with that password"
    run(servers, "user", "add", "tls", "--no-password")
    assert run(servers, "user", "list").rows("NAME") == [
        ["ann", "password", "c"], ["tls", "certificate"],
    ]  # fmt: skip
    assert run(servers, "user", "list", "--json").value == {
        "users": [
            {"name": "ann", "tags": ["c"], "password": True},
            {"name": "tls", "tags": [], "password": False},
        ]
    }
    assert run(servers, "user", "delete", "ann", "--json").value == {"user": "ann"}
    assert list(servers.shared.map.users) == ["tls"]


def test_a_password_comes_from_stdin_and_is_nowhere_seen(servers: Served) -> None:
    command = ["user", "add", "ann", "--password-stdin", "--node", servers.address("n1")]
    done = CliRunner().invoke(app, command, input="geheim\nmore\n")
    assert done.exit_code == 0
    assert "geheim" not in done.output
    assert verify(servers.shared.map.users["ann"].password, "geheim")


def test_without_a_password_or_anybody_to_ask_nothing_is_done(servers: Served) -> None:
    for options, why in (
        ((), "no password"),
        (("--password", ""), "the password is empty"),
        (("--password", "x", "--password-stdin"), "exclude each other"),
    ):
        done = run(servers, "user", "add", "ann", *options)
        assert done.exit_code == 2
        assert why in done.sentence
    assert servers.shared.map.users == {}


def test_virtual_hosts(servers: Served) -> None:
    assert run(servers, "vhost", "add", "shop").out == "vhost shop added\n"
    assert run(servers, "vhost", "add", "shop").out == "vhost shop was there already\n"
    assert run(servers, "vhost", "list").rows("NAME") == [
        ["/", "0", "6", "0"],
        ["shop", "0", "6", "0"],
    ]
    assert run(servers, "vhost", "delete", "shop").exit_code == 0
    gone = run(servers, "vhost", "delete", "shop")
    assert (gone.exit_code, gone.sentence) == (1, "virtual host 'shop' does not exist")
    assert run(servers, "vhost", "list", "--json").value == {
        "vhosts": [{"name": "/", "queues": 0, "exchanges": 6, "users": 0}]
    }


def test_permissions(servers: Served) -> None:
    run(servers, "user", "add", "ann", "--no-password")
    done = run(servers, "permission", "set", "ann", "^ann-", ".*", "")
    assert done.out == "permissions of ann in vhost / set\n"
    listed = {"user": "ann", "vhost": "/", "configure": "^ann-", "write": ".*", "read": ""}
    assert run(servers, "permission", "list", "--json").value == {"permissions": [listed]}
    assert run(servers, "permission", "list").rows("USER") == [["ann", "/", "^ann-", ".*"]]
    assert run(servers, "permission", "list", "--user", "ben", "--json").value == {
        "permissions": []
    }
    bad = run(servers, "permission", "set", "ann", "(", ".*", ".*")
    assert bad.exit_code == 2
    assert "the configure pattern is no regular expression" in bad.sentence
    assert run(servers, "permission", "clear", "ann").exit_code == 0
    assert run(servers, "permission", "clear", "ben").exit_code == 1
    assert servers.shared.map.grants == {}


def test_limits(servers: Served) -> None:
    servers.shared.ask(AddVhost("shop"), lambda _: None)
    set_both = ("set-limits", "shop", "--max-connections", "10", "--max-queues", "0")
    assert run(servers, "vhost", *set_both).out == (
        "limits of vhost shop: max-connections 10, max-queues 0\n"
    )
    assert run(servers, "vhost", "limits").rows("NAME") == [["shop", "10", "0"]]
    assert run(servers, "user", "limits").rows("NAME") == []
    ended = run(servers, "vhost", "set-limits", "shop", "--max-queues", "5", "--json")
    assert ended.value == {"vhost": "shop", "limits": {"max-queues": 5}}
    assert run(servers, "vhost", "limits").rows("NAME") == [["shop", "-", "5"]]
    assert run(servers, "vhost", "set-limits", "shop").out == "limits of vhost shop: none\n"
    assert run(servers, "vhost", "limits", "--json").value == {"limits": []}
    nobody = run(servers, "user", "set-limits", "ann", "--max-channels", "1")
    assert (nobody.exit_code, nobody.sentence) == (1, "user 'ann' does not exist")
    assert run(servers, "user", "set-limits", "ann", "--max-channels", "-1").exit_code == 2
