"""No test runs with an extension that is not what its source says."""

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests.conftest import stale_extensions

BUILT = f"hot{EXTENSION_SUFFIXES[0]}"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with one extension, its source, and what that takes in, made in this order."""
    floor = tmp_path / "fedq" / "core"
    floor.mkdir(parents=True)
    (floor / "octets.pxd").write_text('"""Shared."""\n')
    (floor / "other.pxd").write_text('"""Not for this one."""\n')
    (floor / "hot.pyx").write_text("from fedq.core.octets cimport read_u16\n")
    (floor / BUILT).touch()
    for second, name in enumerate(("octets.pxd", "other.pxd", "hot.pyx", BUILT)):
        os.utime(floor / name, (second, second))
    return tmp_path / "fedq"


def test_what_is_newer_than_its_sources_is_fine(package: Path) -> None:
    os.utime(package / "core" / "other.pxd", (9, 9))
    assert stale_extensions(package) == []


@pytest.mark.parametrize("name", ["hot.pyx", "octets.pxd"])
def test_what_is_older_than_a_source_is_to_be_built(package: Path, name: str) -> None:
    os.utime(package / "core" / name, (9, 9))
    (problem,) = stale_extensions(package)
    assert problem.endswith("older than its sources: run `make setup`, or delete it")


def test_what_has_no_source_is_to_be_deleted(package: Path) -> None:
    (package / "core" / "hot.pyx").unlink()
    (problem,) = stale_extensions(package)
    assert problem.endswith("has no source any more: delete it")


def test_what_another_python_would_import_is_no_matter(package: Path) -> None:
    (package / "core" / BUILT).rename(package / "core" / "hot.cpython-30-nowhere.so")
    os.utime(package / "core" / "hot.pyx", (9, 9))
    assert stale_extensions(package) == []
