"""Kept cases and a short run of random scripts, against a real RabbitMQ.

Skipped with the reason where there is none. A long run is `python -m tests.differential`.
"""

from collections.abc import Iterator

import pytest

from tests.differential import brokers
from tests.differential.runner import Runner, report_text
from tests.differential.script import CASES, parse
from tests.differential.themes import THEMES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(brokers.reference_missing()), reason=brokers.reference_missing()),
]

SCRIPTS = 200


@pytest.fixture(scope="module", params=[1, 3], ids=["one", "three"])
def runner(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Runner]:
    """Both brokers; fedq as one node, and as three with clients where no queue is."""
    directory = tmp_path_factory.mktemp("differential")
    with brokers.rabbit(directory) as reference, brokers.fedq(directory, request.param) as subject:
        yield Runner((reference, subject), lambda finding: None)


@pytest.mark.parametrize("name", sorted(case.name for case in CASES.glob("*.txt")))
def test_case(runner: Runner, name: str) -> None:
    script = parse((CASES / name).read_text(encoding="utf-8"))
    found = runner.undecided(runner.play(script))
    assert not found, "\n".join(map(str, found))


def test_random_scripts(runner: Runner) -> None:
    report = runner.run(SCRIPTS, first_seed=1, themes=list(THEMES))
    assert not report.findings, report_text(report)
