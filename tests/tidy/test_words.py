"""No unfinished work, no stray output, no silent modules, nothing of one machine or registry."""

import ast
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests.tidy.sources import ROOT, report, sources, tree_files

#: Assembled, so that this file does not contain the words it bans.
UNFINISHED = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
URL = re.compile(r"\bhttps?://[^\s\"'<>()\[\]`]+")
PACKAGE_INDEX_OPTION = re.compile(r"--(?:extra-)?index" + r"-url|--find" + r"-links")

#: Where links may lead. A list of what is allowed needs no list of what is not.
HOSTS_ALLOWED = (
    # "prometheus" is a service's name in deploy/compose.yaml.
    "127.0.0.1", "localhost", "prometheus", "example.com", "example.org", "[::1]",
    "www.rabbitmq.com", "rabbitmq.com", "www.amqp.org", "www.oasis-open.org",
    "github.com", "docs.python.org", "peps.python.org", "grpc.io", "protobuf.dev",
    "raft.github.io", "keepachangelog.com", "semver.org", "www.rfc-editor.org",
    "www.apache.org", "opensource.org", "cbea.ms",
)  # fmt: skip
TEXT_ENDINGS = (
    ".py", ".pyi", ".md", ".txt", ".toml", ".yaml", ".yml", ".proto", ".cfg", ".ini", ".json",
    ".service", ".sh", ".pyx", ".pxd", "Makefile", "Dockerfile", ".gitignore", "/run",
)  # fmt: skip


def texts() -> list[tuple[str, int, str]]:
    """(path, line number, line) of every text file in the tree."""
    found: list[tuple[str, int, str]] = []
    for path in tree_files():
        if not path.endswith(TEXT_ENDINGS):
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        found.extend((path, number, line) for number, line in enumerate(text.splitlines(), 1))
    return found


def test_nothing_is_left_unfinished() -> None:
    problems = [
        f"{path}:{number}: {match.group()}; finish it, or write an issue and say why not now"
        for path, number, line in texts()
        if (match := UNFINISHED.search(line))
    ]
    assert not problems, report(problems)


def test_the_product_prints_nothing() -> None:
    problems = [
        f"{source.path}:{node.lineno}: print; log it, or let the command line's console show it"
        for source in sources()
        if source.is_product
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not problems, report(problems)


def test_every_module_says_what_it_is() -> None:
    problems = [
        f"{source.path}:1: no docstring; open with what it is, inputs, outputs, invariants"
        for source in sources()
        if source.tree.body and not ast.get_docstring(source.tree)
    ]
    assert not problems, report(problems)


def test_links_lead_only_to_hosts_we_chose() -> None:
    problems: list[str] = []
    for path, number, line in texts():
        for match in URL.finditer(line):
            host = urlsplit(match.group().rstrip(".,;:")).hostname or ""
            if host not in HOSTS_ALLOWED and "{" not in host:
                problems.append(
                    f"{path}:{number}: a link to {host}; drop it, or add the host to HOSTS_ALLOWED"
                )
        if PACKAGE_INDEX_OPTION.search(line):
            problems.append(f"{path}:{number}: names a package index; leave that to the user")
    assert not problems, report(problems)


def machine_paths() -> list[str]:
    """Absolute paths that exist only where this test runs."""
    places = [ROOT, ROOT.parent, Path.home(), Path(sys.prefix), Path(sys.base_prefix)]
    return sorted(
        {f"{place}/" for place in places if len(place.parts) > 1 and place != Path("/usr")}
    )


def test_no_path_of_this_machine() -> None:
    banned = machine_paths()
    problems = [
        f"{path}:{number}: contains {place}; use a path relative to the repository"
        for path, number, line in texts()
        for place in banned
        if place in line
    ]
    assert not problems, report(problems)
