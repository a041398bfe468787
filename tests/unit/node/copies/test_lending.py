"""The other side of mending: what one copy answers another one."""

from fedq.core.ids import NodeId
from fedq.core.peer_messages import Bodies
from fedq.journal.records import encode_copy
from tests.unit.node.copies.test_long_queues import SMALL, filled
from tests.unit.node.copies.test_mending import backups_of, fragment_of
from tests.unit.node.harness import Cluster


def test_an_answer_that_is_full_before_its_first_message_was_found_is_not_empty() -> None:
    """Before, who asked took that for 'has nothing', and asked no more: all of it was lost.

    A copied record says between which positions it has some, which are not all of them.
    """
    cluster = Cluster(3, **SMALL, scrub_bytes_per_second=0)
    filled(cluster, 300, replicas=2)
    primary, backup = cluster.primary_of("q"), NodeId(backups_of(cluster)[0])
    fragment = fragment_of(cluster, primary)
    copy, state = cluster.node(backup).state.backups[fragment], cluster.node(backup).state
    first, last, _ = next(each for each in copy.replica.stowed if each[1] - each[0] > 60)
    wanted = list(range(first + 1, first + 60))
    assert wanted[-1] < last
    # Every other one is written anew, as by a segment that was moved.
    served = cluster.node(primary).state.primaries[fragment].fragment
    some = [p for p in range(first, first + 62) if p not in wanted[::2]]
    message = next(message for message in served.messages.values() if message)
    data = encode_copy(fragment, served.reign, some, [message] * len(some), {})
    assert len(data) > state.settings.segment_bytes_max >> 3
    state.plan.append(fragment, data, True, some[0], some[-1], copied=True)
    cluster.pass_ms(1_000)
    assert state.plan.locate(fragment, wanted[0]) != state.plan.locate_all(fragment, wanted[0])[-1]
    done: list[tuple[list[int], bool]] = []
    mending = cluster.node(primary).copies.mending
    cluster.overheard.clear()
    mending.ask(fragment, wanted, lambda left, silent: done.append((left, silent)), fills=False)
    cluster.wait_for(lambda: len(done) == 1)
    answers = [each for _, _, each in cluster.overheard if isinstance(each, Bodies)]
    assert len(answers) > 1
    assert all(each.positions for each in answers)
    assert done == [([], False)]
