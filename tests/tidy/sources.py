"""What the tidiness tests look at: the files of the working tree, parsed once.

Input: the repository this file lies in. Output: `SOURCES` (every Python file that people wrote,
with its text and syntax tree) and `tree_files()` (every file that is or would be committed).
A problem is one line `path:line: what is wrong; what to do instead`.
"""

import ast
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("fedq", "tests", "demo", "loadtests", "scripts", "conformance", "setup.py")
GENERATED = "fedq/shell/pb/"

#: Floors that decide and never touch the world.
PURE_FLOORS = (
    "core", "amqp", "journal", "wiring", "fragments", "channels", "replication", "proxy", "node",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file."""

    path: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> list[str]:
        """The file's lines without their ends."""
        return self.text.splitlines()

    @property
    def is_pure(self) -> bool:
        """Whether the file lies below the line: no I/O, no clock, no chance."""
        parts = self.path.split("/")
        return parts[0] == "fedq" and len(parts) > 2 and parts[1] in PURE_FLOORS

    @property
    def is_product(self) -> bool:
        """Whether users install the file."""
        return self.path.startswith("fedq/")


@cache
def tree_files() -> tuple[str, ...]:
    """Paths of all files that are committed or would be, sorted; relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    paths = sorted(set(listed.stdout.split("\0")) - {""})
    return tuple(path for path in paths if (ROOT / path).is_file())


@cache
def sources() -> tuple[Source, ...]:
    """Every Python file that people wrote."""
    found: list[Source] = []
    for path in tree_files():
        if not path.endswith(".py") or path.split("/")[0] not in CODE_FOLDERS:
            continue
        if path.startswith(GENERATED):
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        found.append(Source(path, text, ast.parse(text, path)))
    assert found, "no Python files found: is this a git checkout?"
    return tuple(found)


def report(problems: list[str]) -> str:
    """The text of a failed tidiness test."""
    return "\n" + "\n".join(problems)
