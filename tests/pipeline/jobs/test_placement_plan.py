"""Plans of who should lead what: fewer crossings, within each node's share; and their page."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from fedq.pipeline.jobs.placement.page import Foresight, page_of, percent
from fedq.pipeline.jobs.placement.plan import Flow, plan
from fedq.pipeline.pages.page import html_of

NODES = ("a", "b", "c")
counts = st.dictionaries(st.sampled_from(NODES), st.integers(1, 1_000), max_size=3)
flows = st.lists(
    st.tuples(st.sampled_from(NODES), counts, counts), min_size=1, max_size=4
).map(lambda found: [flow(number, *each) for number, each in enumerate(found, 1)])  # fmt: skip


def flow(number: int, leads: str, published: dict[str, int], delivered: dict[str, int]) -> Flow:
    return Flow("/", f"q{number}", number, leads, published, delivered)


def crossing(found: list[Flow], leaders: tuple[str, ...]) -> int:
    """A message at a time, as a network would see it."""
    crossed = 0
    for each, leader in zip(found, leaders, strict=True):
        for table in (each.published, each.delivered):
            crossed += sum(count for node, count in table.items() if node != leader)
    return crossed


@given(flows)
def test_where_nodes_may_lead_anything_no_plan_is_better(found: list[Flow]) -> None:
    made = plan(found, NODES, slack=1_000.0, least=0.0)
    best = min(crossing(found, leaders) for leaders in product(NODES, repeat=len(found)))
    assert made.then == best
    targets = {each.fragment: each.target for each in made.moves}
    leaders = tuple(targets.get(each.fragment, each.leads) for each in found)
    assert crossing(found, leaders) == made.then
    assert crossing(found, tuple(each.leads for each in found)) == made.crossing


@given(flows, st.floats(0, 1), st.floats(0, 1))
def test_nobody_leads_more_than_its_share_by_a_plan(
    found: list[Flow], slack: float, least: float
) -> None:
    made = plan(found, NODES, slack, least)
    limit = (1 + slack) * sum(each.total for each in found) / len(NODES) + 1e-6
    most = max(made.led.values())
    assert sum(made.led_then.values()) == sum(made.led.values())
    assert max(made.led_then.values()) <= max(limit, most)
    totals = {each.fragment: each.total for each in found}
    assert all(each.saving >= least * totals[each.fragment] for each in made.moves)
    assert made.then <= made.crossing


def test_a_queue_goes_to_its_publishers_and_consumers() -> None:
    busy = [flow(1, "a", {"b": 900, "a": 100}, {"b": 1_000}), flow(2, "b", {"a": 2_000}, {})]
    made = plan(busy, ["a", "b"], 0.25, 0.1)
    assert [(each.fragment, each.source, each.target, each.saving) for each in made.moves] == [
        (2, "b", "a", 2_000), (1, "a", "b", 1_800),
    ]  # fmt: skip
    assert (made.crossing, made.then) == (3_900, 100)
    assert made.led == made.led_then == {"a": 2_000, "b": 2_000}


def test_what_is_near_already_stays_and_nodes_that_are_gone_lead_nothing() -> None:
    assert plan([flow(1, "a", {"a": 60, "b": 40}, {"c": 50})], NODES, 9.0, 0.0).moves == ()
    assert plan([flow(1, "gone", {"a": 60}, {})], NODES, 9.0, 0.0).moves == ()
    assert plan([], [], 0.25, 0.1).moves == ()
    assert plan([flow(1, "a", {"a": 48, "b": 52}, {})], NODES, 9.0, 0.1).moves == (), "for 4 %"


def test_a_plan_is_written_for_scripts_and_shown_to_people() -> None:
    made = plan([flow(1, "a", {"b": 900}, {"b": 900})], ["a", "b"], 2.0, 0.1)
    form = made.as_json("fedq.trace.all")
    assert form["fedq_plan"] == 1
    assert form["moves"] == [{
        "vhost": "/", "queue": "q1", "fragment": 1, "from": "a", "to": "b", "crossing": 1_800,
        "then": 0,
    }]  # fmt: skip
    steps = [(1_700_000_000_000, 900, 900, 0), (1_700_000_001_000, 900, 900, 0)]
    text = html_of(page_of("<trace>", made, Foresight(900, 90), steps, 1_700_000_100.0))
    assert "&lt;trace&gt;" in text
    assert "90 %" in text
    assert "fedq cluster rebalance --plan" in text
    assert percent(0, 0) == "nothing"
    empty = html_of(page_of("t", plan([], ["a"], 0.1, 0.1), None, [], 1_700_000_100.0))
    assert "None is worth it" in empty
