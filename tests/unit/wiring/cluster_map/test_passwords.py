"""Records of passwords: right ones are known, others are not, and none costs too much."""

import pytest

from fedq.core import limits
from fedq.wiring.cluster_map.passwords import (
    COST_MAX,
    COST_MIN,
    SALT_BYTES,
    is_record,
    make_record,
    refuse_password,
    verify,
)

SALT = bytes(range(SALT_BYTES))


def test_only_the_password_itself_is_right() -> None:
    record = make_record("geheim", SALT, COST_MIN)
    assert verify(record, "geheim")
    for wrong in ("", "Geheim", "geheim ", "geheim\0", "x" * (limits.PASSWORD_BYTES_MAX + 1)):
        assert not verify(record, wrong)
    assert verify(make_record("ü\udcff", SALT, COST_MIN), "ü\udcff")


def test_a_record_tells_neither_the_password_nor_that_two_are_the_same() -> None:
    one, other = make_record("geheim", SALT, COST_MIN), make_record("geheim", bytes(16), COST_MIN)
    assert one != other
    assert "geheim" not in one
    assert b"geheim".hex() not in one
    assert one.startswith("scrypt$1$")


def test_nothing_is_the_password_of_a_user_without_one() -> None:
    assert is_record("")
    assert not verify("", "")
    assert not verify("", "geheim")


good = make_record("x", SALT, COST_MIN)


@pytest.mark.parametrize(
    "bad",
    [
        "geheim",
        good + "00",
        good.replace("$1$", f"${COST_MAX + 1}$"),
        good.replace("$1$", "$30$"),
        good.replace("$1$", "$01$"),
        good.replace("scrypt", "md5"),
        good.replace("$1$", "$ü$"),
        good[:-1] + "g",
        good * 5,
    ],
)
def test_no_record_makes_a_node_work_for_ever(bad: str) -> None:
    assert not is_record(bad)
    assert not verify(bad, "x")


def test_what_may_be_a_password() -> None:
    assert refuse_password("x" * limits.PASSWORD_BYTES_MAX) is None
    assert "empty" in (refuse_password("") or "")
    assert "longer than 1024 bytes" in (refuse_password("ü" * 513) or "")
