"""Who may be about to log in, and who makes room for whom."""

import asyncio

from fedq.shell.clients.lobby import Lobby
from tests.integration.stock import Address
from tests.unit.shell.fakes import run, until
from tests.unit.shell.serving import HOST, hears_nothing, served


def lobby(size: int, per_address: int, opened: set[int] | None = None) -> Lobby[int]:
    members = opened if opened is not None else set()
    return Lobby(size, per_address, lambda guest: guest in members, safe_s=1.0, sweep_s=0.0)


def test_one_address_takes_no_more_than_its_part() -> None:
    found = lobby(10, 4)
    for guest in range(9):
        assert found.make_room("crowd", 0.0) is None
        assert found.enter(guest, "crowd", 0.0) is (guest < 4)
    assert found.enter(100, "other", 0.0)
    # The oldest of that address makes room, once it had its time; nobody of another one does.
    assert found.make_room("crowd", 0.9) is None
    assert found.make_room("crowd", 1.0) == 0
    assert found.enter(9, "crowd", 1.0)
    assert [found.make_room("crowd", 1.0) for _ in range(2)] == [1, None]


def test_crowds_make_room_for_who_comes_from_elsewhere() -> None:
    """Guesses from many addresses, each of which has its part, fill the lobby within the second."""
    opened: set[int] = set()
    found = lobby(20, 10, opened)
    for guest in range(20):
        assert found.enter(guest, f"crowd {guest % 4}", 0.0)
    found.sweep_s = 9.0
    assert found.make_room("crowd 3", 0.1) is None, "it has as many as the others, and all are safe"
    opened.add(0)
    assert found.make_room("other", 0.1) == 4, "the first of that address has just logged in"
    assert found.enter(100, "other", 0.1)
    assert found.enter(50, "crowd 1", 0.1)
    assert found.make_room("another", 0.1) == 1
    assert found.enter(101, "another", 0.1)
    # Who has one is never gone for those who have more.
    for now in (5.0, 6.0):
        for guest in range(200, 240):
            found.make_room(f"crowd {guest % 4}", now)
            found.enter(guest + int(now) * 100, f"crowd {guest % 4}", now)
    before = len(found)
    found.leave(100)
    found.leave(101)
    assert len(found) == before - 2, "they were there"


def test_who_has_logged_in_takes_no_room() -> None:
    opened = {0, 1}
    found = lobby(10, 3, opened)
    for guest in range(3):
        found.enter(guest, "crowd", 0.0)
    assert found.make_room("crowd", 5.0) is None
    assert len(found) == 1
    assert found.enter(3, "crowd", 5.0)


def test_a_full_server_is_made_room_in_by_those_who_wait() -> None:
    found = lobby(10, 10)
    found.enter(1, "a", 0.0)
    found.enter(2, "b", 0.5)
    assert found.make_room("c", 0.9, is_full=True) is None
    assert found.make_room("c", 2.0, is_full=True) == 1
    found.leave(2)
    assert found.make_room("c", 2.0, is_full=True) is None
    assert len(found) == 0


def test_silent_clients_do_not_take_all_connections() -> None:
    """Fewer connections than the lobby has room for: that used to shut everybody out."""

    async def scenario() -> None:
        async with served(connections_max=40, lobby_max=100) as one:
            one.server.lobby.safe_s = one.server.lobby.sweep_s = 0.0
            silent = [await asyncio.open_connection(HOST, one.port) for _ in range(45)]
            assert await hears_nothing(silent[0][0])
            await until(lambda: one.server.connections < 40)
            _, writer = await asyncio.open_connection(HOST, one.port)
            place = Address(*writer.get_extra_info("sockname")[:2])
            shown = f"{place.host}:{place.port}"
            await until(lambda: any(each[1] == shown for each in one.node.of("on_connected")))
            for _, each in [*silent, (None, writer)]:
                each.close()

    run(scenario())
