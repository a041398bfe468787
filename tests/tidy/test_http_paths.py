"""The table of paths in the documents is the API's."""

import re

from fedq.http.api.table import ROUTES
from tests.tidy.sources import ROOT

ROW = re.compile(r"^\| `(/api/[^`]*)` \| ([A-Z, ]+) \| (\w+) \|", re.MULTILINE)


def test_the_document_has_the_paths_of_today() -> None:
    document = (ROOT / "docs" / "HTTP.md").read_text("utf-8")
    written = sorted(ROW.findall(document))
    wanted = sorted(
        (route.path, ", ".join(sorted(route.methods)), route.right.name.lower()) for route in ROUTES
    )
    assert written == wanted, "\n".join(
        f"| `{path}` | {methods} | {right} |" for path, methods, right in wanted
    )
