"""A journal that was damaged, emptied or moved away says so once, and is fit to go on from."""

from pathlib import Path

import pytest

from fedq.journal.marks import Mark, encode_mark
from fedq.journal.recovery import ACCEPT_NAME, CorruptJournal, salvage
from fedq.shell.disk.durable_files import segment_name
from fedq.shell.disk.journal_files import SegmentFiles
from fedq.shell.disk.vouching import Vouch, log_findings, read_vouch, vouch_for, write_vouch
from tests.unit.journal.test_failing_records import ODD
from tests.unit.journal.test_recovery import enqueued, flipped


def judge(
    directory: Path, start: int, *, is_alone: bool = False, has_past: bool = True
) -> tuple[Vouch, int]:
    recovered = salvage(SegmentFiles(directory))
    vouch = vouch_for(directory, recovered, start, has_past=has_past, is_alone=is_alone)
    return vouch, len(recovered.damages)


def rotten() -> bytes:
    head, record = encode_mark(Mark(7, 1, 0)), enqueued(1)
    whole = head + record + encode_mark(Mark(7, 1, len(head + record))) + enqueued(2)
    return flipped(whole, len(head) + 20)


def test_a_journal_vouches_from_its_first_start(tmp_path: Path) -> None:
    assert judge(tmp_path, 5, has_past=False) == (Vouch(0, 0), 0)
    (tmp_path / segment_name(1)).write_bytes(enqueued(1))
    assert judge(tmp_path, 6) == (Vouch(0, 1), 0)


def test_damage_moves_what_it_vouches_for_and_is_kept(tmp_path: Path) -> None:
    path = tmp_path / segment_name(1)
    path.write_bytes(rotten())
    assert judge(tmp_path, 6) == (Vouch(6, 1), 1)
    assert path.with_name(path.name + ".damaged").read_bytes() == rotten()
    assert judge(tmp_path, 7) == (Vouch(6, 1), 0), "it is mended, and still not what it was"
    assert list(salvage(SegmentFiles(tmp_path)).fragments) == [1]


def test_a_segment_that_is_damaged_twice_is_kept_twice(tmp_path: Path) -> None:
    path = tmp_path / segment_name(1)
    path.write_bytes(enqueued(1) + ODD + enqueued(2))
    assert judge(tmp_path, 6) == (Vouch(6, 1), 1)
    assert path.read_bytes() == enqueued(1) + enqueued(2), "the one record is out of it"
    second = enqueued(1) + ODD
    path.write_bytes(second)
    assert judge(tmp_path, 7) == (Vouch(7, 1), 1)
    kept = sorted(each.read_bytes() for each in tmp_path.glob("*.damaged*"))
    assert kept == sorted([enqueued(1) + ODD + enqueued(2), second])
    assert judge(tmp_path, 8) == (Vouch(7, 1), 0)


def test_the_log_says_which_record_is_out_of_the_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / segment_name(4)).write_bytes(ODD)
    recovered = salvage(SegmentFiles(tmp_path))
    vouch_for(tmp_path, recovered, 6, has_past=True, is_alone=False)
    log_findings(recovered, tmp_path)
    (line,) = caplog.messages
    for part in ("000000000004.journal from byte 0", "fragment 1, position 77", ".damaged"):
        assert part in line


@pytest.mark.parametrize("with_note", [False, True])
def test_an_emptied_journal_is_no_new_one(tmp_path: Path, with_note: bool) -> None:
    if with_note:
        write_vouch(tmp_path, Vouch(0, 3))
    assert judge(tmp_path, 9) == (Vouch(9, 0), 1)
    assert read_vouch(tmp_path) == Vouch(9, 0)


def test_who_has_the_only_copy_starts_only_when_its_operator_says_so(tmp_path: Path) -> None:
    path = tmp_path / segment_name(1)
    path.write_bytes(rotten())
    with pytest.raises(CorruptJournal, match="run `fedq store accept-loss`"):
        judge(tmp_path, 6, is_alone=True)
    assert path.read_bytes() == rotten(), "nothing is cut"
    (tmp_path / ACCEPT_NAME).touch()
    assert judge(tmp_path, 7, is_alone=True) == (Vouch(7, 1), 1)
    assert not (tmp_path / ACCEPT_NAME).exists(), "that was for this damage"
