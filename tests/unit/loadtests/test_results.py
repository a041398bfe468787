"""A report has the medians, ranges and verdicts of its runs, and hides nothing."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from loadtests.macro import chart, document, profile, results
from loadtests.macro.__main__ import line_of, main
from loadtests.macro.machine import disturbance, machine_busy_s
from tests.unit.loadtests.runs import OUTCOME, report_of, run

TRANSIENT = "transient-16"


def test_medians_and_ranges_are_those_of_the_rounds() -> None:
    rates = (500_000.0, 700_000.0, 400_000.0)
    ours = [
        run(TRANSIENT, number=n, deliveries_per_cpu_second=rate) for n, rate in enumerate(rates, 1)
    ]
    theirs = [run(TRANSIENT, "rabbitmq", n, deliveries_per_cpu_second=100_000.0) for n in (1, 2, 3)]
    row = report_of(*ours, *theirs, rounds=3)["rows"][0]
    assert row["brokers"]["fedq"]["median"] == 500_000.0
    assert (row["brokers"]["fedq"]["least"], row["brokers"]["fedq"]["most"]) == (4e5, 7e5)
    assert row["ratio"] == pytest.approx(5.0)
    assert row["is_reached"] is True
    assert results.cells(row)[2:] == [
        "500,000 (400,000 to 700,000)", "100,000 (100,000 to 100,000)", "5", "≥ 400,000", "reached",
    ]  # fmt: skip


def test_a_missed_aim_is_said() -> None:
    row = report_of(run(TRANSIENT, deliveries_per_cpu_second=399_999.0))["rows"][0]
    assert row["is_reached"] is False
    assert results.cells(row)[-1] == "**missed**"


def test_what_time_tells_is_marked_when_others_used_the_machine() -> None:
    works = ("latency-1000", TRANSIENT)
    runs = [run(work, kind, others=0.6) for work in works for kind in ("fedq", "rabbitmq")]
    rows = report_of(*runs)["rows"]
    verdicts = {(row["figure"], row["unit"]): results.cells(row)[-1] for row in rows}
    assert verdicts["end to end p50", "µs"] == "reached, disturbed"
    assert verdicts["messages", "a CPU-second"] == "**missed**"


def test_a_broker_that_hardly_worked_is_said() -> None:
    thin = [OUTCOME["brokers"][0] | {"cpu_seconds": 0.01}]
    report = report_of(run(TRANSIENT, brokers=thin), run("latency-1000", brokers=thin))
    assert report["broker_was_idle"] == [f"{TRANSIENT} on fedq"]
    assert "of few messages: transient-16 on fedq" in results.markdown(report, "chart.svg")


def test_what_did_not_finish_is_said_and_does_not_count() -> None:
    failed = run("fanout-10000", "rabbitmq", failure="did not finish within 126 s")
    again = run("fanout-10000", "rabbitmq", 2)
    report = report_of(run("fanout-10000"), failed, again, rounds=2)
    row = report["rows"][0]
    assert row["brokers"]["rabbitmq"]["values"] == [1_000.0]
    assert "1 of 2 did not finish" in results.cells(row)[3]
    assert results.failures(report) == [
        "rabbitmq, fanout-10000: 1 of 2 rounds failed: did not finish within 126 s"
    ]
    assert "did not finish within 126 s" in results.markdown(report, "chart.svg")
    alone = report_of(failed)["rows"][0]
    assert results.cells(alone)[3] == "did not finish"
    assert alone["is_reached"] is None


def test_a_rise_pairs_the_runs_of_one_round() -> None:
    runs = [
        run("spread-1", number=1, deliveries_per_cpu_second=100.0),
        run("spread-3", number=1, deliveries_per_cpu_second=50.0),
        run("spread-1", number=2, deliveries_per_cpu_second=300.0),
        run("spread-3", number=2, deliveries_per_cpu_second=300.0),
        run("spread-1", number=3, failure="the broker did not start"),
        run("spread-3", number=3, deliveries_per_cpu_second=1.0),
    ]
    row = report_of(*runs, rounds=3)["rows"][-1]
    assert row["brokers"]["fedq"]["values"] == [2.0, 1.0]


def test_a_busy_generator_and_a_busy_machine_are_said() -> None:
    busy = report_of(run(TRANSIENT, generator_share=0.93))
    assert busy["generator_was_busy"] == [TRANSIENT]
    assert "may have been the limit" in results.markdown(busy, "chart.svg")
    assert disturbance([0.01, 0.5, 0.02, None]) == ""
    assert "12% of it in the median run, 50% at most" in disturbance([0.12, 0.01, 0.5])
    assert disturbance([None]) == ""


def test_the_busy_time_of_a_machine_leaves_out_what_is_idle_or_counted_twice() -> None:
    #       user nice system idle iowait irq softirq steal guest guest_nice
    stat = "cpu  100 200 300 9999 8888 400 500 600 70 80\ncpu0 1 2 3 4\n"
    ticks = machine_busy_s(stat) / machine_busy_s("cpu 1 0 0 0 0 0 0 0 0 0")
    assert ticks == pytest.approx(2_100)


def test_the_chart_shows_every_figure() -> None:
    report = report_of(
        run("fanout-10000-paced"), run("fanout-10000-paced", "rabbitmq", failure="too late"),
    )  # fmt: skip
    drawing = chart.draw(report)
    texts = [element.text or "" for element in ElementTree.fromstring(drawing).iter()]
    for row in report["rows"]:
        assert any(text.startswith(f"{row['figure']}, {row['unit']}") for text in texts)
    assert texts.count("did not finish") == len(report["rows"])
    assert chart.draw(report) == drawing


def test_the_table_of_the_document_is_replaced_and_the_rest_is_kept() -> None:
    others = f"{document.BEGIN.format('profile')}\nolder\n{document.END}\n"
    mark = document.BEGIN.format("document")
    text = f"# Title\n\n{others}{mark}\nold table\n{document.END}\n\nafter\n"
    assert document.replaced(text, "new", "document") == text.replace("old table", "new")
    with pytest.raises(ValueError, match="has no lines"):
        document.replaced("# Title", "new", "document")
    path = document.RESULTS / "2026-11-21-bench.json"
    section = document.section(report_of(run(TRANSIENT)), path, document.DOCUMENT)
    assert "](../loadtests/results/2026-11-21-bench.md)" in section
    assert re.search(r"^\| 1 → 1, transient", section, re.MULTILINE)


def test_the_end_of_each_run_is_told() -> None:
    assert "messages 1,000 a CPU-second" in line_of(run(TRANSIENT))
    assert line_of(run(TRANSIENT, failure="too late")).endswith("too late")


def test_an_unknown_work_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--works", "nonsense"]) == 2
    assert "no work or group is called nonsense" in capsys.readouterr().out
    assert main(["--list"]) == 0
    assert "idle-10000" in capsys.readouterr().out


STACKS = """\
run (a.py:1);turn (b.py:2);scan (c.py:3) 30
run (a.py:1);turn (b.py:2) 10
run (a.py:1);turn (b.py:9);scan (c.py:4);scan (c.py:3) 20
run (a.py:1);epoll_pwait (libc.so.6) 70
_bootstrap (threading.py:1);_worker (thread.py:2);wait (t.py:3) 500
"""


def test_a_profile_counts_the_loop_and_not_the_threads_that_wait() -> None:
    top = dict(profile.shares(STACKS))
    assert {name.partition(" ")[0]: share for name, share in top.items()} == {
        "scan": pytest.approx(50 / 60), "turn": pytest.approx(10 / 60),
    }  # fmt: skip
    called = {name.partition(" ")[0]: share for name, share in profile.shares(STACKS, True)}
    assert called == {"run": 1.0, "turn": 1.0, "scan": pytest.approx(50 / 60)}
    compiled = (
        "run (a.py:1);CPyDef_fan_out___FanOut___deliver (fedq/x.so);CPyDict_GetItem (fedq/x.so) 1\n"
        "run (a.py:1);send (libc.so.6) 1\nrun (a.py:1);TimerHandle___cinit__ (loop.c:7) 2\n"
    )
    assert dict(profile.shares(compiled)) == {
        "FanOut.deliver": 0.25, "the kernel's send": 0.25, "the event loop's own": 0.5,
    }  # fmt: skip
    section = profile.section({"one": profile.shares(STACKS), "two": []})
    assert "| `scan` | 83% |  |  |" in section
