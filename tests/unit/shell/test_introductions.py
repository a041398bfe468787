"""Where a peer says that it is: taken as far as the configuration would take it."""

from pathlib import Path

import pytest

from fedq.core.ids import NodeId
from fedq.shell.config.file import parse
from fedq.shell.introductions import take_address

N2 = NodeId("n2")


@pytest.mark.parametrize(
    ("address", "is_taken"),
    [
        ("127.0.0.1:7001", True),
        ("a..b:7001", False),
        ("x" * 64 + ":7001", False),
        ("x.example.com:7001", False),
        ("0.0.0.0:7001", False),
        ("garbage", False),
        ("127.0.0.1:70010", False),
    ],
)
def test_only_an_address_that_the_configuration_would_take_is_tried(
    tmp_path: Path, address: str, is_taken: bool
) -> None:
    config = parse({"node": "n1", "data": "data"}, base=tmp_path)
    tried: list[tuple[NodeId, str]] = []
    take_address(config, lambda *said: tried.append(said), N2, address)
    assert tried == ([(N2, address)] if is_taken else [])
