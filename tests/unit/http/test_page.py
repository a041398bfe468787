"""The files of the web page: which there are, and what their headers forbid."""

import re
from pathlib import Path

import pytest

from fedq.http import page
from fedq.http.page.files import Files
from fedq.http.refusal import HttpRefusal
from fedq.http.serving.exchange import Request
from tests.unit.http.test_exchange import a_request
from tests.unit.http.test_reading import asked as asked
from tests.unit.http.tool import Tool

ASSETS = Path(page.__file__).parent / "assets"
FILES = Files()


def answered(path: bytes, method: str = "GET") -> bytes:
    """The body of a file."""
    request = a_request(path)
    request.method = method
    return FILES.answer(request).body


def test_the_page_is_at_the_root_and_all_that_it_names_is_there() -> None:
    first = answered(b"/").decode()
    named = re.findall(r'(?:src|href)="(/[^"]*)"', first)
    texts = [answered(f"/page/{name}".encode()).decode() for name in FILES.names if "js" in name]
    named += [name for text in texts for name in re.findall(r'from "([^"]*)"', text)]
    assert len(named) > 20
    assert all(answered(name.encode()) for name in named)
    assert sorted(each.name for each in ASSETS.iterdir()) == FILES.names


@pytest.mark.parametrize(
    "path",
    [
        b"/page", b"/page/", b"/page/index.html", b"/page/../app.js", b"/page/%2e%2e/files.py",
        b"/page/..%2ffiles.py", b"/page/files.py", b"/page/app.js/x", b"/page/app.js%00",
        b"//page/app.js", b"/PAGE/app.js", b"/etc/passwd", b"/page/%2fetc%2fpasswd", b"/index.html",
        b"/page/app.js%0d%0aset-cookie:x=1",
    ],
)  # fmt: skip
def test_nothing_else_is_there(path: bytes) -> None:
    with pytest.raises(HttpRefusal) as refused:
        answered(path)
    assert refused.value.status == 404


def test_a_page_is_only_read() -> None:
    with pytest.raises(HttpRefusal) as refused:
        answered(b"/", "POST")
    assert refused.value.status == 405


def test_headers_let_nothing_else_run_or_frame_it() -> None:
    headers = dict(FILES.answer(a_get(b"/page/app.js")).headers)
    policy = headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"


def a_get(path: bytes) -> Request:
    """A request that reads."""
    request = a_request(path)
    request.method = "GET"
    return request


def test_what_others_named_never_becomes_markup() -> None:
    markup = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser"
    )
    for each in ASSETS.glob("*.js"):
        assert not markup.search(each.read_text("utf-8")), each.name
    first = (ASSETS / "index.html").read_text("utf-8")
    assert not re.search(r"<script(?![^>]* src=)|\son\w+=|\sstyle=|javascript:", first)
    assert "//" not in re.sub(r"<!.*?>", "", first), "nothing of other hosts"


def test_the_status_is_for_those_who_see_all(asked: Tool) -> None:
    assert asked.ask("fedq/status", "manager")[0] == 401
    status, found = asked.ask("fedq/status", "monitor")
    assert status == 200
    assert (found["node"], found["leader"], found["problems"]) == ("n1", "n1", [])


def test_a_queue_shows_where_its_parts_are(asked: Tool) -> None:
    _, found = asked.ask("queues/other/a%2Fb")
    assert [(each["primary"], each["ready"]) for each in found["fedq_fragment_details"]] == [
        ("n1", 2), ("n3", 3),
    ]  # fmt: skip
