"""The verdict on the clients' records, on records made by hand: it must see what went wrong."""

from pathlib import Path

from demo.records import CONFIRMED, DELIVERED, SENT, Follower, Record, Recorder, read
from demo.verdict import Gap, judge, missing


def story(*events: tuple[int, str, int, int, bool]) -> list[Record]:
    """Records of publisher p from (time, kind, sequence, attempt, redelivered)."""
    return [
        Record(at, kind, "p", number, attempt, mark) for at, kind, number, attempt, mark in events
    ]


def test_a_good_run() -> None:
    verdict = judge(
        story(
            (10, SENT, 1, 1, False),
            (20, CONFIRMED, 1, 1, False),
            (30, DELIVERED, 1, 1, False),
            (11, SENT, 2, 1, False),
            (90, CONFIRMED, 2, 1, False),
            (70, DELIVERED, 2, 1, False),
        )
    )
    assert (verdict.published, verdict.confirmed, verdict.delivered) == (2, 2, 2)
    assert (verdict.lost, verdict.resends, verdict.duplicates_flagged) == ([], 0, 0)
    assert verdict.confirm_gap == Gap(70, 20)
    assert verdict.delivery_gap == Gap(40, 30)
    assert verdict.is_good


def test_confirmed_and_never_delivered_is_lost() -> None:
    records = story(
        (1, SENT, 1, 1, False),
        (2, CONFIRMED, 1, 1, False),
        (3, SENT, 2, 1, False),
        (4, SENT, 3, 1, False),
        (5, CONFIRMED, 3, 1, False),
        (6, DELIVERED, 3, 1, False),
    )
    assert missing(records) == [("p", 1)]
    assert judge(records).lost == [("p", 1)]
    assert not judge(records).is_good


def test_repeats_are_told_from_resends() -> None:
    verdict = judge(
        story(
            (1, SENT, 1, 1, False),
            (2, DELIVERED, 1, 1, False),
            (3, DELIVERED, 1, 1, True),
            (4, SENT, 2, 1, False),
            (5, DELIVERED, 2, 1, False),
            (6, SENT, 2, 2, False),
            (7, CONFIRMED, 2, 2, False),
            (8, DELIVERED, 2, 2, False),
        )
    )
    assert (verdict.duplicates_flagged, verdict.duplicates_unflagged) == (1, 0)
    assert (verdict.resends, verdict.resends_delivered) == (1, 1)
    assert verdict.is_good


def test_an_unmarked_repeat_is_not_good() -> None:
    verdict = judge(
        story(
            (1, SENT, 1, 1, False),
            (2, CONFIRMED, 1, 1, False),
            (3, DELIVERED, 1, 1, False),
            (4, DELIVERED, 1, 1, False),
            (5, DELIVERED, 1, 1, True),
        )
    )
    assert (verdict.duplicates_flagged, verdict.duplicates_unflagged) == (1, 1)
    assert not verdict.is_good


def test_nothing_confirmed_is_not_good() -> None:
    assert not judge([]).is_good


def test_each_publisher_s_pause_counts() -> None:
    quick = [Record(at, CONFIRMED, "quick", at, 1, False) for at in range(0, 1_000, 10)]
    slow = [Record(at, CONFIRMED, "slow", at, 1, False) for at in (0, 100, 900, 990)]
    assert judge([*quick, *slow]).confirm_gap == Gap(800, 100)


def test_a_follower_reads_only_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "records.txt"
    recorder = Recorder(path)
    follower = Follower(path)
    assert list(follower.new()) == []
    recorder.write(SENT, "p", 1, 1)
    recorder.write(DELIVERED, "a name with spaces", 2, 1, redelivered=True)
    recorder.close()
    first, second = follower.new()
    assert (first.kind, first.name, first.sequence) == (SENT, "p", 1)
    assert (second.name, second.redelivered) == ("a_name_with_spaces", True)
    with path.open("a") as file:
        file.write("123 sent p")
        file.flush()
        assert list(follower.new()) == []
        file.write(" 3 1 0\n")
    assert [record.sequence for record in follower.new()] == [3]
    assert len(read(path)) == 3
