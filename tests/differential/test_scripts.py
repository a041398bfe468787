"""Scripts as text, and what the comparison makes of streams; no broker needed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.content import encode_properties
from fedq.amqp.values import FieldTable
from tests.differential import decisions
from tests.differential.compare import Difference, differing
from tests.differential.documents import DOCUMENT, document
from tests.differential.names import Names
from tests.differential.script import CASES, Operation, Script, listing, parse, parse_line
from tests.differential.themes import THEMES
from tests.differential.typed import properties_text
from tests.examples import examples


@given(st.one_of(*THEMES.values()))
@settings(max_examples=examples(60))
def test_a_listing_is_the_script(script: Script) -> None:
    assert parse(listing(script)) == script


@pytest.mark.parametrize(
    "line",
    ["a1", "c1 basic.get()", "a1 basic.get('q0')", "a1 basic.get(quue='q0')", "a1 ack(nth=x)"],
)
def test_a_wrong_line_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_line(line)


def test_kept_cases_can_be_read() -> None:
    for case in CASES.rglob("*.txt"):
        assert parse(case.read_text(encoding="utf-8")), case.name


def test_names_go_out_and_come_back() -> None:
    names = Names("s1-")
    assert names.learn("n", "amq.gen-abc") == "n0"
    assert names.outward({"a": ["q0", "k0", "n0"]}) == {"a": ["s1-q0", "k0", "amq.gen-abc"]}
    assert names.inward("no queue 's1-q0' and 'amq.gen-abc'") == "no queue 'q0' and 'n0'"


def test_types_of_headers_are_seen() -> None:
    short = properties_text(encode_properties({"headers": {"count": 1}}))
    long = properties_text(encode_properties({"headers": {"count": 2**40}}))
    assert short == "headers={count=I:1}"
    assert long == f"headers={{count=l:{2**40}}}"


def test_equal_streams_do_not_differ() -> None:
    assert differing({"a1": ["x"], "b1": []}, {"a1": ["x"], "b1": []}) == {}
    assert differing({"a1": ["x"]}, {}) == {"a1": (["x"], [])}


def test_no_decision_covers_a_lost_message() -> None:
    get = Operation("a1", "basic.get", {"queue": "q0"})
    lost = Difference((get,), {"a1 get": (["BasicGetOk"], []), "a1": ([], ["BasicGetEmpty"])})
    assert decisions.decision(lost) is None


def test_an_exclusive_queue_that_goes_may_be_locked_for_a_moment() -> None:
    declared: FieldTable = {"queue": "q0", "auto_delete": True, "exclusive": True}
    script = (
        Operation("a1", "queue.declare", declared),
        Operation("a1", "basic.consume", {"queue": "q0"}),
        Operation("a1", "basic.consume", {"queue": "", "exclusive": True}, joined=True),
        Operation("b1", "queue.delete", {"queue": "q0"}),
    )
    locked = "ChannelClose reply_code=405 class_id=50 method_id=40"
    found = Difference(script, {"b1": (["QueueDeleteOk message_count=0"], [locked])})
    covering = decisions.decision(found)
    assert covering is not None
    assert "exclusive" in covering.where
    kept = (script[0]._replace(arguments={"queue": "q0", "exclusive": True}), *script[1:])
    assert decisions.decision(found._replace(script=kept)) is None
    left = (kept[0], Operation("a0", "hang-up", {}), script[-1])
    assert decisions.decision(found._replace(script=left)) is covering
    other = (kept[0], Operation("b0", "hang-up", {}), script[-1])
    assert decisions.decision(found._replace(script=other)) is None


def test_the_document_is_made_from_the_decisions() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), (
        "run python -m tests.differential --write"
    )
