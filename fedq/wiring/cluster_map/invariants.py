"""What holds in every cluster map, asserted: for snapshots that are read, and for tests.

Input: a map's state. Output: nothing, or an AssertionError. Invariants: a primary is in its in-sync
set, and that within the copies; every fragment belongs to its queue and every queue has one; no
binding dangles; a name is a queue's or claimed, never both; up members of the era are what keeps it
alive; exchanges, queues, policies, parameters and grants are in virtual hosts that exist, and
grants are users'. The voters and the roster are bounded.
"""

from fedq.core.limits import NODES_MAX, VOTERS_MAX
from fedq.wiring.cluster_map.state import MapState, ends_of


def check(state: MapState) -> None:
    """Asserts the invariants of the module's docstring; walks everything."""
    for number, info in state.fragments.items():
        assert number == info.id
        assert 0 < number < state.next_fragment
        assert info.id in state.queues[info.queue].fragments, "a fragment without its queue"
        assert info.primary in info.in_sync, "a primary out of sync"
        assert len({*info.copies}) == len(info.copies), "two copies on one node"
        assert all(node in info.copies for node in info.in_sync), "in sync, but no copy"
        assert all(node in state.members for node in info.copies), "a copy on no member"
        assert info.created <= info.reign <= info.epoch
    for key, queue in state.queues.items():
        assert queue.fragments
        assert len({*queue.fragments}) == len(queue.fragments)
        assert all(state.fragments[number].queue == key for number in queue.fragments)
        assert key not in state.claims
        assert key.vhost in state.vhosts
    assert all(key in state.queues for key in state.shapes), "a number of fragments of no queue"
    for binding in state.bindings:
        (source, (kind, key)) = ends_of(binding)
        assert source in state.exchanges, "a binding without its exchange"
        if kind == "queue":
            assert key in state.queues, "a binding without its queue"
        if kind == "exchange":
            assert key in state.exchanges, "a binding without its destination"
        assert binding in state.bindings_of_source[source]
        assert binding in state.bindings_of_destination[kind, key]
    for key, claim in state.claims.items():
        assert state.is_up(*claim), "a claim of a process that is gone"
        assert key.vhost in state.vhosts
    for number, node in state.moves.items():
        assert state.fragments[number].primary != node, "a move that is done"
        assert state.members[node].up, "a move to a node that is down"
        assert node not in state.drained, "a move to a drained node"
    assert all(node in state.members for node in state.drained), "a drained node, but no member"
    vhosts = [key.vhost for key in state.exchanges]
    vhosts += [key.vhost for key in (*state.policies, *state.operator_policies)]
    vhosts += [key.vhost for key in state.parameters if key.component]
    vhosts += [trace.stream_vhost for trace in state.traces.values()]
    assert all(vhost in state.vhosts for vhost in vhosts), "something of no virtual host"
    assert all(vhost in state.vhosts for vhost in state.vhost_limits), "limits of no vhost"
    assert all(user in state.users for user in state.user_limits), "limits of no user"
    for user, vhost in state.grants:
        assert user in state.users, "a grant without its user"
        assert vhost in state.vhosts, "a grant without its virtual host"
    for user, vhost, _ in state.topic_permissions:
        assert user in state.users, "permissions of topics without their user"
        assert vhost in state.vhosts, "permissions of topics without their virtual host"
    assert len(state.voters) <= VOTERS_MAX, "too many voters"
    assert len(state.roster) <= NODES_MAX, "too many nodes"
    wanted = [node for node, place in state.roster.items() if place.votes]
    assert bool(wanted) == bool(state.roster), "nobody should vote"
    assert len(wanted) <= VOTERS_MAX, "too many should vote"
    assert not {*state.roster} & {*state.forgotten}, "of the cluster, and forgotten"
