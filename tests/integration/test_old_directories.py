"""Whole data directories of earlier releases, killed in the middle: this release starts on them."""

import tarfile
from pathlib import Path
from typing import Final

import pytest

from tests.integration.old_directories import STREAMED, check, drained, entries
from tests.integration.ports import LOOPBACK, free_ports
from tests.integration.stock import Address, connect
from tests.integration.test_cli_node import configure, node

pytestmark = pytest.mark.slow

GOLDEN: Final = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize(("version", "streams"), [(7, False), (11, True)])
def test_a_node_has_all_that_an_earlier_release_had(
    tmp_path: Path, version: int, streams: bool
) -> None:
    with tarfile.open(GOLDEN / f"data-v{version}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    ports = free_ports(2)
    file = configure(tmp_path, *ports)
    address = Address(LOOPBACK, ports[0])
    with node(file):
        check(address, streams)
    # It was killed again. What was taken is gone, and what stays is there.
    with node(file):
        connection = connect(address)
        channel = connection.channel()
        for queue in ("orders", "ranked", "strict", "rejected"):
            assert list(drained(channel, queue)) == []
        if streams:
            assert len(entries(channel)) == STREAMED
        connection.close()
