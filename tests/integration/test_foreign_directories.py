"""Data directories that a node must not use: each is refused with what to do, and left as it is."""

import shutil
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import orjson
import pytest
import yaml

from fedq.journal.records import FRAME, HEAD, KIND_ENQUEUE, VERSION
from tests.integration.ports import LOOPBACK, free_ports
from tests.integration.stock import PERSISTENT, Address, connect
from tests.integration.test_cli_node import configure, node, run_to_its_end

pytestmark = pytest.mark.slow

#: A process says who holds the directory; and once it is its own, that it has started, and whether
#: it believes what is there.
HELD = "lock"
COUNTED = ("identity.json", "journal/incarnation", "journal/vouch")


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a node that has a queue with a message, and was killed."""
    directory = tmp_path_factory.mktemp("used")
    ports = free_ports(2)
    file = configure(directory, *ports)
    with node(file):
        connection = connect(Address(LOOPBACK, ports[0]))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"the one", PERSISTENT)
        connection.close()
    return file


@pytest.fixture
def file(used: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(used.parent / "data", tmp_path / "data")
    shutil.copy(used, tmp_path / used.name)
    return tmp_path / used.name


def contents(data: Path) -> dict[str, bytes]:
    """All files of a data directory."""
    files = [each for each in data.rglob("*") if each.is_file() and each.name != HELD]
    return {str(each.relative_to(data)): each.read_bytes() for each in files}


def change(file: Path, **values: object) -> None:
    """Configures something otherwise."""
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | values))


def record(version: int, kind: int) -> bytes:
    """A record with a right checksum, of a form that is not known here."""
    body = HEAD.pack(version, kind, 1, 1) + b"whatever it means"
    return FRAME.pack(len(body), crc32(body)) + body


def is_of_another_node(file: Path) -> None:
    change(file, node="other")


def is_of_another_cluster(file: Path) -> None:
    ports = free_ports(3)
    names = ("alone", "x", "y")
    peers = {name: f"{LOOPBACK}:{port}" for name, port in zip(names, ports, strict=True)}
    change(file, peers=peers)


def has_a_newer_record(file: Path) -> None:
    last = max((file.parent / "data" / "journal").glob("*.journal"))
    last.write_bytes(last.read_bytes() + record(VERSION + 1, KIND_ENQUEUE))


def has_a_newer_kind_of_record(file: Path) -> None:
    last = max((file.parent / "data" / "journal").glob("*.journal"))
    last.write_bytes(last.read_bytes() + record(VERSION, 200))


def has_a_newer_identity(file: Path) -> None:
    path = file.parent / "data" / "identity.json"
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | {"format": 2}))


def has_a_newer_log(file: Path) -> None:
    path = file.parent / "data" / "raft" / "raft.journal"
    data = bytearray(path.read_bytes())
    assert data[:8] == b"FEDQRAFT"
    data[8:10] = (2).to_bytes(2, "big")
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "code", "words", "advice"),
    [
        (is_of_another_node, 2, "is the data directory of node 'alone'", "directory of its own"),
        (is_of_another_cluster, 2, "the nodes of this cluster are alone", "stop every node"),
        (has_a_newer_record, 1, "version 2 is unknown here", "run a newer version of fedq"),
        (has_a_newer_kind_of_record, 1, "200 is unknown here", "run a newer version of fedq"),
        (has_a_newer_identity, 1, "identity.json", "run a newer version of fedq"),
        (has_a_newer_log, 1, "raft.journal has format 2", "start the version"),
    ],
)
def test_a_directory_that_is_none_of_this_node_is_left_as_it_is(
    file: Path, spoil: Callable[[Path], None], code: int, words: str, advice: str
) -> None:
    spoil(file)
    before = contents(file.parent / "data")
    done = run_to_its_end("--config", str(file))
    assert done.returncode == code
    assert words in done.stderr
    assert advice in done.stderr
    assert "accept-loss" not in done.stderr
    assert "Traceback" not in done.stderr
    after = contents(file.parent / "data")
    changed = {name for name, data in before.items() if after.get(name) != data}
    assert changed <= ({*COUNTED} if code == 1 else set())
    # A segment that is to be filled, and the index of the one before: no message is in them.
    fresh = {name for name in after if name not in before and name not in COUNTED}
    assert all(name.endswith((".places", "2.journal")) for name in fresh), fresh
    assert code == 1 or not fresh
