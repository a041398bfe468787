"""Below the line nothing reads a clock, draws a number, or depends on the order of a set.

import-linter forbids the modules; this finds what needs no import or hides in the syntax. The
order in which Python iterates a set of strings changes from process to process: a machine that
does it decides differently in each run, and a simulator's seed would no longer reproduce a bug.
"""

import ast

from tests.tidy.sources import Source, report, sources

CLOCK_MODULES = ("time", "datetime", "calendar")
UNSTABLE_CALLS = {
    "id": "differs from run to run; number things yourself",
    "hash": "differs from run to run for strings; use zlib.crc32 or a key",
    "open": "is I/O; return the bytes and let the shell write them",
    "input": "is I/O; take the value as an argument",
    "breakpoint": "is for debugging; remove it",
}
SET_NAMES = ("set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet")
#: Calls whose result does not depend on the order of what they are given.
ORDER_FREE = ("sorted", "set", "frozenset", "len", "any", "all", "sum", "min", "max", "bool")


def is_set_annotation(node: ast.expr | None) -> bool:
    """Whether the annotation names a set type."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and node.id in SET_NAMES


def name_of(node: ast.expr) -> str:
    """`x` for a name, `.x` for an attribute of anything, else nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f".{node.attr}"
    return ""


def set_names(tree: ast.AST) -> dict[str, None]:
    """Names and attributes that are annotated as sets or given one."""
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and is_set_annotation(node.annotation):
            names[name_of(node.target)] = None
        elif isinstance(node, ast.arg) and is_set_annotation(node.annotation):
            names[node.arg] = None
        elif isinstance(node, ast.Assign) and makes_set(node.value, {}):
            names.update(dict.fromkeys(name_of(target) for target in node.targets))
    names.pop("", None)
    return names


def makes_set(node: ast.expr, known: dict[str, None]) -> bool:
    """Whether the expression is, as far as its syntax tells, a set."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    if isinstance(node, ast.BinOp) and isinstance(
        node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor
    ):
        return makes_set(node.left, known) or makes_set(node.right, known)
    return name_of(node) in known


def iterated(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> list[ast.expr]:
    """The expressions that this node walks through in their own order."""
    if isinstance(node, ast.For | ast.AsyncFor):
        return [node.iter]
    if isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
        parent = parents.get(node)
        if isinstance(parent, ast.Call) and name_of(parent.func) in ORDER_FREE:
            return []
        return [part.iter for part in node.generators]
    if isinstance(node, ast.Starred):
        return [node.value]
    if isinstance(node, ast.Call):
        taker = name_of(node.func)
        if taker in ("list", "tuple", "iter", "enumerate", "zip", "map", ".join", ".extend"):
            return list(node.args)
    return []


def set_walks(source: Source) -> list[str]:
    """Problems of one file: places where a set is walked in its own order."""
    parents = {
        child: node for node in ast.walk(source.tree) for child in ast.iter_child_nodes(node)
    }
    attributes = {name: None for name in set_names(source.tree) if name.startswith(".")}
    lines: dict[int, None] = {}
    for scope in ast.walk(source.tree):
        if not isinstance(scope, ast.Module | ast.FunctionDef):
            continue
        known = attributes if isinstance(scope, ast.Module) else attributes | set_names(scope)
        for node in ast.walk(scope):
            for expression in iterated(node, parents):
                if makes_set(expression, known):
                    lines[expression.lineno] = None
    return [
        f"{source.path}:{line}: walks a set in its own order; use a dict with None values, "
        "or sorted()"
        for line in sorted(lines)
    ]


def test_no_set_is_walked_in_its_own_order() -> None:
    problems = [line for source in sources() if source.is_pure for line in set_walks(source)]
    assert not problems, report(problems)


def test_the_check_sees_a_walked_set() -> None:
    text = (
        "class A:\n"
        "    def __init__(self) -> None:\n"
        "        self.peers: set[str] = set()\n"
        "    def f(self, names: set[str]) -> list[str]:\n"
        "        for name in names:\n"
        "            pass\n"
        "        good = sorted(self.peers), any(p for p in self.peers), len(names)\n"
        "        return [peer for peer in self.peers | names]\n"
    )
    found = set_walks(Source("fedq/core/example.py", text, ast.parse(text)))
    assert [line.split(":")[1] for line in found] == ["5", "8"]


def modules_imported(node: ast.AST) -> list[str]:
    """Full names of the modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module]
    return []


def impurity(node: ast.AST) -> str | None:
    """What the node does that a deterministic machine must not."""
    for name in modules_imported(node):
        if name.split(".")[0] in CLOCK_MODULES:
            return f"imports {name}; time is an argument now_ms"
    if isinstance(node, ast.Call) and (reason := UNSTABLE_CALLS.get(name_of(node.func))):
        return f"{name_of(node.func)}() {reason}"
    if isinstance(node, ast.AsyncFunctionDef | ast.Await):
        return "async below the line; return what should be done and let the shell wait for it"
    return None


def test_no_clock_and_nothing_that_differs_between_runs() -> None:
    problems = [
        f"{source.path}:{getattr(node, 'lineno', 1)}: {reason}"
        for source in sources()
        if source.is_pure
        for node in ast.walk(source.tree)
        if (reason := impurity(node))
    ]
    assert not problems, report(problems)
