"""Nodes, and the command line, as forks of one process: for whole folders of tests, by a fixture.

A `conftest.py` asks for `forks` in a fixture that is used by itself.
"""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def forks() -> Iterator[None]:
    """There is a process that forks for nodes and questions."""
    # Here, since most runs have nothing to do with clients.
    from tests.integration.harness import asked, environment
    from tests.integration.questions import Questions

    questions = Questions(environment())
    asked.append(questions)
    yield
    asked.remove(questions)
    questions.close()
