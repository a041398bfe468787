"""`fedq node` without any configuration is an ordinary broker where clients look for one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.harness import environment, serves
from tests.integration.ports import LOOPBACK, is_free
from tests.integration.stock import PERSISTENT, Address, connect
from tests.integration.waiting import patient, until

pytestmark = pytest.mark.slow

USUAL = Address(LOOPBACK, 5672)
ADMIN_PORT = 15692


@pytest.mark.skipif(
    not (is_free(USUAL.port) and is_free(ADMIN_PORT)), reason="another broker has the usual ports"
)
def test_one_command_is_enough(tmp_path: Path) -> None:
    log_path = tmp_path / "node.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedq", "node"], cwd=tmp_path, env=environment(),
            stdout=log, stderr=log,
        )  # fmt: skip
    try:

        def is_up() -> bool:
            assert process.poll() is None, log_path.read_text()
            # Somebody else may have taken the port meanwhile.
            return " ready: amqp://" in log_path.read_text() and serves(USUAL)

        until("the node serves on the usual port", is_up, 30)
        connection = connect(USUAL)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("first", durable=True)
        channel.basic_publish("", "first", b"hello", PERSISTENT)
        assert channel.basic_get("first", auto_ack=True)[2] == b"hello"
        connection.close()
        process.terminate()
        assert process.wait(patient(15)) == 0, log_path.read_text()
        assert (tmp_path / "fedq-data").is_dir()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
