"""Kept cases and a short run of random scripts, against a real RabbitMQ.

Skipped with the reason where there is none. A long run is `python -m tests.differential`. Cases in
`cases/open` are known bugs: they are expected to differ, and random scripts may find them again;
one that no longer differs is moved to `cases`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential import brokers
from tests.differential.compare import Difference
from tests.differential.runner import Runner, finding_text, report_text
from tests.differential.script import CASES, OPEN, parse
from tests.differential.side import Side
from tests.differential.themes import THEMES
from tests.plugins.leaks import keep

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(brokers.reference_missing()), reason=brokers.reference_missing()),
]

SCRIPTS = 200


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """One RabbitMQ for all scripts: each removes what it has left."""
    with brokers.rabbit(tmp_path_factory.mktemp("rabbit")) as side:
        yield side


@pytest.fixture(scope="module", params=[1, 3], ids=["one", "three"])
def runner(
    request: pytest.FixtureRequest, rabbit: Side, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Runner]:
    """Both brokers; fedq as one node, and as three with clients where no queue is."""
    directory = tmp_path_factory.mktemp("differential")
    with brokers.same(rabbit) as reference, brokers.fedq(directory, request.param) as subject:
        yield Runner((reference, subject), lambda finding: None)


@pytest.fixture(autouse=True)
def _connections_are_kept(runner: Runner) -> Iterator[None]:
    """A side connects when a script needs it to, and again after a script that ends connections."""
    yield
    for side in runner.sides:
        keep(side.descriptors)


def found_by(runner: Runner, case: Path) -> list[Difference]:
    """Undecided differences of a kept case."""
    return runner.undecided(runner.play(parse(case.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("case", sorted(CASES.glob("*.txt")), ids=lambda case: case.stem)
def test_case(runner: Runner, case: Path) -> None:
    found = found_by(runner, case)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("case", sorted(OPEN.glob("*.txt")), ids=lambda case: case.stem)
def test_open_case(runner: Runner, case: Path) -> None:
    found = found_by(runner, case)
    if found:
        pytest.xfail("a known bug: " + "\n".join(map(str, found)))


def test_random_scripts(runner: Runner) -> None:
    report = runner.run(SCRIPTS, first_seed=1, themes=list(THEMES))
    known = {found.kind: None for case in OPEN.glob("*.txt") for found in found_by(runner, case)}
    new = [finding_text(found) for kind, found in report.findings.items() if kind not in known]
    assert not new, "\n".join([*new, report_text(report)])
