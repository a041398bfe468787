"""The files of the web page, read once, and answered with headers that leave no room for others.

In: a request for `/` or `/page/NAME`. Out: a file, as it is in the package. Nobody logs in for
them: what they show comes from the API, as the user who logs in there. No path of the disk is made
of a request: there are so many files, and their names are looked up.
"""

from importlib import resources
from typing import Final

from fedq.http.refusal import HttpRefusal, not_there
from fedq.http.serving.exchange import Answer, Request

_KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
#: Only what this port serves runs, is shown or is spoken to; and no other site frames it.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for "
    "'script'; trusted-types 'none'"
)
HEADERS: Final = (
    ("content-security-policy", _POLICY),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
)
_FIRST: Final = "index.html"


class Files:
    """All files of the page."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: dict[str, Answer] = {}
        for each in (resources.files(__package__) / "assets").iterdir():
            kind = _KINDS.get(each.name.rpartition(".")[2])
            if kind is not None:
                self._files[each.name] = Answer(body=each.read_bytes(), kind=kind, headers=HEADERS)

    @property
    def names(self) -> list[str]:
        """The names of the files, in order."""
        return sorted(self._files)

    def answer(self, request: Request) -> Answer:
        """The file that is asked for; raises `HttpRefusal`."""
        segments = request.segments
        name = ""
        if segments == ("",):
            name = _FIRST
        elif len(segments) == 2 and segments[0] == "page" and segments[1] != _FIRST:
            name = segments[1]
        found = self._files.get(name)
        if found is None:
            raise not_there()
        if request.method not in ("GET", "HEAD"):
            headers = (("allow", "GET, HEAD"),)
            raise HttpRefusal(405, "method_not_allowed", "a page is only read", headers)
        return found
