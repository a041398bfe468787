"""A docstring's first line reads by itself, without the name above it.

Ruff holds the form (`D`, see pyproject.toml); this holds how a first line begins. A tool shows it
alone, in a list, to people whose English is not native: a pronoun there stands for nothing.
"""

import ast
import re

from tests.tidy.sources import ROOT, report, sources, tree_files

#: What stands for a thing that is named elsewhere, or goes on with a sentence that nobody sees.
LEANING = (
    "Also", "He", "Her", "His", "It", "Its", "Likewise", "Of", "She", "So", "That", "Their", "Them",
    "These", "They", "This", "Those", "Who", "Whoever", "Whom", "Whose",
)  # fmt: skip
#: "One node" counts; "One of them" stands for something.
PRONOUN_ONE = "One (?:has|is|less|more|of|that|was|which|who)"
#: No more than a way to go.
POINTERS = "The same|See"
LEANS = re.compile(rf"(?:{'|'.join(LEANING)}|{PRONOUN_ONE}|{POINTERS})\b")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: A Cython docstring: ast does not read these files.
CYTHON_DOCSTRING = re.compile(r'\s*r?"""(.+)')


def first_lines() -> list[tuple[str, int, str]]:
    """(path, line number, first line) of every docstring of the product."""
    found: list[tuple[str, int, str]] = []
    for source in sources():
        if not source.is_product:
            continue
        for node in ast.walk(source.tree):
            if not isinstance(node, DOCUMENTED):
                continue
            text = ast.get_docstring(node)
            if text:
                found.append((source.path, node.body[0].lineno, text.splitlines()[0]))
    for path in tree_files():
        if path.startswith("fedq/") and path.endswith(".pyx"):
            lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
            opened = ((n, CYTHON_DOCSTRING.match(line)) for n, line in enumerate(lines, 1))
            found += [(path, n, match[1]) for n, match in opened if match is not None]
    return found


def test_the_check_sees_what_leans_on_a_name() -> None:
    leaning = (
        "It has something.", "Those that are due.", "This node's publishes.", "Of one node.",
        "One more binding.", "One of them.", "So many are.", "Who writes.", "The same of all.",
        "See the module's docstring.",
    )  # fmt: skip
    standing = (
        "One node of the federation.", "One whole frame.", "Items that are due.",
        "Whether it is so.", "Sounds the alarm.", "Offers what is there.", "What one turn may do.",
        "Seen by a primary.",
    )  # fmt: skip
    assert [line for line in leaning if not LEANS.match(line)] == []
    assert [line for line in standing if LEANS.match(line)] == []


def test_first_lines_read_without_the_name() -> None:
    problems = [
        f"{path}:{number}: begins with {match.group()!r}; say what is meant"
        for path, number, line in first_lines()
        if (match := LEANS.match(line))
    ]
    assert not problems, report(problems)
