"""Links in the documents lead somewhere, and the index of decisions lists every decision."""

import re
from pathlib import Path

from tests.tidy.sources import ROOT, report, tree_files

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
FENCE = re.compile(r"^\s*(```|~~~)")
DECISIONS = "docs/adr/"


def prose(path: str) -> list[tuple[int, str]]:
    """(line number, line) outside code blocks, without inline code."""
    lines: list[tuple[int, str]] = []
    in_code = False
    for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
        if FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            lines.append((number, line))
    return lines


def anchor(heading: str) -> str:
    """The fragment under which the heading is reached on the common code hosts."""
    plain = re.sub(r"[`*_]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(path: str) -> dict[str, None]:
    """Every fragment that a link into the document may name."""
    found = (HEADING.match(line) for _, line in prose(path))
    return {anchor(match.group(1)): None for match in found if match}


def documents() -> list[str]:
    """All Markdown files."""
    return [path for path in tree_files() if path.endswith(".md")]


def link_problem(path: str, target: str) -> str | None:
    """What is wrong with a link in the document, if anything."""
    if re.match(r"[a-z]+:", target):
        return None
    place, _, fragment = target.partition("#")
    full = (ROOT / path).parent / place if place else ROOT / path
    if not full.exists():
        return f"leads to {place}, which is not there"
    if fragment and full.suffix == ".md":
        relative = str(full.resolve().relative_to(ROOT))
        if fragment not in anchors(relative):
            return f"names #{fragment}, and {relative} has no such heading"
    return None


def test_links_lead_somewhere() -> None:
    problems: list[str] = []
    for path in documents():
        for number, line in prose(path):
            targets = [match.group(1) for match in LINK.finditer(re.sub(r"`[^`]*`", "", line))]
            problems.extend(
                f"{path}:{number}: the link {problem}; correct or remove it"
                for target in targets
                if (problem := link_problem(path, target))
            )
    assert not problems, report(problems)


def test_the_index_lists_every_decision() -> None:
    decisions = [
        Path(path).name
        for path in documents()
        if path.startswith(DECISIONS) and Path(path).name != "README.md"
    ]
    if not decisions:
        return
    index = (ROOT / DECISIONS / "README.md").read_text(encoding="utf-8")
    problems = [
        f"{DECISIONS}README.md:1: {name} is not listed; add a line with its number and title"
        for name in decisions
        if f"({name})" not in index
    ]
    badly_named = [name for name in decisions if not re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", name)]
    problems += [f"{DECISIONS}{name}:1: call it NNNN-title.md" for name in badly_named]
    assert not problems, report(problems)
