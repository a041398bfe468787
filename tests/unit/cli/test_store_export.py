"""Messages out of a store: what may be missing is said, and accepted by name."""

import fcntl
import os
from pathlib import Path

import pytest

from fedq.journal.records import encode_enqueue
from fedq.shell.disk.durable_files import segment_name
from fedq.shell.disk.export_file import read_export
from tests.unit.cli.command import fedq
from tests.unit.journal.samples import NORTH, ONE, message
from tests.unit.journal.test_checkpoints import segments


def a_store(data: Path, found: dict[int, bytes]) -> Path:
    """A data directory whose journal has these segments."""
    journal = data / "journal"
    journal.mkdir(parents=True)
    for number, content in found.items():
        (journal / segment_name(number)).write_bytes(content)
    return journal


def files_of(data: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}


def test_every_message_is_in_the_file_in_order(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "file"
    texts = [f"m{number}" for number in range(300)]
    a_store(data, {1: encode_enqueue(ONE, 1, 7, NORTH, 1, [message(text) for text in texts])})
    before = files_of(data)
    outcome = fedq("store", "export", str(data), str(file), "--accept-loss", "fragment 1", "--json")
    assert outcome.exit_code == 0, outcome.err
    assert outcome.value["messages"] == 300
    found = list(read_export(file))
    assert [each.body.decode() for each in found] == texts
    assert [each.position for each in found] == list(range(7, 307))
    assert files_of(data) == before
    again = fedq("store", "export", str(data), str(file), "--accept-loss", "fragment 1")
    assert "nothing was exported" in again.sentence


def test_what_may_be_missing_is_accepted_by_name_or_not_at_all(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "file"
    found = segments()
    rotten = bytearray(found[3])
    rotten[60] ^= 1
    a_store(data, {**found, 3: bytes(rotten)})
    refused = fedq("store", "export", str(data), str(file), "--accept-loss", "fragment 1")
    assert refused.exit_code == 1
    assert "fragment 2: 1 messages cannot be read" in refused.sentence
    assert "--accept-loss fragment 2" in refused.sentence
    assert not file.exists()
    only = ("--queue", "fragment 2", "--accept-loss", "fragment 2")
    assert fedq("store", "export", str(data), str(file), *only).exit_code == 0
    assert {each.fragment for each in read_export(file)} <= {2}
    unknown = fedq("store", "export", str(data), str(tmp_path / "other"), "--queue", "orders")
    assert unknown.exit_code == 2
    assert "nothing of a queue 'orders'" in unknown.sentence


def test_verify_names_what_is_damaged_by_fragment(tmp_path: Path) -> None:
    found = segments()
    rotten = bytearray(found[3])
    rotten[60] ^= 1
    a_store(tmp_path, {**found, 3: bytes(rotten)})
    outcome = fedq("store", "verify", str(tmp_path), "--json")
    assert outcome.exit_code == 1
    (two,) = [each for each in outcome.value["fragments"] if each["fragment"] == 2]
    assert two["damaged"] == [[12, 12]]
    assert not two["whole"]
    shown = fedq("store", "verify", str(tmp_path))
    assert "12 to 12" in shown.out


@pytest.mark.parametrize("command", ["verify", "export"])
def test_the_directory_of_a_node_that_runs_is_left_alone(tmp_path: Path, command: str) -> None:
    journal = a_store(tmp_path / "data", segments())
    lock = journal / "lock"
    lock.write_bytes(b"4711\n")
    before = files_of(tmp_path)
    more = [str(tmp_path / "file")] if command == "export" else []
    descriptor = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        outcome = fedq("store", command, str(tmp_path / "data"), *more)
    finally:
        os.close(descriptor)
    assert outcome.exit_code == 1
    assert "in use by process 4711: stop that node first" in outcome.sentence
    assert files_of(tmp_path) == before


@pytest.mark.parametrize(
    ("content", "says"),
    [(b'{"format": 2, "node": "n1"}', "has form 2"), (b"{", "is damaged")],
)
def test_a_directory_of_a_newer_release_is_left_alone(
    tmp_path: Path, content: bytes, says: str
) -> None:
    a_store(tmp_path, segments())
    (tmp_path / "identity.json").write_bytes(content)
    before = files_of(tmp_path)
    assert says in fedq("store", "verify", str(tmp_path)).sentence
    assert files_of(tmp_path) == before


def test_an_import_checks_all_of_the_file_first(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "file"
    a_store(data, {1: encode_enqueue(ONE, 1, 7, NORTH, 1, [message("a"), message("b")])})
    fedq("store", "export", str(data), str(file), "--accept-loss", "fragment 1")
    spoilt = file.read_bytes().replace(b'"position":8', b'"position":9')
    file.write_bytes(spoilt)
    # Nobody listens there: it does not come to that.
    url = "amqp://guest:guest@127.0.0.1:1/"
    outcome = fedq("store", "import", str(file), "--queue", "q", "--url", url)
    assert outcome.exit_code == 1
    assert "damaged at line 3" in outcome.sentence
    assert not (tmp_path / "file.progress").exists()
    both = fedq("store", "import", str(file), "--queue", "q", "--exchange", "x", "--url", url)
    assert both.exit_code == 2
