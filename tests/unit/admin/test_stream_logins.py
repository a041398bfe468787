"""Callers that read streams: who they say they are, and whether that is so."""

import asyncio
import base64
from collections.abc import Awaitable, Callable

import grpc
import pytest

from fedq.admin import stream_logins
from fedq.admin.refusal import AdminError
from fedq.admin.stream_logins import Caller, StreamLogins, caller_of
from fedq.core import limits
from fedq.node.views.stream_view import StreamView
from fedq.wiring.cluster_map.passwords import COST_MIN, make_record, verify

PEER = "ipv4:127.0.0.1:40000"
ELSEWHERE = "ipv4:192.0.2.7:40000"


def basic(text: str | bytes) -> tuple[tuple[str, str], ...]:
    data = text if isinstance(text, bytes) else text.encode()
    return (("authorization", f"Basic {base64.b64encode(data).decode()}"),)


class Users:
    """Users and their records, as a map has them."""

    def __init__(self) -> None:
        self.records = {
            "robot": make_record("secret", b"s" * 16, COST_MIN),
            "guest": make_record("guest", b"g" * 16, COST_MIN),
            "nobody": "",
        }

    def password_record(self, user: str) -> str | None:
        return self.records.get(user)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords that were looked at, at a cost."""
    looked_at: list[str] = []

    def count(record: str, password: str) -> bool:
        looked_at.append(password)
        return verify(record, password)

    monkeypatch.setattr(stream_logins, "verify", count)
    return looked_at


def run(logins: Callable[[StreamLogins], Awaitable[None]], users: Users) -> None:
    async def begin() -> None:
        view: StreamView = users  # type: ignore[assignment]
        await logins(StreamLogins(view))

    asyncio.run(begin())


async def refused(logins: StreamLogins, caller: Caller) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(AdminError) as caught:
        await logins.check(caller)
    return caught.value.code, caught.value.text


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        basic("robot:secret") * 2,
        (("authorization", "Bearer 0123"),),
        (("authorization", "Basic"),),
        (("authorization", "Basic ==="),),
        (("authorization", "Basic \u00e9"),),
        (("authorization", b"\xff\xfe"),),
        basic(b"\xff:\xff"),
        basic("robot"),
        basic(":secret"),
        basic("robot:" + "x" * 10_000),
    ],
)
def test_a_caller_that_says_nothing_of_use_is_told_how(
    metadata: tuple[tuple[str, str | bytes], ...],
) -> None:
    with pytest.raises(AdminError, match="fedq://USER:PASSWORD@HOST:PORT") as caught:
        caller_of(metadata, PEER)
    assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("peer", "address", "is_loopback"),
    [
        (PEER, "127.0.0.1:40000", True),
        ("ipv6:%5B::1%5D:40000", "[::1]:40000", True),
        ("ipv6:%5B::ffff:127.0.0.1%5D:40000", "[::ffff:127.0.0.1]:40000", True),
        (ELSEWHERE, "192.0.2.7:40000", False),
        ("ipv6:%5B2001:db8::1%5D:40000", "[2001:db8::1]:40000", False),
        ("unix:/run/fedq", "/run/fedq", True),
        ("unknown", "", False),
    ],
)
def test_a_caller_has_a_user_and_a_place(peer: str, address: str, is_loopback: bool) -> None:
    caller = caller_of(basic("röbot:se:cret"), peer)
    assert caller == Caller("röbot", "se:cret", address, is_loopback)


def test_right_and_wrong_passwords_are_looked_at_once(verified: list[str]) -> None:
    async def logins(logins: StreamLogins) -> None:
        for _ in range(3):
            assert await logins.check(caller_of(basic("robot:secret"), ELSEWHERE)) == "robot"
            wrong = await refused(logins, caller_of(basic("robot:Secret"), PEER))
            assert wrong[0] is grpc.StatusCode.UNAUTHENTICATED
            assert "no such user, or a wrong password" in wrong[1]

    run(logins, Users())
    assert verified == ["secret", "Secret"]


def test_who_is_nobody_is_refused_as_late_and_as_often(verified: list[str]) -> None:
    """Before, it was told at once and without end, and so which users there are."""

    async def logins(logins: StreamLogins) -> None:
        found = []
        for number in range(100):
            caller = caller_of(basic(f"nobody:{number}"), ELSEWHERE)
            found.append((await refused(logins, caller))[0])
        assert found[0] is grpc.StatusCode.UNAUTHENTICATED
        assert found[-1] is grpc.StatusCode.RESOURCE_EXHAUSTED

    run(logins, Users())
    assert verified[0] == "0"
    assert len(verified) < 100


def test_many_who_say_the_same_wait_for_one_verdict(verified: list[str]) -> None:
    """The first processes of a job come at once; and the first of them may hang up."""

    async def logins(logins: StreamLogins) -> None:
        caller = caller_of(basic("robot:secret"), ELSEWHERE)
        first = asyncio.ensure_future(logins.check(caller))
        others = [asyncio.ensure_future(logins.check(caller)) for _ in range(50)]
        # It begins, and then its caller is gone.
        begun = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(begun.set_result, None)
        await begun
        first.cancel()
        assert await asyncio.gather(*others) == ["robot"] * 50
        wrong = caller_of(basic("robot:wrong"), ELSEWHERE)
        told = await asyncio.gather(*(refused(logins, wrong) for _ in range(50)))
        assert {code for code, _ in told} == {grpc.StatusCode.UNAUTHENTICATED}

    run(logins, Users())
    assert verified == ["secret", "wrong"]


def test_no_sentence_says_whether_there_is_such_a_user(verified: list[str]) -> None:
    async def logins(logins: StreamLogins) -> None:
        for user in ("robot", "mallory", "nobody"):
            told = await refused(logins, caller_of(basic(f"{user}:x"), PEER))
            assert told[1].replace(user, "?") == (
                "login refused for user '?': no such user, or a wrong password"
            )
        await refused(logins, caller_of(basic("nobody:"), PEER))

    run(logins, Users())
    assert verified == ["x", "x", "x", ""], "nor does the time it takes"


def test_guest_comes_from_loopback_only() -> None:
    async def logins(logins: StreamLogins) -> None:
        assert await logins.check(caller_of(basic("guest:guest"), PEER)) == "guest"
        told = await refused(logins, caller_of(basic("guest:guest"), ELSEWHERE))
        assert "loopback only" in told[1]

    run(logins, Users())


def test_guesses_are_limited_by_place_and_user(verified: list[str]) -> None:
    async def logins(logins: StreamLogins) -> None:
        told = [
            (await refused(logins, caller_of(basic(f"robot:{number}"), ELSEWHERE)))[0]
            for number in range(limits.FAILED_LOGINS_PER_USER_BURST + 5)
        ]
        assert told[-1] is grpc.StatusCode.RESOURCE_EXHAUSTED
        # From another place, and another user from there, it goes on.
        assert await logins.check(caller_of(basic("robot:secret"), PEER)) == "robot"

    run(logins, Users())
    assert len(verified) <= limits.FAILED_LOGINS_PER_USER_BURST + 3


def test_a_password_that_was_changed_is_not_right_any_more() -> None:
    users = Users()

    async def logins(logins: StreamLogins) -> None:
        caller = caller_of(basic("robot:secret"), PEER)
        assert await logins.check(caller) == "robot"
        users.records["robot"] = make_record("other", b"s" * 16, COST_MIN)
        assert (await refused(logins, caller))[0] is grpc.StatusCode.UNAUTHENTICATED
        assert await logins.check(caller_of(basic("robot:other"), PEER)) == "robot"

    run(logins, users)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOGINS_REMEMBERED_MAX", 1)
    users = Users()

    async def logins(logins: StreamLogins) -> None:
        for user, password in (("robot", "secret"), ("guest", "guest")) * 2:
            assert await logins.check(caller_of(basic(f"{user}:{password}"), PEER)) == user

    run(logins, users)
