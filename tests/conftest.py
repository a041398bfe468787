"""What every test folder shares: reproducible property tests, and no stale compiled modules."""

import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import fedq

# The CI machine is slow and shared: a test that takes long there is not wrong.
settings.register_profile(
    "quick", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# Hypothesis then draws the same examples every time, so a red CI run is red on a laptop too.
settings.register_profile("ci", parent=settings.get_profile("quick"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "quick")


def stale_twins(package: Path) -> list[str]:
    """One sentence for each extension module that is not what its source says."""
    shared_ns = max((path.stat().st_mtime_ns for path in package.rglob("*.pxd")), default=0)
    problems: list[str] = []
    for built in sorted(path for path in package.rglob("*") if path.suffix in (".so", ".pyd")):
        if not built.name.endswith(tuple(EXTENSION_SUFFIXES)):
            continue  # Made for another Python, which alone would import it.
        source = built.with_name(built.name.split(".")[0] + ".pyx")
        if not source.exists():
            problems.append(f"{built} has no .pyx any more: delete it")
        elif built.stat().st_mtime_ns < max(source.stat().st_mtime_ns, shared_ns):
            problems.append(f"{built} is older than its sources: run `make setup`, or delete it")
    return problems


def pytest_configure() -> None:
    """Refuses to test what is not what the sources say."""
    problems = stale_twins(Path(fedq.__path__[0]))
    if problems:
        raise pytest.UsageError("\n".join(problems))
