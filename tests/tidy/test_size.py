"""Files, functions and lines stay small enough to be read at a glance."""

import ast

from tests.tidy.sources import report, sources

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
COLUMNS_MAX = 100


def test_files_are_short() -> None:
    problems = [
        f"{source.path}:1: {len(source.lines)} lines, more than {FILE_LINES_MAX}; "
        "it holds two ideas: split it"
        for source in sources()
        if len(source.lines) > FILE_LINES_MAX
    ]
    assert not problems, report(problems)


def test_functions_are_short() -> None:
    problems: list[str] = []
    for source in sources():
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                problems.append(
                    f"{source.path}:{node.lineno}: {node.name} has {length} lines, more than "
                    f"{FUNCTION_LINES_MAX}; name its steps and make them functions"
                )
    assert not problems, report(problems)


def test_lines_fit_the_page() -> None:
    problems = [
        f"{source.path}:{number}: {len(line)} columns, more than {COLUMNS_MAX}; break the line"
        for source in sources()
        for number, line in enumerate(source.lines, 1)
        if len(line) > COLUMNS_MAX
    ]
    assert not problems, report(problems)
