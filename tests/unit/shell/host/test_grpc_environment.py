"""Whose environment it is: fedq's in a process of its own, and nobody's else."""

import os
import subprocess
import sys

import pytest

from fedq.shell.host.grpc_environment import SETTINGS, settle_grpc

#: As in a process that has never heard of fedq.
OTHERS = {name: value for name, value in os.environ.items() if name not in SETTINGS}


def run(code: str) -> str:
    """What a Python of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=OTHERS, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_who_imports_fedq_keeps_the_environment() -> None:
    found = run(
        "import os; before = dict(os.environ)\n"
        "import fedq.shell.runner, fedq.admin.service, fedq.cli.main, fedq.cli.commands\n"
        "print(dict(os.environ) == before)"
    )
    assert found == "True"


def test_the_command_sets_it_before_grpc_is_imported() -> None:
    found = run(
        "import os, sys\n"
        "from fedq.cli.main import main\n"
        "print('grpc' in sys.modules)\n"
        "sys.argv = ['fedq', 'version']\n"
        "try:\n    main()\nexcept SystemExit:\n    print('grpc' in sys.modules)\n"
        f"print(all(os.environ[name] == value for name, value in {SETTINGS!r}.items()))"
    )
    first, *_, last, is_set = found.splitlines()
    assert (first, last, is_set) == ("False", "True", "True")


def test_what_the_environment_says_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_VERBOSITY", "DEBUG")
    settle_grpc()
    assert os.environ["GRPC_VERBOSITY"] == "DEBUG"
