"""Silence, proof and leases, on a clock that the test moves."""

from fedq.core.ids import NodeId
from fedq.core.peer_messages import Heartbeat
from fedq.wiring.failover.detector import Detector
from fedq.wiring.failover.lease import Lease

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def test_nobody_is_suspected_by_a_node_that_does_not_lead() -> None:
    detector = Detector(A, [A, B, C], 1_800)
    detector.refused(B)
    assert detector.suspects(1_000_000) == []
    detector.start_watching(1_000_000)
    assert detector.suspects(1_000_000) == [B]
    detector.stop_watching()
    assert detector.suspects(2_000_000) == []


def test_silence_counts_from_the_start_of_watching_or_the_last_word() -> None:
    detector = Detector(A, [B, C], 1_800)
    detector.heard(B, 50)
    detector.start_watching(10_000)
    detector.heard(C, 10_500)
    assert detector.suspects(11_799) == []
    assert detector.suspects(11_800) == [B]
    assert detector.suspects(12_300) == [B, C]
    detector.heard(B, 12_300)
    assert detector.suspects(12_300) == [C]


def test_a_refused_connection_is_proof_until_the_node_is_heard() -> None:
    detector = Detector(A, [B], 1_800)
    detector.start_watching(0)
    detector.heard(B, 10)
    detector.link_lost(B)
    assert detector.suspects(20) == []
    detector.refused(B)
    assert detector.suspects(20) == [B]
    detector.heard(B, 30)
    assert detector.suspects(30) == []


def test_a_process_that_was_only_named_is_unheard() -> None:
    detector = Detector(A, [B], 1_800)
    detector.start_watching(0)
    detector.heard(B, 10)
    detector.refused(B)
    assert detector.unheard == []
    detector.named(B, 5_000)
    assert detector.suspects(5_000) == [], "the earlier process was refused, not this one"
    assert detector.unheard == [B]
    detector.refused(B)
    assert (detector.suspects(5_001), detector.unheard) == ([B], [B])
    detector.heard(B, 5_002)
    assert detector.unheard == []


def test_who_was_not_heard_lately_is_unproven() -> None:
    detector = Detector(A, [A, B, C], 1_800)
    assert detector.unproven(0) == [B, C]
    detector.heard(B, 100)
    detector.heard(C, 100)
    assert detector.unproven(699) == []
    assert detector.unproven(700) == [B, C]
    detector.heard(B, 700)
    detector.heard(C, 700)
    detector.link_lost(B)
    detector.refused(C)
    assert detector.unproven(700) == [B, C]
    detector.heard(B, 710)
    detector.heard(C, 710)
    assert detector.unproven(710) == []


def test_later_peers_are_watched_too() -> None:
    detector = Detector(A, [], 1_800)
    detector.add_peer(B)
    detector.add_peer(A)
    detector.start_watching(0)
    assert detector.suspects(1_800) == [B]


def beat(echo_ms: int, leads: bool = False) -> Heartbeat:
    return Heartbeat(1, echo_ms, leads)


def test_a_single_node_always_holds() -> None:
    lease = Lease(A, [A], 700)
    assert lease.holds(10_000, None)
    assert lease.holds(10_000, A)
    assert lease.leads(10_000, A)
    assert not lease.leads(10_000, None)


def test_a_follower_holds_while_the_leader_hears_it() -> None:
    lease = Lease(A, [A, B, C], 700)
    assert not lease.holds(1_000, B)
    lease.on_heartbeat(B, beat(900), 1_000)
    assert not lease.holds(1_000, B), "b did not say that it leads"
    lease.on_heartbeat(B, beat(950, leads=True), 1_000)
    assert lease.holds(1_649, B)
    assert not lease.holds(1_650, B)
    assert not lease.leads(1_000, B)


def test_a_lease_outlives_its_leader() -> None:
    """Whoever is elected has to watch for longer before it may call anybody silent."""
    lease = Lease(A, [A, B, C], 700)
    lease.on_heartbeat(B, beat(950, leads=True), 1_000)
    for leader in (None, C):
        assert lease.holds(1_649, leader)
        assert not lease.holds(1_650, leader)
    lease.on_heartbeat(C, beat(1_500), 1_600)
    assert not lease.holds(1_650, None), "c has not said that it leads"


