"""The tools that read what `deploy/` has, where they are installed.

A test without its own is skipped.
`make deploy` installs those that come from PyPI (`pip install '.[deploy]'`).
"""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.tidy.sources import ROOT

DEPLOY: Final = ROOT / "deploy"
#: So long a tool may take.
WITHIN_S: Final = 120.0


def tool(name: str, package: str) -> str:
    """The path of a program; skips the test where there is none."""
    own = Path(sys.prefix) / "bin" / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed ({package})")
    return found


def module(name: str, package: str) -> Any:
    """An imported module; skips the test where there is none."""
    try:
        return importlib.import_module(name)
    except ImportError:
        pytest.skip(f"{name} is not installed (PyPI's {package}: make deploy)")


def said(*arguments: str | Path, directory: Path | None = None) -> tuple[int, str]:
    """The exit code of a program, and all it said."""
    done = subprocess.run(
        [str(each) for each in arguments],
        cwd=directory, capture_output=True, text=True, timeout=WITHIN_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def documents(text: str) -> list[dict[str, Any]]:
    """The values of a YAML file with one document or several."""
    return [each for each in yaml.safe_load_all(text) if each is not None]


def read(path: str) -> Any:
    """The value of a YAML file below `deploy/`."""
    return yaml.safe_load((DEPLOY / path).read_text("utf-8"))
