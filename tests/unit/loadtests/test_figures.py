"""Figures are read off the generator's object; aims are held against medians."""

import pytest

from loadtests.macro import figures
from loadtests.macro.figures import Aim, Figure, number
from loadtests.macro.works import WORKS, Group, chosen
from tests.unit.loadtests.runs import OUTCOME


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        (figures.PER_CPU, 1_000.0),
        (figures.PUBLISHES_PER_CPU, 2_000.0),
        (figures.LATENCY_P99, 300.0),
        (figures.CONFIRM_P50, 200.0),
        (figures.LAST_P50, 5.0),
        (figures.SET_UP, 1.5),
        (figures.CPU_EACH, 1_000.0),
        (figures.MEMORY_EACH, 10.0),
        (figures.DECLARED, 700.0),
        (figures.DELETED_CPU, 900.0),
        (figures.PASSIVE_P99, 2.0),
        (figures.IDLE_CORE, 0.5),
    ],
    ids=lambda value: value.name if isinstance(value, Figure) else "",
)
def test_a_figure_is_read(figure: Figure, value: float) -> None:
    assert figure.read({"work": OUTCOME}, "work") == pytest.approx(value)


def test_what_a_run_does_not_tell_is_none() -> None:
    nothing = {"p50": 0, "p99": 0, "count": 0}
    empty = {"work": {"options": {"connections": 0, "idle": 0}, "latency_us": nothing}}
    for figure in (figures.PER_CPU, figures.LATENCY_P50, figures.MEMORY_EACH, figures.CPU_EACH):
        assert figure.read(empty, "work") is None
    assert figures.rise_over("absent").read({"work": OUTCOME}, "work") is None


def test_a_rise_is_read_off_two_works_of_a_round() -> None:
    runs = {"one": OUTCOME, "three": OUTCOME | {"deliveries_per_cpu_second": 800.0}}
    assert figures.rise_over("one").read(runs, "three") == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("aim", "figure", "ours", "theirs", "reached"),
    [
        (Aim(100), figures.PER_CPU, 100.0, None, True),
        (Aim(100), figures.PER_CPU, 99.0, 1.0, False),
        (Aim(4), figures.SET_UP, 3.9, None, True),
        (Aim(4), figures.SET_UP, 4.1, 20.0, False),
        (Aim(2.0, is_relative=True), figures.PER_CPU, 21.0, 10.0, True),
        (Aim(2.0, is_relative=True), figures.PER_CPU, 19.0, 10.0, False),
        (Aim(1.0, is_relative=True), figures.LATENCY_P50, 101.0, 100.0, False),
        (Aim(1.0, is_relative=True), figures.LATENCY_P50, 1.0, None, None),
    ],
)
def test_an_aim_is_reached_or_missed_or_unknown(
    aim: Aim, figure: Figure, ours: float, theirs: float | None, reached: bool | None
) -> None:
    assert aim.is_reached(figure, ours, theirs) is reached


@pytest.mark.parametrize(
    ("value", "shown"),
    [(549_448.3, "549,000"), (1_234.0, "1,230"), (149.7, "150"), (7.336, "7.34"), (0.0, "0")],
)
def test_numbers_have_three_digits_that_count(value: float, shown: str) -> None:
    assert number(value) == shown


def test_works_are_chosen_by_name_and_group() -> None:
    names = [work.name for work in chosen(["topic-100", "latency"])]
    assert names == [
        "latency-1000",
        "latency-1000-persistent",
        "latency-5000",
        "latency-5000-persistent",
        "topic-100",
    ]
    usual = [work for work in WORKS.values() if not work.is_on_request]
    assert len(chosen([])) == len(usual) > len(chosen([], is_quick=True))
    with pytest.raises(ValueError, match="no work or group is called nonsense; there are"):
        chosen(["nonsense"])


def test_works_of_a_group_stand_together() -> None:
    groups = [work.group for work in WORKS.values()]
    changes = [group for index, group in enumerate(groups) if groups[index - 1 : index] != [group]]
    assert changes == list(Group)


def test_a_rise_is_measured_in_the_group_of_its_base() -> None:
    for work in WORKS.values():
        if work.addresses > 1:
            base = WORKS[f"{work.name[:-2]}-1"]
            assert base.group is work.group
            assert base.options == work.options
            assert base.is_in_quick or not work.is_in_quick


def test_a_load_beside_is_held_against_the_same_without() -> None:
    outcome = OUTCOME | {
        "confirm_us_before": {"p99": 200.0, "count": 5},
        "confirm_us_beside": {"p99": 500.0, "count": 5},
        "joined_bytes_per_second": 120e6, "disk_bytes_max": 3 << 20,
    }  # fmt: skip
    runs = {"join": outcome}
    assert figures.BESIDE_TO_IDLE.read(runs, "join") == 2.5
    assert figures.JOINED.read(runs, "join") == pytest.approx(120)
    assert figures.DISK_MAX.read(runs, "join") == 3
    assert figures.BESIDE_TO_IDLE.read({"join": OUTCOME}, "join") is None
    against = figures.rise_of(figures.LATENCY_P99, "that of idle", "idle")
    assert against.read({"idle": OUTCOME, "join": OUTCOME}, "join") == 1
    assert against.read({"join": OUTCOME}, "join") is None
