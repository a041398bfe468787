"""A page: a title, what counts as large numbers, sections with charts and the tables behind them.

Inputs: text and charts (`fedq.pipeline.pages.charts`). Output: one HTML document without script and
without anything from elsewhere, as its own policy says. Text from outside is always escaped; what a
reader's browser may do with it is nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from fedq.pipeline.pages.style import STYLE

#: Rows of a table that a page shows; the rest is in the job's files.
ROWS_MAX: Final = 2_000
Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with headings; those of columns of numbers begin with `#`."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: what it shows, a chart, and its numbers."""

    title: str
    text: str = ""
    #: SVG, or "".
    chart: str = ""
    table: Table | None = None
    #: Whether the table is shown at once.
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A large number, what it is, and whether it is well: None where that is no question."""

    value: str
    name: str
    is_well: bool | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """All of it."""

    title: str
    text: str
    facts: Sequence[Fact]
    sections: Sequence[Section]
    #: What made it, and when.
    foot: str


def html_of(page: Page) -> str:
    """The document."""
    facts = "".join(_fact(each) for each in page.facts)
    sections = "".join(_section(each) for each in page.sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(page.title)}</title>\n<style>{STYLE}</style></head>\n"
        f"<body><main><h1>{escape(page.title)}</h1><p>{escape(page.text)}</p>\n"
        f'<div class="facts">{facts}</div>\n{sections}'
        f"<footer>{escape(page.foot)}</footer></main></body></html>\n"
    )


def _fact(fact: Fact) -> str:
    state = {None: "", True: " well", False: " wrong"}[fact.is_well]
    said = f"<b>{escape(fact.value)}</b><span>{escape(fact.name)}</span>"
    return f'<div class="fact{state}">{said}</div>'


def _section(section: Section) -> str:
    text = f"<p>{escape(section.text)}</p>" if section.text else ""
    chart = f"<figure>{section.chart}</figure>" if section.chart else ""
    return f"<section><h2>{escape(section.title)}</h2>{text}{chart}{_table(section)}</section>\n"


def _table(section: Section) -> str:
    table = section.table
    if table is None:
        return ""
    sides = [' class="n"' if each.startswith("#") else "" for each in table.headings]
    head = "".join(
        f"<th{side}>{escape(each.removeprefix('#'))}</th>"
        for side, each in zip(sides, table.headings, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{side}>{escape(_cell(each))}</td>" for side, each in zip(sides, row, strict=True)
        )
        + "</tr>"
        for row in table.rows[:ROWS_MAX]
    )
    left = len(table.rows) - ROWS_MAX
    more = f"<p>{left:,} further rows are in the job's files.</p>" if left > 0 else ""
    is_open = " open" if section.is_open else ""
    return (
        f"<details{is_open}><summary>The numbers ({len(table.rows):,} rows)</summary>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"</div>{more}</details>"
    )


def _cell(value: Cell) -> str:
    if value is None:
        return "?"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else value
