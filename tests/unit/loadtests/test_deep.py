"""The works of deep queues: their size, the room they need, and what their figures mean."""

from typing import Any

from loadtests.macro import figures
from loadtests.macro.__main__ import parser, scale_of
from loadtests.macro.deep import MIB, QUICK, SPARE_BYTES, WHOLE, Scale, room_problem, scaled
from loadtests.macro.works import WORKS, chosen

DEEP = ["deep"]


def outcome(stored: int, first: float | None, last: float | None) -> dict[str, Any]:
    """What the generator prints of a filling of a thousand messages."""
    filling = {
        "wanted": 1_000, "stored": stored, "is_whole": stored == 1_000, "rss_bytes": 64 * MIB,
        "first_per_second": first, "last_per_second": last, "rss_bytes_each": 3.5,
    }  # fmt: skip
    return {
        "deep-fill": {
            "filling": filling, "deliver_per_second": 7.0, "deliveries_per_cpu_second": 9.0,
        }
    }  # fmt: skip


def test_they_run_only_when_they_are_named() -> None:
    assert not [work for work in chosen([]) if work.name.startswith("deep")]
    names = ["deep-fill", "deep-drain", "deep-drain-acks", "deep-restart"]
    assert [work.name for work in chosen(DEEP)] == names


def test_their_size_is_the_command_lines() -> None:
    options = parser().parse_args(["--messages", "50", "--body-bytes", "99", "--deadline", "4"])
    scale = scale_of(options)
    assert scale == Scale(50, 99, WHOLE.memory_bytes, 4.0)
    assert scale_of(parser().parse_args(["--quick"])) == QUICK
    small, other = scaled([*chosen(["deep-fill"]), WORKS["transient-16"]], scale)
    assert small.options[:4] == ("--fill", "50", "--size", "99")
    assert (small.memory_bytes, small.deadline_s) == (WHOLE.memory_bytes, 4.0)
    assert other is WORKS["transient-16"]


def test_a_disk_without_room_is_refused_with_a_sentence() -> None:
    works, scale = chosen(DEEP), Scale(1_000_000, 800, MIB, 1.0)
    needed = 1_000_000_000 + SPARE_BYTES
    assert room_problem(works, scale, needed) == ""
    assert "fewer --messages" in room_problem(works, scale, needed - 1)
    assert room_problem(chosen(["queues"]), WHOLE, 0) == ""


def test_the_last_part_is_held_against_the_first() -> None:
    whole = outcome(1_000, 200.0, 150.0)
    assert figures.LAST_TO_FIRST.read(whole, "deep-fill") == 0.75
    assert figures.FILLED_MEMORY.read(whole, "deep-fill") == 64
    assert figures.BYTES_EACH.read(whole, "deep-fill") == 3.5
    assert figures.DRAINED_PER_CPU.read(whole, "deep-fill") == 9.0


def test_what_a_broker_did_not_store_in_time_gives_no_figure_but_its_part() -> None:
    part = outcome(250, None, None)
    assert figures.FILLED.read(part, "deep-fill") == 25
    for figure in (figures.LAST_TO_FIRST, figures.FILLED_MEMORY, figures.DRAINED_PER_SECOND):
        assert figure.read(part, "deep-fill") is None
