"""What every test folder shares: reproducible property tests, and no stale compiled modules."""

import os
import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import fedq
from fedq.compiled import compiled_from_python
from tests.examples import examples

pytest_plugins = (
    "tests.plugins.order", "tests.plugins.leaks", "tests.plugins.lane", "tests.plugins.forks",
)  # fmt: skip

# The CI machine is slow and shared: a test that takes long there is not wrong.
settings.register_profile(
    "quick", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True,
    max_examples=examples(),
)  # fmt: skip
# Hypothesis then draws the same examples every time, so a red CI run is red on a laptop too.
settings.register_profile("ci", parent=settings.get_profile("quick"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "quick")


#: What holds the modules that mypyc compiles.
LIBRARY = "compiled_modules__mypyc"

CIMPORT = re.compile(r"^(?:from|cimport) (fedq\.[\w.]+)", re.MULTILINE)


def sources_of(source: Path, package: Path) -> list[Path]:
    """A `.pyx` or `.pxd` and the `.pxd` files whose contents it takes in, each with its own."""
    found = [source]
    for name in CIMPORT.findall(source.read_text(encoding="utf-8")):
        shared = package.joinpath(*name.split(".")[1:]).with_suffix(".pxd")
        if shared.exists() and shared != source:
            found += sources_of(shared, package)
    return found


def stale_extensions(package: Path) -> list[str]:
    """One sentence for each extension module that is not what its source says."""
    problems: list[str] = []
    compiled = compiled_from_python(package)
    for built in sorted(path for path in package.rglob("*") if path.suffix in (".so", ".pyd")):
        name, dot, suffix = built.name.partition(".")
        if dot + suffix not in EXTENSION_SUFFIXES:
            continue  # Made for another Python, which alone would import it.
        source = built.with_name(f"{name}.pyx")
        if built.with_name(f"{name}.py") in compiled:
            continue  # It only points to the library.
        if name == LIBRARY and compiled:
            sources = compiled
        elif source.exists():
            sources = sources_of(source, package)
        else:
            problems.append(f"{built} has no source any more: delete it")
            continue
        changed_ns = max(each.stat().st_mtime_ns for each in sources)
        if built.stat().st_mtime_ns < changed_ns:
            problems.append(f"{built} is older than its sources: run `make setup`, or delete it")
    return problems


def pytest_configure() -> None:
    """Refuses to test what is not what the sources say."""
    is_pure = os.environ.get("FEDQ_PURE", "") not in ("", "0")
    package = Path(fedq.__path__[0])
    # What is installed elsewhere has the times of its unpacking, and nobody edits it.
    is_checkout = (package.parent / "pyproject.toml").exists()
    problems = [] if is_pure or not is_checkout else stale_extensions(package)
    if problems:
        raise pytest.UsageError("\n".join(problems))
