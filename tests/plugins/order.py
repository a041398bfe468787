"""Tests run in random order: modules among each other, and tests within their module.

    pytest --order 12345       # as a run that printed this seed, whichever tests are chosen
    pytest --order written     # as they stand in the files

The place of a test depends on the seed and its own name alone, so a part of a run keeps the order
that it had in the whole. Nothing else is touched: `random` is not seeded, Hypothesis draws as ever.
"""

import hashlib
import secrets
from typing import Final

import pytest

WRITTEN: Final = "written"
SEEDS: Final = 100_000


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option."""
    parser.addoption(
        "--order", metavar="SEED", default=str(secrets.randbelow(SEEDS)),
        help=f"seed of the order of tests, or '{WRITTEN}'; a new one in each run",
    )  # fmt: skip


def place(seed: str, name: str) -> bytes:
    """What is sorted by: as random as a shuffle, and the same for the same seed and name."""
    return hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()


# First, so that pytest then brings those together that share a fixture with parameters.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts by the places; modules stay together, or each would start its nodes many times."""
    seed: str = config.getoption("--order")
    if seed != WRITTEN:
        items.sort(key=lambda item: (place(seed, _module(item)), place(seed, item.nodeid)))


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """At the end, where it is seen under `-q`, too."""
    terminalreporter.write_line(f"tests ran in the order of --order {config.getoption('--order')}")
