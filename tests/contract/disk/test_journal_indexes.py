"""Indexes beside full segments, on a real directory: written, believed, deleted, made anew."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from fedq.core.ranges import from_ranges
from fedq.journal.bodies import messages_in
from fedq.journal.events import Standing
from fedq.journal.indexes import OPENING_BYTES, decode_index
from fedq.journal.marks import MARK_BYTES
from fedq.journal.records import encode_enqueue, encode_live, encode_settle, encode_standing
from fedq.journal.recovered import Recovered
from fedq.journal.segments import SegmentPlan
from fedq.shell.disk.durable_files import index_name, segment_name
from fedq.shell.disk.journal_files import JournalFiles, SegmentFiles
from fedq.shell.disk.vouching import read_vouch
from tests.contract.disk.test_journal_directory import Reports, journal
from tests.integration.waiting import until
from tests.unit.journal.samples import NORTH, ONE, message

SEGMENT_BYTES = 4_000
COUNT = 200


def body(position: int) -> bytes:
    return message(f"{position}".ljust(100, "x"))


def write(files: JournalFiles, checkpointed: bool = True) -> SegmentPlan:
    """Many small segments, and a checkpoint of what is alive in them."""
    plan = SegmentPlan(bytes_max=SEGMENT_BYTES, nonce=7)
    for position in range(1, COUNT + 1):
        record = encode_enqueue(ONE, 1, position, NORTH, position, [body(position)])
        plan.append(ONE, record, True, position, position)
        files.append(plan.take())
    if checkpointed:
        number = plan.begin_checkpoint()
        standing = Standing(ONE, 1, number, COUNT, True, {NORTH: COUNT})
        plan.append_checkpoint(ONE, encode_standing(standing))
        plan.append_checkpoint(ONE, encode_live(ONE, 1, number, [(1, COUNT)]))
        plan.end_checkpoint()
    files.append(plan.take())
    return plan


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with journal(tmp_path) as reports:
        reports.files.recover()
        write(reports.files)
    return tmp_path


def numbers(directory: Path, name: Callable[[int], str]) -> list[int]:
    return [at for at in range(1, 99) if (directory / name(at)).exists()]


def start(directory: Path, body_bytes_max: int | None = 0) -> Recovered:
    """What a start finds; indexes that it has to make are there when this returns."""
    with journal(directory) as reports:
        return reports.files.recover(body_bytes_max=body_bytes_max)


def check_bodies(directory: Path, recovered: Recovered, first: int = 1) -> None:
    """Every body is where it is said to be."""
    files = SegmentFiles(directory)
    plan = SegmentPlan(recovered.segments)
    stowed = from_ranges((one, two) for one, two, _ in recovered.fragments[ONE].stowed)
    for position in stowed:
        place = plan.locate(ONE, position)
        assert place is not None
        data = files.piece(place.segment, place.offset, place.length)
        found, reasons = messages_in(data, ONE, position, position)
        assert (found, reasons) == ({position: body(position)}, [])
        assert position >= first


def test_each_full_segment_gets_one_and_the_last_one_with_the_next_start(directory: Path) -> None:
    segments = numbers(directory, segment_name)
    assert len(segments) > 5
    assert numbers(directory, index_name) == segments[:-1]
    for number in segments[:-1]:
        content = (directory / segment_name(number)).read_bytes()
        index = directory / index_name(number)
        assert index.stat().st_mode & 0o777 == 0o600
        found = decode_index(index.read_bytes(), number, len(content), content[:OPENING_BYTES])
        assert found is not None
        assert found.size == len(content)
    start(directory)
    assert numbers(directory, index_name) == segments


def test_a_start_with_indexes_does_not_read_the_segments(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    whole = SegmentFiles.__getitem__

    def watched(self: SegmentFiles, number: int) -> bytes:
        read.append(number)
        return whole(self, number)

    monkeypatch.setattr(SegmentFiles, "__getitem__", watched)
    recovered = start(directory)
    assert read
    assert min(read) == recovered.checkpoint > 1
    (stowed,) = recovered.fragments[ONE].stowed
    assert stowed[:2] == (1, COUNT)
    assert COUNT * len(body(1)) <= stowed[2] <= 2 * COUNT * len(body(1))
    check_bodies(directory, recovered)
    # With some bodies in memory only these are read.
    del read[:]
    recovered = start(directory, 10 * len(body(1)))
    assert min(read) == recovered.checkpoint
    assert recovered.fragments[ONE].messages == {at: body(at) for at in range(1, 11)}
    check_bodies(directory, recovered, 11)


def test_a_directory_of_before_starts_and_has_indexes_then(directory: Path) -> None:
    known = start(directory)
    for number in numbers(directory, index_name):
        (directory / index_name(number)).unlink()
    found = start(directory)
    assert found.fragments == known.fragments
    assert [each.is_indexed for each in found.segments] == [False] * len(found.segments)
    assert numbers(directory, index_name) == numbers(directory, segment_name)
    again = start(directory)
    assert again.fragments == known.fragments
    assert [each.is_indexed for each in again.segments] == [
        each.number < again.checkpoint for each in again.segments
    ]
    # Without a bound all bodies are read, whatever there is.
    assert len(start(directory, None).fragments[ONE].messages) == COUNT


@pytest.mark.parametrize(
    "spoil",
    [
        lambda index, _: index.write_bytes(index.read_bytes()[:-1]),
        lambda index, _: index.write_bytes(b""),
        lambda index, _: index.write_bytes(b"\0" * index.stat().st_size),
        lambda index, _: index.write_bytes(b"x" * 1_000_000),
        lambda index, other: index.write_bytes(other.read_bytes()),
        lambda index, _: (index.unlink(), index.mkdir()),
    ],
)
def test_one_that_cannot_be_believed_is_made_anew(
    directory: Path, spoil: Callable[[Path, Path], object]
) -> None:
    known = start(directory)
    index = directory / index_name(2)
    spoil(index, directory / index_name(3))
    found = start(directory)
    assert [each.number for each in found.segments if not each.is_indexed] == [
        2, *range(known.checkpoint, known.segments[-1].number + 1)
    ]  # fmt: skip
    assert found.fragments == known.fragments
    assert not found.damages
    check_bodies(directory, found)
    if not index.is_dir():
        again = start(directory)
        assert [each.number for each in again.segments if each.is_indexed][1] == 2


def test_that_of_a_segment_that_was_mended_is_made_anew(directory: Path) -> None:
    """What is alive and rotten is damage; the mended segment has its places elsewhere."""
    (directory / index_name(2)).unlink()
    path = directory / segment_name(2)
    content = bytearray(path.read_bytes())
    content[MARK_BYTES + 60] ^= 1
    path.write_bytes(content)
    with journal(directory) as reports:
        found = reports.files.recover(1, is_alone=False, body_bytes_max=0)
    assert found.damages
    assert found.lost
    assert len(path.read_bytes()) < len(content)
    check_bodies(directory, found)
    vouch = read_vouch(directory)
    assert vouch is not None
    assert vouch.since == 1
    with journal(directory) as reports:
        again = reports.files.recover(2, is_alone=False, body_bytes_max=0)
    assert again.segments[1].is_indexed
    # Nothing has settled here what was lost, so it is missed again.
    assert again.lost == found.lost
    check_bodies(directory, again)


def test_what_is_alive_and_in_no_index_is_damage(directory: Path) -> None:
    (directory / segment_name(3)).unlink()
    with journal(directory) as reports:
        found = reports.files.recover(1, is_alone=False, body_bytes_max=0)
    ((first, last),) = found.lost[ONE]
    (damage,) = found.damages
    assert f"{last - first + 1} messages are in no segment that can be read" in damage.reason
    assert not (directory / index_name(3)).exists(), "it goes with its segment"


def test_rot_behind_an_index_is_told_by_the_body(directory: Path) -> None:
    known = start(directory)
    path = directory / segment_name(2)
    content = bytearray(path.read_bytes())
    content[MARK_BYTES + 60] ^= 1
    path.write_bytes(content)
    found = start(directory)
    assert found.fragments == known.fragments, "nobody has read it"
    position = found.segments[1].spans[ONE][0]
    place = SegmentPlan(found.segments).locate(ONE, position)
    assert place is not None
    data = SegmentFiles(directory).piece(place.segment, place.offset, place.length)
    read, reasons = messages_in(data, ONE, position, position)
    assert not read
    assert "its checksum does not match" in reasons[0]


def test_it_is_deleted_with_its_segment(tmp_path: Path) -> None:
    with journal(tmp_path) as reports:
        plan = write(reports.files, checkpointed=False)
        settled = encode_settle(ONE, 1, COUNT + 1, [(1, COUNT)])
        plan.append(ONE, settled, True)
        chunks = plan.take()
        reports.files.append(chunks)
        wait(reports, chunks[-1].number)
        plan.on_synced(chunks[-1].number)
        assert plan.dead(lambda _: None) == []
        chunks = plan.take()
        reports.files.append(chunks)
        wait(reports, chunks[-1].number)
        plan.on_synced(chunks[-1].number)
        gone = plan.dead(lambda _: None)
        assert len(gone) > 5
        reports.files.drop(gone)
    assert numbers(tmp_path, index_name) == []
    assert not set(gone) & set(numbers(tmp_path, segment_name))


def test_one_that_cannot_be_written_is_no_harm(directory: Path) -> None:
    for number in numbers(directory, index_name):
        (directory / index_name(number)).unlink()
    (directory / index_name(2)).mkdir()
    known = start(directory)
    assert not known.damages
    assert numbers(directory, index_name) == numbers(directory, segment_name)
    assert (directory / index_name(2)).is_dir()
    assert start(directory).fragments == known.fragments


def wait(reports: Reports, number: int) -> None:
    def is_synced() -> bool:
        reports.loop.run_until_complete(asyncio.sleep(0))
        return bool(reports.synced) and reports.synced[-1] >= number

    until(f"chunk {number} is synced", is_synced)
