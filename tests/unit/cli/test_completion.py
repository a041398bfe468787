"""Shells complete commands and options of `fedq`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.waiting import patient
from tests.unit.cli.command import fedq


def completed(typed: str) -> list[str]:
    """What bash offers for the last word."""
    words = typed.split(" ")
    done = fedq(
        _FEDQ_COMPLETE="complete_bash", COMP_WORDS=typed.strip(), COMP_CWORD=str(len(words) - 1)
    )
    return done.out.split()


def test_commands_and_options_are_completed() -> None:
    assert completed("fedq queue p") == ["purge", "peek", "publish"]
    assert "doctor" in completed("fedq ")
    assert completed("fedq publish --allow") == ["--allow-unroutable"]
    assert completed("fedq consume q --ack re") == ["reject", "requeue"]


@pytest.mark.parametrize(
    ("shell", "begin"),
    [
        ("bash", "complete -o default"),
        ("zsh", "#compdef fedq"),
        ("fish", "complete --command fedq"),
    ],
)
def test_each_shell_has_a_script(shell: str, begin: str) -> None:
    done = fedq(_FEDQ_COMPLETE=f"source_{shell}")
    assert done.exit_code == 0
    assert begin in done.out


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_what_was_installed(tmp_path: Path) -> None:
    command = tmp_path / "fedq"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fedq "$@"\n')
    command.chmod(0o755)
    script = (
        "fedq --install-completion > /dev/null; . ~/.bashrc; COMP_WORDS=(fedq config ch); "
        'COMP_CWORD=2; _fedq_completion fedq; echo "${COMPREPLY[@]}"; true'
    )
    place = Path(__file__).parents[3]
    environment = os.environ | {
        "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(place),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=environment, capture_output=True, text=True, timeout=patient(60), check=True,
    )  # fmt: skip
    assert done.stdout == "check\n"
