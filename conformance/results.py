"""Keeps the results of runs as JSON: one suite can be run alone, and the page is still whole.

Inputs and outputs: `SuiteResult`s, one file each for a suite and a target.
"""

import json
from pathlib import Path

from conformance.running import Outcome, SuiteResult


def _path(cache: Path, suite: str, target: str) -> Path:
    return cache / "results" / f"{suite}-{target}.json"


def keep(cache: Path, target: str, result: SuiteResult) -> None:
    """Writes the result, in place of an older one of the same suite and target."""
    path = _path(cache, result.suite, target)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result._asdict(), indent=1))


def kept(cache: Path, suite: str, target: str) -> SuiteResult | None:
    """The last result, or `None`."""
    path = _path(cache, suite, target)
    if not path.exists():
        return None
    fields = json.loads(path.read_text())
    tests = {name: Outcome(*values) for name, values in fields.pop("tests").items()}
    return SuiteResult(tests=tests, **fields)
