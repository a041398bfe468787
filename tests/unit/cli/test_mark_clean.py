"""`fedq store mark-clean` against real admin services with hand-filled overviews."""

from dataclasses import replace

from fedq.core.ids import Epoch, FragmentId, Incarnation, NodeId
from fedq.node.views.overview_types import MemberState
from fedq.node.views.storage_types import CopyRole
from fedq.wiring.cluster_map.operations_copies import AdoptCopy
from tests.unit.admin.served import set_member
from tests.unit.admin.test_adopting import A_COPY, ORDERS, orphaned, proposing
from tests.unit.cli.command import fedq

LAST = (2 << 40) + 9
LOST = (
    "fragment 1: n1 had all that was confirmed; the copy of n2 has 7 messages and ends at event "
    f"{LAST} of reign 2, not 3: what was confirmed after that is lost, and what was acknowledged "
    "after that may come again; if n1 comes back, what it alone has is dropped: `fedq store "
    "export` it first"
)


def test_it_says_what_is_lost_and_does_nothing_without_the_name() -> None:
    cluster = orphaned()
    cluster["n2"].copied[ORDERS] = [replace(A_COPY, last=LAST, last_reign=2)]
    with proposing(cluster) as (servers, proposals):
        at = servers.address("n3")
        done = fedq("store", "mark-clean", "orders", "--node", at)
        other = fedq("store", "mark-clean", "orders", "--accept-loss", "mails", "--node", at)
    assert done.exit_code == 1
    assert done.sentence == f"{LOST}. If that is what you want, add --accept-loss orders"
    assert (other.exit_code, other.sentence) == (2, "--accept-loss names 'mails', not 'orders'")
    assert proposals.proposed == []


def test_the_best_copy_counts_unless_another_one_is_named() -> None:
    cluster = orphaned()
    cluster["n2"].copied[ORDERS] = [replace(A_COPY, last=9)]
    kept = replace(A_COPY, role=CopyRole.KEPT, last=7, whole=False, messages=90)
    cluster["n3"].copied[ORDERS] = [kept]
    asked = ("store", "mark-clean", "orders", "--accept-loss", "orders")
    with proposing(cluster) as (servers, proposals):
        at = servers.address("n3")
        best = fedq(*asked, "--json", "--node", at).value
        named = fedq(*asked, "--copy", "n3", "--node", at)
    assert best["fragments"] == [{"fragment": 1, "node": "n2"}]
    assert (named.exit_code, named.out) == (0, "1 fragments of orders are served again\n")
    assert proposals.proposed == [
        AdoptCopy(FragmentId(1), Epoch(4), NodeId(node), Incarnation(1)) for node in ("n2", "n3")
    ]


def test_a_copy_that_was_still_being_made_is_said_to_lack_older_ones() -> None:
    cluster = orphaned()
    cluster["n2"].copied[ORDERS] = [replace(A_COPY, last=LAST, whole=False)]
    with proposing(cluster) as (servers, _):
        done = fedq("store", "mark-clean", "orders", "--node", servers.address("n2"))
    assert "is lost, and older ones that it had not been sent yet, and what was" in done.sentence


def test_where_nobody_has_a_copy_only_an_empty_beginning_is_left() -> None:
    cluster = orphaned()
    cluster["n2"].copied.clear()
    asked = ("store", "mark-clean", "orders", "--accept-loss", "orders")
    with proposing(cluster) as (servers, proposals):
        at = servers.address("n3")
        none = fedq(*asked, "--node", at)
        copy = fedq(*asked, "--copy", "n2", "--node", at)
        unsaid = fedq("store", "mark-clean", "orders", "--empty", "n3", "--node", at)
        empty = fedq(*asked, "--empty", "n3", "--node", at)
    assert none.sentence == (
        "no node that is up has a copy of fragment 1, which waits for n1; --empty NODE begins it "
        "anew, with nothing"
    )
    assert copy.sentence.startswith("n2 has no copy of fragment 1, or does not say so")
    assert "n3 begins with nothing: all of it is lost" in unsaid.sentence
    assert empty.exit_code == 0
    assert [type(each) for each in proposals.proposed] == [AdoptCopy]


def test_a_queue_that_is_served_or_unknown_is_left_alone() -> None:
    cluster = orphaned()
    set_member(cluster, "n1", state=MemberState.UP)
    with proposing(cluster) as (servers, proposals):
        at = servers.address("n3")
        served = fedq("store", "mark-clean", "orders", "--accept-loss", "orders", "--node", at)
        unknown = fedq("store", "mark-clean", "mails", "--accept-loss", "mails", "--node", at)
    assert served.sentence == (
        "queue orders needs no other copy: of each fragment a node with one in sync is up"
    )
    assert unknown.sentence.startswith("no shared queue 'mails' in vhost '/'")
    assert proposals.proposed == []
