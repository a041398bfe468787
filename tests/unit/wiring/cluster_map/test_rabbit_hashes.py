"""Passwords as RabbitMQ keeps them: verified, written back alike, and nothing else is taken."""

import base64
import hashlib
import json

import pytest

from fedq.wiring.cluster_map import passwords
from fedq.wiring.cluster_map.passwords import is_record, verify
from fedq.wiring.cluster_map.rabbit_hashes import is_rabbit_hash, rabbit_hash_of, record_of
from tests.contract.http.definitions import ALL

SALT = b"\x00\xff$\n"


def said(name: str, password: str, salt: bytes = SALT) -> str:
    """What RabbitMQ would say of a password."""
    digest = hashlib.new(name, salt + password.encode(), usedforsecurity=False).digest()
    return base64.b64encode(salt + digest).decode()


@pytest.mark.parametrize("name", ["md5", "sha256", "sha512"])
def test_a_password_is_verified_and_goes_back_as_it_came(name: str) -> None:
    text, algorithm = said(name, "geheim ü"), f"rabbit_password_hashing_{name}"
    record = record_of(algorithm, text)
    assert record is not None
    assert is_record(record)
    assert is_rabbit_hash(record)
    assert verify(record, "geheim ü")
    for wrong in ("", "Geheim ü", "geheim", "x" * 2_000):
        assert not verify(record, wrong)
    assert rabbit_hash_of(record) == (algorithm, text)
    assert record_of("", text) == record, "an old file says no algorithm"


def test_what_a_real_rabbitmq_exported_is_verified() -> None:
    users = json.loads(ALL.read_text("utf-8"))["users"]
    assert len(users) == 3
    for user in users:
        record = record_of(user["hashing_algorithm"], user["password_hash"])
        assert record is not None
        assert verify(record, "guest" if user["name"] == "guest" else "geheim")
        assert not verify(record, "wrong")


@pytest.mark.parametrize(
    ("algorithm", "text"),
    [
        ("rabbit_password_hashing_sha256", ""),
        ("rabbit_password_hashing_sha256", "!!!"),
        ("rabbit_password_hashing_sha256", "ü"),
        ("rabbit_password_hashing_sha256", "AAAA"),
        ("rabbit_password_hashing_sha256", said("sha512", "x")),
        ("rabbit_password_hashing_sha1", said("sha1", "x")),
        ("sha256", said("sha256", "x")),
        ("rabbit_password_hashing_", said("sha256", "x")),
        ("", said("sha1", "x")),
        ("", "A" * 1_000_000),
        ("rabbit_password_hashing_sha512", said("sha512", "x") * 2),
    ],
)
def test_what_rabbitmq_could_not_verify_is_no_record(algorithm: str, text: str) -> None:
    assert record_of(algorithm, text) is None


GOOD = record_of("", said("sha256", "x")) or ""


@pytest.mark.parametrize(
    "bad",
    [
        GOOD.upper(), GOOD[:-2], f"{GOOD}00", GOOD.replace("sha256", "sha512"), f"{GOOD}$",
        GOOD.replace("rabbit-", ""), GOOD.replace("$", "$ ", 1), GOOD.replace("$", "$ü", 1),
        "rabbit-$$",
    ],
)  # fmt: skip
def test_exactly_one_text_stands_for_a_record(bad: str) -> None:
    assert not is_record(bad)
    assert not verify(bad, "x")
    assert rabbit_hash_of(bad) is None


def test_a_wrong_password_takes_as_long_as_any(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []
    real = passwords._key

    def counted(password: str, salt: bytes, cost: int) -> bytes:
        keys.append(password)
        return real(password, salt, cost)

    monkeypatch.setattr(passwords, "_key", counted)
    assert verify(GOOD, "x")
    assert not verify(GOOD, "y")
    assert keys == ["x", "y"], "nobody sees whose password is quicker to guess"
