"""The verdict of the Celery demo, on records made by hand: it must see what went wrong."""

from demo.celery_app import CHORD, STEP, WRONG
from demo.celery_verdict import judge, missing
from demo.records import CONFIRMED, DELIVERED, SENT, Record
from demo.verdict import Gap


def story(*events: tuple[int, str, str, int, int]) -> list[Record]:
    """Records from (time, kind, name, number, attempt)."""
    return [
        Record(at, kind, name, number, attempt, False) for at, kind, name, number, attempt in events
    ]


def test_a_good_run() -> None:
    verdict = judge(
        story(
            (1, SENT, STEP, 1, 1),
            (2, CONFIRMED, STEP, 1, 1),
            (3, DELIVERED, STEP, 1, 1),
            (4, CONFIRMED, CHORD, 60, 1),
            (90, DELIVERED, CHORD, 60, 1),
        )
    )
    assert verdict.is_good
    assert (verdict.submitted, verdict.executed, verdict.chords) == (2, 2, 1)
    assert verdict.pause == Gap(87, 3)


def test_submitted_and_never_executed_is_lost() -> None:
    records = story(
        (1, SENT, STEP, 1, 1),
        (2, CONFIRMED, STEP, 1, 1),
        (3, SENT, STEP, 2, 1),
        (4, CONFIRMED, STEP, 2, 1),
        (5, DELIVERED, STEP, 2, 1),
        (6, SENT, STEP, 3, 1),
    )
    assert missing(records) == [(STEP, 1)]
    assert judge(records).lost == [(STEP, 1)]
    assert not judge(records).is_good


def test_what_ran_twice_is_told_from_what_was_sent_twice() -> None:
    verdict = judge(
        story(
            (1, SENT, STEP, 1, 1),
            (2, SENT, STEP, 1, 2),
            (3, CONFIRMED, STEP, 1, 2),
            (4, DELIVERED, STEP, 1, 1),
            (5, CONFIRMED, STEP, 2, 1),
            (6, DELIVERED, STEP, 2, 1),
            (7, DELIVERED, STEP, 2, 1),
        )
    )
    assert verdict.is_good
    assert (verdict.executed, verdict.executed_twice, verdict.sent_again) == (2, 1, 1)


def test_a_chord_without_all_results_is_not_good() -> None:
    assert not judge(
        story((1, CONFIRMED, STEP, 1, 1), (2, DELIVERED, STEP, 1, 1), (3, WRONG, CHORD, 60, 1))
    ).is_good


def test_nothing_submitted_is_not_good() -> None:
    assert not judge([]).is_good
