"""The numbers of AMQP's frames and methods stand in one place: `fedq/amqp/spec.py`."""

import ast
import re

from tests.tidy.sources import ROOT, report, sources, tree_files

HOMES = ("fedq/amqp/spec.py", "fedq/amqp/wire.pxd")
#: A frame's end, and a method's class above its number.
BARE = re.compile(r"\b0xCE\b|\b60 << 16\b", re.IGNORECASE)
#: Docstrings and single strings, which may name them.
TEXT = re.compile(r'"{3}.*?"{3}|"[^"\n]*"', re.DOTALL)
#: The classes of what is told by its first bytes: connection, channel, basic.
CLASSES = (10, 20, 60)
BEGINNINGS = tuple(bytes((0, class_id, 0)) for class_id in CLASSES)


def is_bare(node: ast.AST) -> bool:
    """Whether a piece of code spells one of them out."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift):
        return isinstance(node.left, ast.Constant) and node.left.value in CLASSES
    if not isinstance(node, ast.Constant):
        return False
    value = node.value
    if isinstance(value, bytes):
        return b"\xce" in value or (len(value) == 4 and value.startswith(BEGINNINGS))
    return value == 0xCE


def test_python_takes_them_from_there() -> None:
    problems = [
        f"{source.path}:{node.lineno}: {ast.unparse(node)} is a number of the protocol: import it"
        for source in sources()
        if source.is_product and source.path not in HOMES
        for node in ast.walk(source.tree)
        if isinstance(node, ast.expr) and is_bare(node)
    ]
    assert not problems, report(problems)


def test_compiled_code_takes_them_from_there() -> None:
    problems = [
        f"{path}:1: {found[0]} is a number of the protocol: cimport it from fedq.amqp.wire"
        for path in tree_files()
        if path.endswith((".pyx", ".pxd")) and path not in HOMES
        if (found := BARE.search(TEXT.sub("", (ROOT / path).read_text(encoding="utf-8"))))
    ]
    assert not problems, report(problems)


def test_what_is_bare_is_seen() -> None:
    bare = ("60 << 16 | 40", "0xCE", r"b'\xce'", r"b'\x00\x3c\x00\x28'")
    assert all(any(map(is_bare, ast.walk(ast.parse(text)))) for text in bare)
    fine = ("1 << 16", "b'AMQP'", "BASIC << 16")
    assert not any(any(map(is_bare, ast.walk(ast.parse(text)))) for text in fine)
