"""What documents name in code is there: `path.py` is a file, and `path.py: name` is defined in it.

A path may be cut at the front, as `amqp/frames.py` or `frames.py`, and the name may be of a class's
method, as `Turn.input`.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.tidy.sources import ROOT, report, tree_files

CODE = re.compile(r"`([\w./-]+\.pyx?)(?:: ([A-Za-z_][\w.]*))?`")
#: It names files of other projects.
ELSEWHERE = "docs/CONFORMANCE.md"
#: Stands for any path in a rule about all of them.
ANY = ("fedq/x/", "path.py")


@cache
def files_of(path: str) -> tuple[str, ...]:
    """The files that a path in a document may mean."""
    return tuple(each for each in tree_files() if each == path or each.endswith(f"/{path}"))


@cache
def defined_in(path: str) -> frozenset[str]:
    """Names of a module, of its classes, and of their methods, as `Class.method`."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"), path)
    return frozenset(_defined(tree.body, ""))


def _defined(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        match node:
            case ast.ClassDef():
                yield prefix + node.name
                yield from _defined(node.body, f"{prefix}{node.name}.")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield prefix + node.name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name
            case ast.Assign():
                yield from (prefix + each.id for each in node.targets if isinstance(each, ast.Name))


def problem_with(path: str, name: str | None) -> str | None:
    """What is wrong with a name in a document, if anything."""
    found = files_of(path)
    if not found:
        return f"`{path}` is no file; say where it went"
    modules = [each for each in found if each.endswith(".py")]
    if name is None or not modules or any(name in defined_in(each) for each in modules):
        return None
    return f"`{path}` defines no `{name}`; say what it is called now"


def test_what_documents_name_is_there() -> None:
    problems: list[str] = []
    for document in tree_files():
        if not document.endswith(".md") or document == ELSEWHERE:
            continue
        text = (ROOT / document).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            problems.extend(
                f"{document}:{number}: {problem}"
                for path, name in CODE.findall(line)
                if not path.startswith(ANY) and (problem := problem_with(path, name or None))
            )
    assert not problems, report(problems)
