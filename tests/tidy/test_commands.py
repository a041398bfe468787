"""Every command speaks to scripts: `--json`, and exit codes that its help and its page tell."""

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from fedq.cli.commands import app, exit_codes_of
from fedq.cli.terminal.failure import MEANINGS
from tests.tidy.sources import ROOT, report
from tests.unit.cli.command import fedq

SCRIPT = ROOT / "scripts" / "write_man_pages.py"
#: Commands without `--json`, and why.
PLAIN = {
    ("node",): "it is a node: its log is JSON with --log-format json",
    ("config", "example"): "what it prints is a file in YAML",
    ("definitions", "export"): "what it writes is JSON",
}


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """What is typed for each command, and the command."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), typer.main.get_command(app))]
    while waiting:
        path, command = waiting.pop(0)
        inner = getattr(command, "commands", None)
        if inner is None:
            yield path, command
        else:
            waiting += [((*path, name), each) for name, each in inner.items()]


def test_every_command_has_json_or_a_reason() -> None:
    with_json = {
        path
        for path, command in commands()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    known = {path for path, _ in commands()}
    problems = [
        f"fedq {' '.join(path)}: no --json; add it, or say in PLAIN why there is none"
        for path in sorted(known - with_json - set(PLAIN))
    ]
    problems += [
        f"PLAIN: fedq {' '.join(path)} has --json, or is no command; remove it"
        for path in PLAIN
        if path in with_json or path not in known
    ]
    assert not problems, report(problems)


def test_every_help_ends_with_exit_codes() -> None:
    problems = []
    for path, command in commands():
        codes = exit_codes_of(path)
        told = command.epilog or ""
        if not told.startswith("Exit codes: 0 done") or codes != tuple(sorted(codes)):
            problems.append(f"fedq {' '.join(path)}: its help does not tell its exit codes")
        problems += [
            f"fedq {' '.join(path)}: code {code} has no meaning" for code in codes
            if code not in MEANINGS
        ]  # fmt: skip
        if not (command.help or "").strip():
            problems.append(f"fedq {' '.join(path)}: no help")
        problems += [
            f"fedq {' '.join(path)}: {parameter.name} has no help"
            for parameter in command.params
            if not getattr(parameter, "help", None)
        ]
    assert not problems, report(problems)


def test_the_help_shows_them() -> None:
    shown = " ".join(fedq("publish", "--help").out.split())
    assert "Exit codes: 0 done; 1 it was tried and failed;" in shown
    assert "6 a message reached no queue;" in shown


def test_operators_find_every_code_and_the_new_commands() -> None:
    document = (ROOT / "docs" / "OPERATING.md").read_text("utf-8")
    problems = [
        f"docs/OPERATING.md: no row for exit code {code} ({meaning})"
        for code, meaning in MEANINGS.items()
        if f"| {code} | {meaning}" not in document
    ]
    problems += [
        f"docs/OPERATING.md: `fedq {path[0]}` is not mentioned"
        for path, _ in commands()
        if f"fedq {path[0]}" not in document
    ]
    assert not problems, report(problems)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The manual pages, by file."""
    spec = importlib.util.spec_from_file_location("write_man_pages", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    return dict(writer.pages())


def test_every_command_has_a_page_with_its_options(pages: dict[str, str]) -> None:
    problems = []
    for path, command in commands():
        page = pages["-".join(("fedq", *path)) + ".1"].replace("\\-", "-")
        # What only fedq's own processes give each other is in no help.
        shown = [each for each in command.params if not getattr(each, "hidden", False)]
        missing = [each for each in shown if (each.metavar or each.opts[-1]) not in page]
        problems += [f"fedq {' '.join(path)}: its page lacks {each.name}" for each in missing]
        problems += [
            f"fedq {' '.join(path)}: its page lacks exit code {code}"
            for code in exit_codes_of(path)
            if f"\n.B {code}\n" not in page
        ]
    assert not problems, report(problems)
    assert {"fedq.1", "fedq-queue.1"} < set(pages)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_pages_are_what_man_reads(pages: dict[str, str], tmp_path: Path) -> None:
    for name, text in pages.items():
        (tmp_path / name).write_text(text, "utf-8")
    done = subprocess.run(
        ["groff", "-man", "-k", "-Tutf8", "-ww", "-z", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
