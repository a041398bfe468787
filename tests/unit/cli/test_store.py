"""What an operator sees of a journal that is damaged, and how its loss is accepted."""

from pathlib import Path

from fedq.shell.disk.durable_files import segment_name
from tests.unit.cli.command import fedq
from tests.unit.shell.disk.test_vouching import judge, rotten


def test_a_damaged_journal_is_shown_and_left_as_it_is(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    path = journal / segment_name(1)
    path.write_bytes(rotten())
    outcome = fedq("store", "check", str(tmp_path), "--json")
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
    assert fedq("store", "check", str(tmp_path)).exit_code == 0, "it is mended"
    assert "nothing is damaged" in fedq("store", "accept-loss", str(tmp_path)).sentence


def test_what_is_no_data_directory_is_said_to_be_none(tmp_path: Path) -> None:
    assert "has no journal" in fedq("store", "check", str(tmp_path)).sentence
