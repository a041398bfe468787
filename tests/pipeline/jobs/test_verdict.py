"""What an audit concludes, and its page."""

from dataclasses import replace

from fedq.pipeline.jobs.audit.page import page_of
from fedq.pipeline.jobs.audit.verdict import PROMISES, Coverage, Finding, Verdict
from fedq.pipeline.pages.page import html_of

NAMES = dict.fromkeys(PROMISES, 0)
COVERAGE = Coverage(1_700_000_000_000, 1_700_000_600_000, ("a", "b"), 90, 0, 0)
FINDING = Finding(
    "P2", "delivered again, unmarked", "/", "<orders>", 3, (2 << 40) + 17, "b", 1_700_000_300_000,
    "delivered to consumer x",
)  # fmt: skip
KEPT = Verdict(
    COVERAGE, dict.fromkeys(PROMISES, 5), NAMES, {}, (), ((1_700_000_000_000, "delivered", 5),)
)
REFUTED = replace(KEPT, counts={**NAMES, "P2": 1}, rules={FINDING.rule: 1}, findings=(FINDING,))


def test_a_promise_is_kept_only_where_it_was_judged_on_all_there_was() -> None:
    assert KEPT.of("P1") == "kept"
    assert replace(KEPT, judged={**KEPT.judged, "P1": 0}).of("P1") == "open"
    for holed in (replace(COVERAGE, lost_events=1), replace(COVERAGE, missing_batches=1)):
        assert replace(KEPT, coverage=holed).of("P1") == "open"
        # What is there refutes, whatever else is missing.
        assert replace(REFUTED, coverage=holed).of("P2") == "refuted"
    unsure = replace(KEPT, undecided=1)
    assert (unsure.of("P1"), unsure.of("P2"), unsure.is_refuted) == ("open", "kept", False)
    assert (REFUTED.is_refuted, KEPT.is_refuted) == (True, False)


def test_an_offending_message_has_a_name() -> None:
    assert FINDING.name == "fragment 3, 2.17"
    assert replace(FINDING, position=None).name == "fragment 3"
    form = REFUTED.as_json()
    assert form["findings"][0]["message"] == "fragment 3, 2.17"
    assert form["verdicts"]["P2"] == "refuted"


def test_the_page_names_messages_and_says_what_is_missing() -> None:
    found = html_of(page_of("fedq.trace.t", REFUTED, 1_700_000_700.0))
    assert "&lt;orders&gt;" in found
    assert "fragment 3, 2.17" in found
    assert "These promises were broken" in found
    assert "Nothing refutes a promise." in html_of(page_of("t", KEPT, 0.0))
    assert "so P1 is open" in html_of(page_of("t", replace(KEPT, undecided=1), 0.0))
    holed = replace(KEPT, coverage=replace(COVERAGE, lost_events=3))
    assert "nothing is proved either" in html_of(page_of("t", holed, 0.0))
    empty = replace(KEPT, coverage=Coverage(0, 0, (), 0, 0, 0), activity=())
    assert "No events." in html_of(page_of("t", empty, 0.0))
