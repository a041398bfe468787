"""What jobs leave for people and for scripts beside their tables: a page, and a JSON value."""

from pathlib import Path
from typing import Any, Final

import orjson

from fedq.pipeline.pages.numbers import moment
from fedq.pipeline.pages.page import Page, html_of
from fedq.shell.disk.durable_files import replace_durably

PAGE: Final = "index.html"
RESULT: Final = "result.json"


def write_page(path: Path, page: Page) -> None:
    """Writes a page in place of an older one."""
    replace_durably(path, html_of(page).encode())


def write_result(path: Path, form: dict[str, Any]) -> None:
    """Writes what a job found out."""
    replace_durably(path, orjson.dumps(form, option=orjson.OPT_INDENT_2) + b"\n")


def foot_of(job: str, now_s: float) -> str:
    """What made a page, and when."""
    return f"Made by `fedq pipeline {job}` at {moment(now_s)}."
