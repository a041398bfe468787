"""The compilers of a build and of a developer are the same ones, pinned at both ends."""

import re
import tomllib
from typing import Any

import pytest

from tests.tidy.sources import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINNED = re.compile(r"(?:Cython|mypy)>=\d+\.\d+,<\d+\.\d+")


@pytest.mark.parametrize("compiler", ["Cython", "mypy"])
def test_both_take_the_same_release(compiler: str) -> None:
    build: list[str] = PROJECT["build-system"]["requires"]
    dev: list[str] = PROJECT["project"]["optional-dependencies"]["dev"]
    (of_build,) = (each for each in build if each.startswith(compiler))
    (of_dev,) = (each for each in dev if each.startswith(compiler))
    assert of_build == of_dev
    assert PINNED.fullmatch(of_build), "what another release makes of the sources was not tried"