def test_a_former_leader_s_lease_ends_with_its_majority_s_last_word() -> None:
    lease = Lease(A, [A, B, C], 700)
    lease.on_heartbeat(B, beat(900), 1_000)
    assert lease.leads(1_000, A)
    assert lease.holds(1_599, None)
    assert lease.holds(1_599, B)
    assert not lease.leads(1_100, B)
    assert not lease.holds(1_600, None)
    lease.on_heartbeat(C, beat(1_500), 1_550)
    assert not lease.holds(1_600, None), "it did not lead when c said that"


def test_a_leader_holds_while_a_majority_hears_it() -> None:
    voters = [A, B, C, NodeId("d"), NodeId("e")]
    lease = Lease(A, voters, 700)
    lease.on_heartbeat(B, beat(900), 1_000)
    assert not lease.leads(1_000, A)
    lease.on_heartbeat(C, beat(950), 1_000)
    assert lease.leads(1_599, A)
    assert lease.holds(1_599, A)
    assert not lease.leads(1_600, A)
    assert not lease.holds(1_600, A)
    assert not lease.leads(1_599, B)


def test_observers_do_not_count() -> None:
    lease = Lease(A, [A, B, C], 700)
    lease.on_heartbeat(NodeId("observer"), beat(1_000), 1_000)
    assert not lease.leads(1_000, A)
    observer = Lease(NodeId("observer"), [A, B, C], 700)
    observer.on_heartbeat(A, beat(1_000, leads=True), 1_000)
    assert observer.holds(1_000, A)


def test_older_and_impossible_echoes_change_nothing() -> None:
    lease = Lease(A, [A, B, C], 700)
    lease.on_heartbeat(B, beat(1_000, leads=True), 1_000)
    lease.on_heartbeat(B, beat(400, leads=True), 1_000)
    assert lease.holds(1_600, B)
    lease.on_heartbeat(C, beat(9_000, leads=True), 1_000)
    lease.on_heartbeat(C, beat(0, leads=True), 1_000)
    assert not lease.holds(1_700, C)


def test_a_lease_has_an_end_that_moves_with_what_was_heard() -> None:
    lease = Lease(A, [A, B, C], 700)
    assert lease.ends_ms(B) == 0
    lease.on_heartbeat(B, beat(950, leads=True), 1_000)
    assert lease.ends_ms(B) == 1_650
    assert lease.holds(1_649, B)
    assert not lease.holds(1_650, B)
    assert lease.ends_ms(None) == 1_650, "whoever leads by then"


def test_a_leaders_lease_ends_with_the_majority_that_heard_it() -> None:
    d, e = NodeId("d"), NodeId("e")
    lease = Lease(A, [A, B, C, d, e], 700)
    for peer, echo_ms in ((B, 900), (C, 500)):
        lease.on_heartbeat(peer, beat(echo_ms), 1_000)
    assert lease.ends_ms(A) == 1_200, "two others and itself are three of five"
    lease.on_heartbeat(d, beat(800), 1_000)
    assert lease.ends_ms(A) == 1_500


def test_a_lease_counts_who_elects_by_now() -> None:
    voters = [A, B, C, NodeId("d"), NodeId("e")]
    lease = Lease(A, voters, 700)
    lease.on_heartbeat(B, beat(950), 1_000)
    assert not lease.holds(1_000, A)
    lease.count([A, B, C])
    assert lease.holds(1_000, A)
    lease.count([B, C])
    assert not lease.leads(1_000, A), "it has no vote"


def test_whoever_was_alone_is_so_no_more_once_another_elects() -> None:
    lease = Lease(A, [A], 700)
    assert lease.holds(10_000, None)
    lease.count([A, B])
    assert not lease.holds(10_000, None)
    lease.on_heartbeat(B, beat(9_900), 10_000)
    assert lease.holds(10_000, A)
