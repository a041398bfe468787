"""Which policy counts, and what comes of it, beside a model that is as plain as the sentence.

The model asks Python's own regular expressions, one policy after the other, and puts settings
together key by key.
"""

import re
from dataclasses import dataclass
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import QueueKey
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import encode_command
from fedq.wiring.cluster_map.operations_policies import DropPolicy, PolicyChanged, PutPolicy
from fedq.wiring.cluster_map.policy_book import PolicyBook

NUMBERS = ("max-length", "message-ttl", "expires", "delivery-limit")
WORDS = {"overflow": ("drop-head", "reject-publish"), "dead-letter-exchange": ("", "x")}


@dataclass(frozen=True)
class Asked:
    """A policy as somebody asks for it."""

    name: str
    operator: bool
    pattern: str
    apply_to: str
    priority: int
    definition: dict[str, Any]


numbers = st.dictionaries(st.sampled_from(NUMBERS), st.integers(1, 5), min_size=1)
words = st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in WORDS.items()})
asked = st.builds(
    lambda operator, some, more, name, pattern, kind, priority: Asked(
        name, operator, pattern, kind, priority, some if operator else {**more, **some}
    ),
    st.booleans(), numbers, words, st.sampled_from("abc"),
    st.sampled_from(["", "^o", "n$", "a|b", "^orders\\.new$", "[xyz]"]),
    st.sampled_from(["queues", "all", "exchanges"]), st.integers(0, 2),
)  # fmt: skip
drops = st.builds(lambda name, operator: (name, operator), st.sampled_from("abc"), st.booleans())
arguments = st.fixed_dictionaries(
    {},
    optional={
        **{f"x-{name}": st.integers(1, 5) for name in NUMBERS},
        **{f"x-{name}": st.sampled_from(values) for name, values in WORDS.items()},
    },
)


def first(policies: dict[tuple[str, bool], Asked], operator: bool, name: str) -> Asked | None:
    """The policy that counts, as the sentence says it."""
    found = [
        each
        for each in policies.values()
        if each.operator is operator
        and each.apply_to != "exchanges"
        and re.search(each.pattern, name)
    ]
    return min(found, key=lambda each: (-each.priority, each.name), default=None)


def expected(user: Asked | None, operator: Asked | None, own: dict[str, Any]) -> dict[str, Any]:
    """The arguments that come of it."""
    sources = [
        {f"x-{k}": v for k, v in each.definition.items()} for each in (user, operator) if each
    ]
    found = dict(own)
    for name in (f"x-{each}" for each in (*NUMBERS, *WORDS)):
        values = [source[name] for source in (own, *sources) if name in source]
        if values:
            found[name] = values[0] if isinstance(values[0], str) else min(values)
    return found


@given(
    st.lists(st.one_of(asked, drops), max_size=8), arguments,
    st.sampled_from(["orders.new", "o", "x", "n"]),
)  # fmt: skip
def test_what_counts_is_what_the_model_says(
    history: list[Asked | tuple[str, bool]], own: dict[str, Any], name: str
) -> None:
    cluster, policies = ClusterMap(), dict[tuple[str, bool], Asked]()
    book = PolicyBook(cluster)
    for number, step in enumerate(history):
        operation: PutPolicy | DropPolicy
        if isinstance(step, Asked):
            policies[step.name, step.operator] = step
            text = orjson.dumps(step.definition).decode()
            operation = PutPolicy(
                "/", step.name, step.operator, step.pattern, step.apply_to, step.priority, text
            )
        else:
            policies.pop(step, None)
            operation = DropPolicy("/", *step)
        for change in cluster.apply(encode_command(str(number), [operation])).changes:
            if isinstance(change, PolicyChanged):
                book.forget(change.key.vhost)
        key = QueueKey("/", name)
        user, operator = first(policies, False, name), first(policies, True, name)
        standing = book.of_queue(key, own)
        assert standing.policy == (user.name if user else "")
        assert standing.operator_policy == (operator.name if operator else "")
        assert book.queue_arguments(key, own) == expected(user, operator, own)
    # Whoever reads the snapshot finds the same.
    again = ClusterMap()
    again.restore(cluster.snapshot())
    found = PolicyBook(again).queue_arguments(QueueKey("/", name), own)
    assert found == book.queue_arguments(QueueKey("/", name), own)
