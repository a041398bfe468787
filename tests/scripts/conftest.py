"""`pytest tests/scripts --rewrite` writes the reactions anew; then read the difference."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the scripts' reactions anew")
