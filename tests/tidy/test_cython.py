"""Cython's sources (`.pyx`, `.pxd`) keep to the rules, as far as text shows them."""

import re

from tests.tidy.sources import ROOT, report, tree_files
from tests.tidy.test_size import COLUMNS_MAX, FILE_LINES_MAX, FUNCTION_LINES_MAX

ENDINGS = (".pyx", ".pxd")
HEAD = re.compile(r"(?:#[^\n]*\n)*\"\"\"\S")
FUNCTION = re.compile(r"^( *)(?:async def|def|cdef|cpdef)\b.*?(\w+)\(")
FORBIDDEN = re.compile(r"^\s*(?:from|c?import)\s+(?:cpython\.time|posix|libc\.(?:time|stdio))\b")


def cython_files() -> list[tuple[str, list[str]]]:
    """(path, lines) of all Cython sources."""
    return [
        (path, (ROOT / path).read_text(encoding="utf-8").splitlines())
        for path in tree_files()
        if path.endswith(ENDINGS)
    ]


def functions(lines: list[str]) -> list[tuple[int, str, int]]:
    """(line number, name, lines) of each function: up to the next line that is not deeper."""
    found: list[tuple[int, str, int]] = []
    for number, line in enumerate(lines, 1):
        match = FUNCTION.match(line)
        if match is None:
            continue
        depth, last = len(match[1]), number
        for later, text in enumerate(lines[number:], number + 1):
            inside = not text.strip() or len(text) - len(text.lstrip()) > depth
            # The end of a head that was broken into lines stands as deep as its beginning.
            if not inside and not text.lstrip().startswith(")"):
                break
            last = later if text.strip() else last
        found.append((number, match[2], last - number + 1))
    return found


def test_each_says_what_it_is() -> None:
    problems = [
        f"{path}:1: no docstring; open with what it is, behind comments for the compiler"
        for path, lines in cython_files()
        if not HEAD.match("\n".join(lines))
    ]
    assert not problems, report(problems)


def test_they_are_short() -> None:
    problems = [
        f"{path}:1: {len(lines)} lines, more than {FILE_LINES_MAX}; it holds two ideas: split it"
        for path, lines in cython_files()
        if len(lines) > FILE_LINES_MAX
    ]
    for path, lines in cython_files():
        problems += [
            f"{path}:{number}: {len(line)} columns, more than {COLUMNS_MAX}; break the line"
            for number, line in enumerate(lines, 1)
            if len(line) > COLUMNS_MAX
        ]
        problems += [
            f"{path}:{number}: {name} has {length} lines, more than {FUNCTION_LINES_MAX}"
            for number, name, length in functions(lines)
            if length > FUNCTION_LINES_MAX
        ]
    assert not problems, report(problems)


def test_none_reaches_for_the_world() -> None:
    problems = [
        f"{path}:{number}: no clock and no I/O in a compiled module"
        for path, lines in cython_files()
        for number, line in enumerate(lines, 1)
        if FORBIDDEN.match(line)
    ]
    assert not problems, report(problems)


def test_each_has_python_beside_it() -> None:
    problems = [
        f"{path}:1: no {path.removesuffix('.pyx')}.py beside it: it must be complete in Python, too"
        for path, _ in cython_files()
        if path.endswith(".pyx") and not (ROOT / path).with_suffix(".py").is_file()
    ]
    assert not problems, report(problems)


def test_the_length_of_a_function_is_seen() -> None:
    lines = ["cdef int f(", "    int a,", ") except -1:", "    return a", "", "x = 1"]
    assert functions(lines) == [(1, "f", 4)]
