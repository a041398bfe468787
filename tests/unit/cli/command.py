"""Runs `fedq` commands, most in this process, and shows what a user would see."""

import json
import subprocess
import sys
from typing import Any, NamedTuple

from typer.testing import CliRunner

from fedq.cli.commands import app
from tests.integration.waiting import patient


class Outcome(NamedTuple):
    """What a command left behind."""

    exit_code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """The JSON value on stdout."""
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one line of an error."""
        assert self.out == ""
        assert self.err.startswith("fedq: ")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("fedq: ").rstrip("\n")

    def rows(self, heading: str) -> list[list[str]]:
        """The cells below a table's heading that begins with this word."""
        lines = self.out.splitlines()
        start = next(n for n, line in enumerate(lines) if line.startswith(heading))
        return [line.split() for line in lines[start + 1 :]]


def fedq_alone(*arguments: str) -> Outcome:
    """Runs a command as a process, with which all ends that gRPC would still try for a while."""
    done = subprocess.run(
        [sys.executable, "-m", "fedq", *arguments],
        capture_output=True, text=True, timeout=patient(60), check=False,
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout, done.stderr)


def fedq(*arguments: str, **environment: str) -> Outcome:
    """Runs a command; what escapes from it as an exception fails the test."""
    clean = dict.fromkeys(
        ("FEDQ_NODE", "FEDQ_CA", "FEDQ_CERT", "FEDQ_KEY", "FEDQ_DATA", "FEDQ_TOKEN")
    )
    result = CliRunner().invoke(app, list(arguments), env={**clean, **environment})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)
