"""Writes manual pages (man 1) of the `fedq` command and of each command below it.

    python scripts/write_man_pages.py [DIRECTORY]    # build/man

Input: the command tree, with the texts of `--help`. Output: `fedq.1`, `fedq-queue.1`,
`fedq-queue-list.1` and so on. They are built and not committed: they say what the code says.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer.main

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from fedq.cli.commands import app, exit_codes_of  # noqa: E402 (found from here on)
from fedq.cli.terminal.failure import MEANINGS  # noqa: E402
from fedq.core.version import VERSION  # noqa: E402

TARGET: Final = ROOT / "build" / "man"
PROGRAM: Final = "fedq"


def pages() -> Iterator[tuple[str, str]]:
    """(name of the file, page) of each command and group."""
    root: Any = typer.main.get_command(app)
    waiting: list[tuple[tuple[str, ...], Any]] = [((), root)]
    while waiting:
        path, command = waiting.pop(0)
        inner = getattr(command, "commands", {})
        yield f"{name_of(path)}.1", page(path, command, inner)
        waiting += [((*path, name), each) for name, each in inner.items()]


def name_of(path: tuple[str, ...]) -> str:
    """The name of a page: `fedq-queue-list`."""
    return "-".join((PROGRAM, *path))


def page(path: tuple[str, ...], command: Any, inner: dict[str, Any]) -> str:
    """One page; `inner`: the commands of a group."""
    context = command.make_context(" ".join((PROGRAM, *path)), [], resilient_parsing=True)
    first, *rest = paragraphs(command.help or "")
    lines = [
        f'.TH "{name_of(path).upper()}" 1 "" "fedq {VERSION}" "fedq"',
        ".SH NAME",
        f"{escaped(name_of(path))} \\- {escaped(first.rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {escaped(context.command_path)}",
        escaped(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *(line for text in (first, *rest) for line in (".PP", escaped(text))),
    ]
    if inner:
        lines.append(".SH COMMANDS")
        for name, each in inner.items():
            short = paragraphs(each.help or "")[0]
            lines += [".TP", f".B {escaped(name_of((*path, name)))}(1)", escaped(short)]
    records = [(kind, each.get_help_record(context)) for kind, each in _parameters(command)]
    for title, kind in (("ARGUMENTS", "argument"), ("OPTIONS", "option")):
        found = [record for its, record in records if its == kind and record is not None]
        if found:
            lines.append(f".SH {title}")
        for heading, text in found:
            lines += [".TP", f".B {escaped(heading)}", escaped(text)]
    codes = MEANINGS if not path else exit_codes_of(path)
    lines.append(".SH EXIT STATUS")
    for code in codes:
        lines += [".TP", f".B {code}", escaped(MEANINGS[code])]
    above = [name_of(path[:count]) for count in range(len(path))]
    lines += [".SH SEE ALSO", ", ".join(f".BR {escaped(each)} (1)" for each in above[-1:])]
    return "\n".join(line for line in lines if line) + "\n" + _more(above)


def _more(above: list[str]) -> str:
    """What the last section ends with."""
    documents = "The documents of fedq, OPERATING.md above all, are in its source distribution."
    return (".PP\n" if above else "") + documents + "\n"


def _parameters(command: Any) -> list[tuple[str, Any]]:
    return [(each.param_type_name, each) for each in command.params]


def paragraphs(text: str) -> list[str]:
    """Paragraphs of a help text, each on one line; at least one."""
    found = [" ".join(each.split()) for each in re.split(r"\n\s*\n", text.strip())]
    return [each for each in found if each] or [""]


def escaped(text: str) -> str:
    """Text that roff shows as it is."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + plain if plain[:1] in ".'" else plain


def main() -> int:
    """The command line; 0 when all pages are written."""
    parser = argparse.ArgumentParser(description="Write manual pages of the fedq command")
    parser.add_argument("directory", nargs="?", type=Path, default=TARGET)
    directory: Path = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, text in pages():
        (directory / name).write_text(text, "utf-8")
        count += 1
    sys.stdout.write(f"{count} pages in {directory}; try: man -l {directory}/{PROGRAM}.1\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
