"""Where commands write: tables and text on stdout for people, JSON for scripts.

Text from outside (queue names, client names) is never taken for markup, and nothing in it is obeyed
by a terminal.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence

import orjson
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from fedq.cli.terminal.plain_text import printable, printable_lines

#: Columns when the output is no terminal: enough that nothing is cut or wrapped in a pipe.
PIPE_WIDTH = 240

Cell = str | int | None | Text


class _PlainConsole(Console):
    """A console whose own escape sequences alone reach the terminal, whatever is in a text."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)


def console() -> Console:
    """A console on stdout that leaves text as it is, but for what a terminal would obey."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return _PlainConsole(width=width, highlight=False, markup=False, emoji=False)


def print_json(value: object) -> None:
    """One JSON value and a line end."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


def say(form: object, sentence: str, is_json: bool) -> None:
    """What was done: for scripts as JSON, for people as a sentence, which is not wrapped."""
    if is_json:
        print_json(form)
    else:
        console().print(sentence, soft_wrap=True)


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """A plain table; numbers to the right, `?` for what is unknown.

    A heading that begins with `#` is one of a column of numbers.
    """
    made = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        made.add_column(
            heading.removeprefix("#"),
            justify="right" if heading.startswith("#") else "left",
            overflow="fold",
        )
    for row in rows:
        made.add_row(*map(cell, row))
    return made


def cell(value: Cell) -> Text:
    """A value as it stands in a table."""
    if value is None:
        return Text("?", style="yellow")
    if isinstance(value, Text):
        return value
    return Text(printable(str(value)))


_STYLES = {
    "up": "green",
    "serving": "green",
    "held": "green",
    "leader": "bold",
    "catching up": "yellow",
    "fenced": "red",
    "looking": "yellow",
    "unknown": "yellow",
    "down": "red",
    "unavailable": "red",
    "absent": "red",
}


def word(state: str) -> Text:
    """A state, in the colour that says whether it is a good one."""
    return Text(state, style=_STYLES.get(state, ""))


def size(count: int | None) -> str | None:
    """Bytes for people: `12.3 MiB`."""
    if count is None:
        return None
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1_024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1_024
    return f"{value:.1f} TiB"


def duration(milliseconds: int) -> str:
    """A time span for people, by its two largest units: `2h 5m`."""
    seconds = milliseconds // 1_000
    days, hours, minutes = seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes}m"
    if minutes:
        return f"{minutes}m {seconds % 60}s"
    return f"{seconds}s"
