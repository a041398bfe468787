"""Pages of names: which ones match, where a page ends, where the next one begins.

A page token is the last key of the page before it, so what comes and goes between two pages
neither repeats nor hides others. It says nothing that the reply did not say.
"""

import base64
import binascii
import bisect
import fnmatch
import re
from collections.abc import Callable, Sequence
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

import orjson

from fedq.admin.bounds import (
    NAME_PATTERN_CHARACTERS_MAX,
    PAGE_TOKEN_CHARACTERS_MAX,
    QUEUES_PER_PAGE_DEFAULT,
    QUEUES_PER_PAGE_MAX,
)
from fedq.admin.refusal import AdminError, invalid
from fedq.core.ids import QueueKey

#: A tuple of names.
Key = TypeVar("Key", bound=tuple[str, ...])


class OfVhost(Protocol):
    """A request for what is in one virtual host, or, if it names none, in all."""

    vhost: str

    def HasField(self, field_name: Literal["vhost"], /) -> bool:  # noqa: N802
        """Whether the request names a virtual host."""


class Page(NamedTuple, Generic[Key]):
    """Some keys in order, and the token of the page after them ("": there is none)."""

    keys: list[Key]
    next_token: str


def select(
    keys: Sequence[QueueKey], vhost: str | None, pattern: str, size: int, token: str
) -> Page[QueueKey]:
    """One page of the ordered `keys` that match. Raises AdminError on a bad argument."""
    matches = _matcher(pattern)
    wanted = page_size(size)
    start = bisect.bisect_right(keys, decode_token(token)) if token else 0
    found: list[QueueKey] = []
    for index in range(start, len(keys)):
        key = keys[index]
        if (vhost is not None and key.vhost != vhost) or not matches(key.name):
            continue
        if len(found) == wanted:
            return Page(found, encode_token(found[-1]))
        found.append(key)
    return Page(found, "")


def page_of(keys: Sequence[Key], size: int, token: str) -> Page[Key]:
    """One page of the ordered `keys`, one or two names each; AdminError on a bad argument."""
    wanted = page_size(size)
    start = 0
    if token:
        after: tuple[str, ...] = decode_token(token)
        start = bisect.bisect_right(keys, after[: len(keys[0])]) if keys else 0
    found = list(keys[start : start + wanted])
    if start + wanted >= len(keys):
        return Page(found, "")
    first, *rest = found[-1]
    return Page(found, encode_token(QueueKey(first, "".join(rest))))


def vhost_of(request: OfVhost) -> str | None:
    """The virtual host that the request names; None: all."""
    return request.vhost if request.HasField("vhost") else None


def page_size(size: int) -> int:
    """The number of entries on a page; 0 asks for the default."""
    if size > QUEUES_PER_PAGE_MAX:
        raise invalid(
            f"page_size is {size}; ask for at most {QUEUES_PER_PAGE_MAX} and use next_page_token "
            "for the rest"
        )
    return size or QUEUES_PER_PAGE_DEFAULT


def _matcher(pattern: str) -> Callable[[str], object]:
    if len(pattern) > NAME_PATTERN_CHARACTERS_MAX:
        raise invalid(
            f"name_pattern has {len(pattern)} characters; queue names have at most "
            f"{NAME_PATTERN_CHARACTERS_MAX}"
        )
    return re.compile(fnmatch.translate(pattern or "*")).match


def encode_token(key: QueueKey) -> str:
    """The token of the page that follows `key`."""
    return base64.urlsafe_b64encode(orjson.dumps(list(key))).decode()


def decode_token(token: str) -> QueueKey:
    """The key a page follows; raises AdminError on anything `encode_token` did not make."""
    try:
        if len(token) > PAGE_TOKEN_CHARACTERS_MAX:
            raise ValueError("too long")
        vhost, name = orjson.loads(base64.b64decode(token, altchars=b"-_", validate=True))
        if not isinstance(vhost, str) or not isinstance(name, str):
            raise ValueError("not two strings")
    except (ValueError, TypeError, binascii.Error) as error:
        raise bad_token() from error
    return QueueKey(vhost, name)


def bad_token() -> AdminError:
    """The refusal of a token that no node has made."""
    return invalid(
        "page_token is not one that a node gave out; use next_page_token of the previous reply, or "
        "leave it empty for the first page"
    )
