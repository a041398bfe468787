"""A fragment with priorities whose bodies leave memory and come back, against the same plain list.

The machine of `test_stowed_policies`, where every queue has priorities: what is on disk alone is
told by them, so it is handed out by priority and position, wherever bodies are.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from fedq.core.policy import DROP_HEAD, REJECT_PUBLISH, QueuePolicy
from tests.examples import examples
from tests.property.test_stowed_policies import StowedPolicyMachine

ranked = st.builds(
    QueuePolicy,
    message_ttl_ms=st.none() | st.none() | st.integers(5, 20),
    max_length=st.none() | st.none() | st.integers(0, 8),
    max_bytes=st.none(),
    overflow=st.sampled_from([DROP_HEAD, REJECT_PUBLISH]),
    dead_letter_exchange=st.none() | st.just("dlx"),
    delivery_limit=st.none() | st.integers(0, 2),
    counts_returns=st.just(True),
    max_priority=st.sampled_from([1, 5]),
    stream=st.none(),
)


class StowedPriorityMachine(StowedPolicyMachine):
    """The machine of a fragment with priorities, and a disk."""

    @initialize(policy=ranked)
    def begin(self, policy: QueuePolicy) -> None:
        super().begin(policy)


TestStowedPriorities = StowedPriorityMachine.TestCase
TestStowedPriorities.settings = settings(
    max_examples=examples(200), stateful_step_count=40, deadline=None
)
