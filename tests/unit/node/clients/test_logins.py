"""Verifying a password takes long on purpose: no turn does it, and each place has its turn."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.connection import Connection, ConnectionSettings
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.core.ids import ConnectionId
from fedq.core.limits import LOGINS_RUNNING_MAX
from fedq.node.clients.logins import Login, LoginQueue, place_of
from fedq.node.records.client_state import Client
from fedq.wiring.cluster_map.operations_access import PutUser, SetPermissions
from fedq.wiring.cluster_map.passwords import COST_MIN, make_record
from tests.unit.amqp.wire import start_ok
from tests.unit.node.harness import Cluster

CLIENTS = 12


def test_a_crowd_of_logins_is_verified_beside_the_turns() -> None:
    cluster = Cluster(1)
    node = cluster.node("n1")
    for number in range(CLIENTS):
        record = make_record(f"secret {number}", bytes(16), COST_MIN)
        node.on_change_asked(PutUser(f"u{number}", record, (), replace=False), lambda _: None)
        node.on_change_asked(SetPermissions(f"u{number}", "/", "", "", ""), lambda _: None)
    cluster.pass_ms(5_000)
    before = len(node.clients.access._known)
    node.begin_turn(cluster.now_ms)
    for number in range(CLIENTS):
        connection = ConnectionId(1_000 + number)
        node.on_connected(connection, "127.0.0.1:9", True)
        response = f"\0u{number}\0secret {number}".encode()
        node.on_bytes(connection, PROTOCOL_HEADER + start_ok(response=response))
    node.end_turn()
    verified = 0
    while node.out.verifications:
        wanted = node.out.verifications
        assert len(wanted) <= LOGINS_RUNNING_MAX
        assert len(node.clients.access._known) == before + verified, (
            "a turn has verified one itself"
        )
        node.out.clear()
        node.begin_turn(cluster.now_ms)
        for number, _, password in wanted:
            assert password == f"secret {verified}", "in the order in which they came"
            node.on_verified(number, True)
            verified += 1
        node.end_turn()
    assert verified == CLIENTS


def client() -> Client:
    settings = ConnectionSettings("n1", lambda *_: None, lambda _: True)
    return Client(ConnectionId(1), Connection(settings, 0, True), "", None)


steps = st.lists(
    st.tuples(st.sampled_from("AB"), st.sampled_from("xyz"), st.integers(0, 2)) | st.integers(0, 9)
)


@given(steps)
def test_places_and_their_users_take_turns(script: list[tuple[str, str, int] | int]) -> None:
    """Against a naive model: of all that waits, who was served least lately comes first."""
    queue = LoginQueue()
    model: dict[str, dict[str, deque[bytes]]] = {}
    clients: dict[bytes, list[Client]] = {}
    for step in script:
        if isinstance(step, tuple):
            place, user, number = step
            digest = f"{place}{user}{number}".encode()
            one = client()
            if not queue.join(one, digest):
                queue.add(one, Login(place, user, "", digest.decode(), digest))
            assert one in queue
            clients.setdefault(digest, []).append(one)
            if len(clients[digest]) == 1:
                model.setdefault(place, {}).setdefault(user, deque()).append(digest)
        elif step < 3 and clients:
            digest = sorted(clients)[step % len(clients)]
            one = clients[digest].pop()
            queue.forget(one)
            assert one not in queue
            if not clients[digest]:
                del clients[digest]
                place, user, _ = tuple(digest.decode())
                model[place][user].remove(digest)
                _tidy(model, place, user)
        else:
            wanted = queue.next()
            if not model:
                assert wanted is None
                continue
            place = next(iter(model))
            user = next(iter(model[place]))
            digest = model[place][user].popleft()
            users = model.pop(place)
            left = users.pop(user)
            if left:
                users[user] = left
            if users:
                model[place] = users
            assert wanted is not None
            assert wanted.password == digest.decode()
            ended = queue.end(wanted.number)
            assert ended is not None
            assert list(ended.clients) == clients.pop(digest)
            assert not any(each in queue for each in ended.clients)
    assert queue.running == 0


def _tidy(model: dict[str, dict[str, deque[bytes]]], place: str, user: str) -> None:
    if not model[place][user]:
        del model[place][user]
    if not model[place]:
        del model[place]


def _wait(queue: LoginQueue, place: str, number: int) -> None:
    digest = f"{place} {number}".encode()
    queue.add(client(), Login(place, "user", "", digest.decode(), digest))


def test_who_guesses_from_many_places_delays_the_others_once() -> None:
    """Each of 100 places has been wrong and guesses on: the others have three turns in four."""
    queue = LoginQueue()
    places = [f"guesser {number}" for number in range(100)]
    for place in places:
        _wait(queue, place, 0)
        _wait(queue, place, 1)
    wrong: set[str] = set()
    number = len(places)
    while len(wrong) < len(places):
        found = queue.next()
        assert found is not None
        ended = queue.end(found.number)
        assert ended is not None
        queue.doubt(ended.place)
        wrong.add(ended.place)
        _wait(queue, ended.place, number := number + 1)
    for number in range(6):
        _wait(queue, f"neighbour {number}", 0)
    served = [found.password for _ in range(8) if (found := queue.next()) is not None]
    assert sum("neighbour" in password for password in served) == 6
    assert sum("guesser" in password for password in served) == 2
    assert queue.next() is not None, "and whoever was wrong is heard, too"


def test_a_place_whose_password_was_right_is_trusted_again() -> None:
    queue = LoginQueue()
    queue.doubt("typo")
    for number in range(5):
        _wait(queue, "typo", number)
        _wait(queue, f"other {number}", 0)
    queue.trust("typo")
    queue.doubt("typo")
    queue.trust("typo")
    served = [found.password for _ in range(10) if (found := queue.next()) is not None]
    assert len(served) == 10
    assert "typo 0" in served[:6]


def test_a_place_is_an_address_or_a_customers_network() -> None:
    assert place_of("192.0.2.1:5672") == place_of("[::ffff:192.0.2.1]:7") == "192.0.2.1"
    assert place_of("[2001:db8::1]:1") == place_of("[2001:db8::ffff:2%eth0]:2")
    assert place_of("[2001:db8::1]:1") != place_of("[2001:db8:0:1::1]:1")
    assert place_of("unknown:0") == "unknown"
