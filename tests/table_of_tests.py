"""Writes docs/TESTS_OF_MODULES.md: which tests hold a module most directly.

    make coverage                     # runs the tests, notes which lines each executes
    python -m tests.table_of_tests    # makes the table of it

Input: the coverage data with a context for each test, and `tests/by_hand.txt` for modules that
only real processes try. Without data the rows that are there stay, and only those by hand are
renewed; a module that moved takes its row along, a new one begins with a test of its room. At most
`FILES_MAX` files are named for a module: the one that executes most of it and little else, then
those that add most. A file of the same room or name counts more: there one looks first.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import coverage

from tests.tidy.sources import ROOT, sources
from tests.tidy.test_orphans import imports_of, module_name

TABLE: Final = ROOT / "docs" / "TESTS_OF_MODULES.md"
BY_HAND: Final = ROOT / "tests" / "by_hand.txt"
DATA: Final = ROOT / "build" / "coverage"
FILES_MAX: Final = 3
#: A further file is named for at least this share of the module's lines beyond the others'.
ADDS_MIN: Final = 0.1
#: What a file of the module's own room counts.
OF_ROOM: Final = 2.0
#: What a file counts that has the module's name in its own.
OF_NAME: Final = 3.0
GENERATED: Final = "fedq/shell/pb/"
HEAD: Final = """\
# Tests of modules

