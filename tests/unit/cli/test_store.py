"""What an operator sees of a journal that is damaged, and how its loss is accepted."""

from pathlib import Path

from fedq.journal.records import encode_enqueue, encode_keep, encode_settle
from fedq.shell.disk.durable_files import segment_name
from tests.unit.cli.command import fedq
from tests.unit.journal.samples import NORTH, ONE, TWO, message
from tests.unit.journal.test_checkpoints import segments
from tests.unit.shell.disk.test_vouching import judge, rotten


def test_a_damaged_journal_is_shown_and_left_as_it_is(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    path = journal / segment_name(1)
    path.write_bytes(rotten())
    outcome = fedq("store", "verify", str(tmp_path), "--json")
    assert outcome.exit_code == 1
    assert '"segment": 1' in outcome.out
    assert "accept-loss" in outcome.err
    assert path.read_bytes() == rotten()
    assert [each.name for each in journal.iterdir()] == [path.name]


def test_a_loss_is_accepted_for_the_next_start(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    (journal / segment_name(1)).write_bytes(rotten())
    assert fedq("store", "accept-loss", str(tmp_path)).exit_code == 0
    assert judge(journal, 7, is_alone=True)[1] == 1, "it starts"
    assert fedq("store", "verify", str(tmp_path)).exit_code == 0, "it is mended"
    assert "nothing is damaged" in fedq("store", "accept-loss", str(tmp_path)).sentence


def test_status_says_what_is_alive_and_what_keeps_the_rest(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    old = encode_enqueue(ONE, 3, 7, NORTH, 1, [message("old")])
    others = b"".join(
        encode_enqueue(TWO, 1, n, NORTH, n, [message("x" * 200)])
        + encode_settle(TWO, 1, n + 1, [(n, n)])
        for n in range(1, 40, 2)
    )
    (journal / segment_name(1)).write_bytes(old)
    (journal / segment_name(2)).write_bytes(others)
    value = fedq("store", "status", str(tmp_path), "--json").value
    assert value["bytes"] == len(old) + len(others)
    assert value["live_bytes"] == len(message("old"))
    assert value["dead_bytes"] == value["bytes"] - value["live_bytes"]
    assert value["kept_by"] == [ONE]
    first = value["fragments"][0]
    assert (first["fragment"], first["messages"], first["oldest"]) == (ONE, 1, 7)
    outcome = fedq("store", "status", str(tmp_path), "--limit", "1")
    assert outcome.exit_code == 0
    assert "stays for what is alive of fragments 1" in outcome.out
    assert "1 more" in outcome.out
    assert fedq("store", "verify", str(tmp_path)).exit_code == 0, "nothing has changed"


def test_a_copy_that_is_not_complete_keeps_its_segment(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    (journal / segment_name(1)).write_bytes(encode_keep(ONE, 2, 60, []))
    (journal / segment_name(2)).write_bytes(encode_enqueue(TWO, 1, 1, NORTH, 1, [message("a")]))
    value = fedq("store", "status", str(tmp_path), "--json").value
    assert value["kept_by"] == [ONE]
    assert [each["whole"] for each in value["fragments"]] == [True, False]


def test_rot_in_what_is_dead_is_told_and_is_no_damage(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    for number, data in segments().items():
        (journal / segment_name(number)).write_bytes(data)
    path = journal / segment_name(3)
    spoilt = bytearray(path.read_bytes())
    spoilt[-1] ^= 1
    path.write_bytes(spoilt)
    value = fedq("store", "verify", str(tmp_path), "--json").value
    assert value["damages"] == []
    assert [each["segment"] for each in value["rotten"]] == [3]
    outcome = fedq("store", "verify", str(tmp_path))
    assert outcome.exit_code == 0
    assert "rot in segment 3" in outcome.out
    status = fedq("store", "status", str(tmp_path))
    assert "since the last checkpoint" in status.out
    assert "2 older segments" in " ".join(status.out.split())
    assert fedq("store", "status", str(tmp_path), "--json").value["checkpoint"] == 5


def test_what_is_no_data_directory_is_said_to_be_none(tmp_path: Path) -> None:
    for command in ("verify", "status"):
        assert "has no journal" in fedq("store", command, str(tmp_path)).sentence
