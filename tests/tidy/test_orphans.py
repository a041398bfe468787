"""Every module of fedq is reached from its command line: what nobody imports is not there."""

import ast

from tests.tidy.sources import Source, report, sources

ENTRANCES = ("fedq.__main__", "fedq.cli.main")


def module_name(path: str) -> str:
    """`fedq/core/ids.py` is `fedq.core.ids`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports_of(source: Source) -> dict[str, None]:
    """Names that may be modules of fedq: `from a import b` may mean `a` or `a.b`."""
    package = module_name(source.path).split(".")
    if not source.path.endswith("__init__.py"):
        package = package[:-1]
    found: dict[str, None] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found[base] = None
            found.update(dict.fromkeys(f"{base}.{alias.name}" for alias in node.names))
    return found


def test_every_module_is_reached() -> None:
    modules = {module_name(source.path): source for source in sources() if source.is_product}
    reached: dict[str, None] = {}
    waiting = [name for name in ENTRANCES if name in modules]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached[name] = None
        waiting.extend(other for other in imports_of(modules[name]) if other in modules)
    problems = [
        f"{source.path}:1: nothing that {' or '.join(ENTRANCES)} starts imports it; "
        "use it or remove it"
        for name, source in modules.items()
        if name not in reached and not source.path.endswith("__init__.py")
    ]
    assert not problems, report(problems)