Which tests to look at, and to run first, when a module changes: up to three files, the most direct
first. `python -m tests.table_of_tests` writes this from a coverage run (`make coverage`), and from
`tests/by_hand.txt`, where stand the modules that only real processes try. What else tries them,
simulator, fuzzing and differential test among it, is in [TESTING](TESTING.md).
`tests/tidy/test_table_of_tests.py` checks that every module has a row, and that the files are there
and reach it.
"""

#: Lines by the module that has them.
Lines = Mapping[str, set[int]]


def modules() -> list[str]:
    """Every module that people wrote and that has code."""
    found = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "fedq").rglob("*.py"))
    return [path for path in found if not path.startswith(GENERATED) and "__init__" not in path]


def room(path: str) -> str:
    """The folder of a module, below `fedq`, or of a test, below its layer."""
    parts = path.split("/")[:-1]
    return "/".join(parts[1:] if parts[0] == "fedq" else parts[2:])


def words(path: str) -> frozenset[str]:
    """Of which the name of a file is made."""
    return frozenset(Path(path).stem.split("_"))


def executed(data: coverage.CoverageData) -> dict[str, dict[str, set[int]]]:
    """By test file: the lines of modules that its tests executed, not those of imports."""
    found: dict[str, dict[str, set[int]]] = {}
    files: dict[str, str] = {}
    for measured in data.measured_files():
        module = "fedq/" + measured.rpartition("/fedq/")[2]
        for line, contexts in data.contexts_by_lineno(measured).items():
            for context in contexts:
                if context and (test := files.setdefault(context, file_of(context))):
                    found.setdefault(test, {}).setdefault(module, set()).add(line)
    return found


def file_of(context: str) -> str:
    """The test file of a context as `tests.unit.core.test_seeds.test_name`; "" for others."""
    parts = context.split(".")
    for end in range(len(parts), 1, -1):
        path = "/".join(parts[:end]) + ".py"
        if parts[end - 1].startswith("test_") and (ROOT / path).is_file():
            return path
    return ""


def direct(module: str, tests: Mapping[str, Lines]) -> list[str]:
    """The files that test the module most directly."""
    of_test = {test: lines[module] for test, lines in tests.items() if module in lines}
    totals = {test: sum(map(len, tests[test].values())) for test in of_test}
    missing = set[int]().union(*of_test.values())
    every, found = len(missing), list[str]()

    def worth(test: str) -> float:
        own = of_test[test]
        focus: float = (len(own) / totals[test]) ** 0.5
        bonus = OF_ROOM if room(test) == room(module) else 1.0
        named = OF_NAME if words(module) <= words(test) else 1.0
        return bonus * named * focus * len(own & missing)

    while missing and len(found) < FILES_MAX:
        best = max(sorted(of_test), key=worth)
        if found and len(of_test[best] & missing) < ADDS_MIN * every:
            break
        found.append(best)
        missing -= of_test[best]
    return found


def by_hand() -> dict[str, list[str]]:
    """Rows of the small file: a module, a colon, its tests."""
    rows: dict[str, list[str]] = {}
    for line in BY_HAND.read_text(encoding="utf-8").splitlines():
        module, colon, tests = line.partition(":")
        if colon and not line.startswith("#"):
            rows[module] = tests.split()
    return rows


def standing() -> dict[str, list[str]]:
    """The rows that the table has."""
    rows: dict[str, list[str]] = {}
    folder = ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            folder = line.removeprefix("## ").strip("`")
        elif line.startswith("| `"):
            module, tests = (cell.strip() for cell in line.strip("|").split("|"))
            rows[f"{folder}/{module.strip('`')}"] = [each.strip("`") for each in tests.split(", ")]
    return rows


@cache
def imported() -> dict[str, dict[str, None]]:
    """By module of ours: what it imports."""
    return {module_name(source.path): imports_of(source) for source in sources()}


@cache
def reached(test: str) -> dict[str, None]:
    """Every module of ours that a test file imports, however far away."""
    found: dict[str, None] = {}
    waiting = [module_name(test)]
    while waiting:
        name = waiting.pop()
        if name in found or name not in imported():
            continue
        found[name] = None
        waiting.extend(imported()[name])
    return found


def reaches(test: str, module: str) -> bool:
    """Whether the test file imports the module, or names it: tests of twins load it by its name."""
    name = module_name(module)
    return name in reached(test) or f'"{name}"' in (ROOT / test).read_text(encoding="utf-8")


def of_room(module: str, rows: Mapping[str, list[str]]) -> list[str]:
    """What a module without data begins with: its row before it moved, or a test of its room."""
    gone = [path for path in rows if not (ROOT / path).exists()]
    moved = [path for path in gone if Path(path).name == Path(module).name]
    if len(moved) == 1:
        return rows[moved[0]]
    named = Counter(test for path in rows if room(path) == room(module) for test in rows[path])
    tests = [source.path for source in sources() if "/test_" in source.path]
    tests.sort(
        key=lambda test: (
            not words(module) <= words(test), -named[test], "tests/unit/" not in test, test
        )
    )  # fmt: skip
    at_once = [test for test in tests if module_name(module) in imported()[module_name(test)]]
    return [*at_once, *(test for test in tests if reaches(test, module))][:1]


def text(rows: Mapping[str, Iterable[str]]) -> str:
    """The document."""
    lines = [HEAD.rstrip()]
    folder = ""
    for module in sorted(rows, key=lambda path: (str(Path(path).parent), path)):
        place, name = module.rsplit("/", 1)
        if place != folder:
            folder = place
            lines += ["", f"## `{folder}`", "", "| module | tests |", "|---|---|"]
        lines.append(f"| `{name}` | {', '.join(f'`{each}`' for each in rows[module])} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """The command: exit 1 with a sentence when a module has no row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=DATA, help="what coverage wrote")
    given: Path = parser.parse_args().data
    rows = standing() if TABLE.exists() else {}
    if given.exists():
        data = coverage.CoverageData(str(given))
        data.read()
        tests = executed(data)
        seen = sorted({module for lines in tests.values() for module in lines})
        rows |= {module: direct(module, tests) for module in seen}
    rows |= by_hand()
    rows = {module: rows.get(module) or of_room(module, rows) for module in modules()}
    lacking = [module for module, tests_of in rows.items() if not tests_of]
    TABLE.write_text(text({module: found for module, found in rows.items() if found}))
    for module in lacking:
        sys.stderr.write(f"{module}: no test was seen; name one in {BY_HAND.relative_to(ROOT)}\n")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
