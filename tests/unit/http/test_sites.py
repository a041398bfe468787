"""Pages of other sites: a browser sends them the user's password, and they change nothing."""

from collections.abc import Iterator

import pytest

from tests.unit.admin.served import a_cluster
from tests.unit.http.tool import Tool
from tests.unit.http.tool import tool as served_tool


@pytest.fixture
def tool() -> Iterator[Tool]:
    with served_tool(a_cluster()) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"origin", b"https://example.com"),
        (b"origin", b"null"),
        (b"origin", b"https://127.0.0.1:1234"),
        (b"sec-fetch-site", b"cross-site"),
        (b"sec-fetch-site", b"same-site"),
    ],
)
def test_another_site_changes_nothing(tool: Tool, name: bytes, value: bytes) -> None:
    answer = tool.answer("vhosts/new", "admin", "PUT", {}, headers=[(name, value)])
    assert answer.status == 401
    assert "new" not in [each["name"] for each in tool.ask("vhosts")[1]]


@pytest.mark.parametrize(
    ("name", "value"),
    [(b"origin", b"https://127.0.0.1:15672"), (b"sec-fetch-site", b"same-origin")],
)
def test_this_site_and_tools_may(tool: Tool, name: bytes, value: bytes) -> None:
    answer = tool.answer("vhosts/new", "admin", "PUT", {}, headers=[(name, value)])
    assert answer.status == 201


def test_a_queue_has_a_name(tool: Tool) -> None:
    """Before, each such request made another one."""
    assert tool.answer("queues/%2F//", "admin", "PUT", {}).status == 404
