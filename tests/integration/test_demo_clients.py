"""The demo's clients outlive whatever their library makes of a broker that dies."""

import subprocess
import sys
from pathlib import Path

import pytest

from demo import records
from tests.integration.harness import Cluster, environment, eventually
from tests.integration.stock import connect

#: Connections that are reset in the moment in which they are made: pika's connector raises.
RESET_TWICE = """
import runpy, sys
from pika.adapters.utils import io_services_utils as utils

made = utils._AsyncStreamConnector.__init__
left = [None, None]

def reset(self, *values, **names):
    if left:
        left.pop()
        raise ValueError("Expected connected socket, but getpeername() failed")
    made(self, *values, **names)

utils._AsyncStreamConnector.__init__ = reset
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize("client", ["publisher", "consumer"])
def test_a_connection_that_is_reset_as_it_is_made_is_one_that_was_lost(
    tmp_path: Path, client: str
) -> None:
    with Cluster(tmp_path / "nodes", ("a",)) as cluster:
        (address,) = cluster.addresses()
        connection = connect(address)
        connection.channel().queue_declare("orders", durable=True)
        connection.close()
        place = f"{address.host}:{address.port}"
        written = tmp_path / "records"
        words = ["p1", "orders"] if client == "publisher" else ["orders"]
        command = [f"demo.{client}", *words, str(written), place]
        process = subprocess.Popen([sys.executable, "-c", RESET_TWICE, *command], env=environment())
        try:
            eventually("it is connected", lambda: records.CONNECTED in kinds(written))
        finally:
            process.terminate()
        assert process.wait(30) == 0
        assert kinds(written).count(records.LOST) == 2


def kinds(written: Path) -> list[str]:
    """What a client's records are about."""
    return [each.kind for each in records.read(written)] if written.exists() else []
