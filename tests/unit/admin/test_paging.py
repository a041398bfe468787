"""Pages of queue names against the simplest possible listing."""

import contextlib
import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.admin.paging import decode_token, encode_token, select
from fedq.admin.refusal import AdminError
from fedq.core.ids import QueueKey

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
keys = st.builds(QueueKey, st.sampled_from(["/", "shop"]), names)


@given(
    present=st.lists(keys, unique=True).map(sorted),
    vhost=st.sampled_from([None, "/", "shop"]),
    pattern=st.sampled_from(["", "*", "a*", "?", "[0-9]*"]),
    size=st.integers(1, 7),
)
def test_pages_joined_are_the_filtered_list(
    present: list[QueueKey], vhost: str | None, pattern: str, size: int
) -> None:
    wanted = [
        key
        for key in present
        if vhost in (None, key.vhost) and fnmatch.fnmatchcase(key.name, pattern or "*")
    ]
    found: list[QueueKey] = []
    token = ""
    while True:
        page = select(present, vhost, pattern, size, token)
        found += page.keys
        token = page.next_token
        assert len(page.keys) == size or not token
        if not token:
            break
    assert found == wanted


@given(st.lists(keys, unique=True, min_size=3).map(sorted), st.data())
def test_a_queue_deleted_between_pages_hides_no_other(
    present: list[QueueKey], data: st.DataObject
) -> None:
    first = select(present, None, "", 1, "")
    gone = data.draw(st.sampled_from(present))
    left = [key for key in present if key != gone]
    rest = select(left, None, "", len(present), first.next_token)
    assert first.keys + rest.keys == present[:1] + [key for key in left if key > present[0]]


@given(keys)
def test_a_token_names_its_key(key: QueueKey) -> None:
    assert decode_token(encode_token(key)) == key


@given(st.text(max_size=50))
def test_a_token_is_refused_or_names_a_key(token: str) -> None:
    with contextlib.suppress(AdminError):
        assert isinstance(decode_token(token), QueueKey)


@pytest.mark.parametrize("token", ["W10=", "WzEsMl0=", "bnVsbA==", "x" * 3_000])
def test_json_that_is_no_key_is_no_token(token: str) -> None:
    with pytest.raises(AdminError, match="page_token is not one that a node gave out"):
        decode_token(token)
