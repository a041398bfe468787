"""What is remembered of topics is what the map says now, whatever was asked and changed before."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.work import Work
from fedq.node.clients import topics
from fedq.node.clients.topics import READ, WRITE, Topics
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import DeclareExchange, DeleteExchange, encode_command
from fedq.wiring.cluster_map.operations_access import DeleteUser, PutUser
from fedq.wiring.cluster_map.operations_topics import (
    ClearTopicPermissions,
    SetTopicPermissions,
    TopicKey,
)
from tests.unit.node.uncompiled import only_uncompiled

USERS, EXCHANGES = ("ann", "a.b", "x*"), ("t", "d")
#: Each with what Python's engine makes of it.
PATTERNS = ("", ".*", "^a", "^{username}$", "b$|^$", "{username}\\.{vhost}", "a{2}")

users, exchanges = st.sampled_from(USERS), st.sampled_from(EXCHANGES)
patterns = st.sampled_from(PATTERNS)
keys = st.one_of(st.sampled_from((*USERS, "a./", "ann./", "")), st.text("ab.x*/", max_size=5))
changes = st.one_of(
    st.builds(SetTopicPermissions, users, st.just("/"), exchanges, patterns, patterns),
    st.builds(ClearTopicPermissions, users, st.just("/"), exchanges, st.booleans()),
    st.builds(PutUser, users, st.just(""), st.just(()), st.just(True)),
    st.builds(DeleteUser, users),
    st.builds(DeleteExchange, st.just("/"), exchanges, st.just(False)),
    st.builds(
        DeclareExchange, st.just("/"), exchanges, st.sampled_from(["topic", "direct"]),
        st.just(True), st.just(False), st.just(False), st.just(""),
    ),
)  # fmt: skip
questions = st.tuples(users, exchanges, st.sampled_from([WRITE, READ]), keys)


def expected(known: ClusterMap, user: str, exchange: str, right: str, key: str) -> bool | None:
    """What the map says, found anew and with another engine."""
    grant = known.topic_permissions.get(TopicKey(user, "/", exchange))
    kinds = {name.name: found.type for name, found in known.exchanges.items()}
    if grant is None or kinds.get(exchange) != "topic":
        return None
    text = grant.write if right == WRITE else grant.read
    text = text.replace("{username}", re.escape(user)).replace("{vhost}", "/")
    return re.search((text or "^$").replace("$", r"\Z"), key) is not None


@only_uncompiled
@given(st.lists(st.one_of(changes, questions), max_size=60))
def test_an_answer_is_that_of_the_map_of_now(steps: list[Any]) -> None:
    known, work = ClusterMap(), Work(1_000)
    state: Any = SimpleNamespace(map=known, work=work)
    asked = Topics(state)
    for number, step in enumerate(steps):
        if not isinstance(step, tuple):
            known.apply(encode_command(f"{number}", [step]))
            continue
        user, exchange, right, key = step
        wanted = expected(known, user, exchange, right, key)
        for _ in range(2):
            before = work.left
            assert asked.may_use(user, "/", exchange, right, key) is wanted
        assert work.left == before, "what is known is charged again"


@only_uncompiled
@pytest.mark.parametrize("kept", [1, 3])
def test_little_room_forgets_and_finds_again(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr(topics, "VERDICTS_KEPT_MAX", kept)
    monkeypatch.setattr(topics, "PATTERNS_KEPT_MAX", kept)
    monkeypatch.setattr(topics, "VERDICTS_OF_ALL_MAX", 2 * kept)
    known = ClusterMap()
    operations: list[Any] = [PutUser(user, "", (), True) for user in USERS]
    operations += [
        DeclareExchange("/", each, "topic", True, False, False, "") for each in EXCHANGES
    ]
    operations += [
        SetTopicPermissions(user, "/", each, "^a", "b$") for user in USERS for each in EXCHANGES
    ]
    known.apply(encode_command("all", operations))
    state: Any = SimpleNamespace(map=known, work=Work(1_000))
    asked = Topics(state)
    for _ in range(3):
        for user in USERS:
            for exchange in EXCHANGES:
                for key in ("a", "b", "ab", "ba", ""):
                    for right in (WRITE, READ):
                        wanted = expected(known, user, exchange, right, key)
                        assert asked.may_use(user, "/", exchange, right, key) is wanted
    assert len(asked._keys) <= kept
    assert sum(len(keys.verdicts) for keys in asked._keys.values()) == asked._kept <= 2 * kept
