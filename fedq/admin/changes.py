"""The log lines that tell who changed what, over gRPC or HTTP; never a password, or a hash of one.

In: who asks (`set_caller`, once for a call), what is asked for, what came of it. Out: one INFO for
each change, on the logger `fedq.changes`.

The caller is kept where its call runs, and is known to all that it awaits, on other loops as well:
nobody has to hand it on.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from typing import Final, TypeVar
from urllib.parse import unquote

import grpc
import grpc.aio

from fedq.core.errors import Refused
from fedq.wiring.cluster_map.operations import Operation

Request = TypeVar("Request")
Reply = TypeVar("Reply")

#: What a line tells of a value; names are short, definitions of policies may be long.
_SHOWN_MAX: Final = 120
#: Fields that say how a password is verified, or have one in them: values of parameters have URIs.
_SECRET: Final = ("password", "users", "value")

#: Of a change that may be made, or not.
_LEFT: Final = "whoever asked did not wait for the end"

logger = logging.getLogger("fedq.changes")

_CALLER: ContextVar[str] = ContextVar("fedq_caller", default="the node")


def set_caller(caller: str) -> None:
    """Notes who asks, for all that comes of the call that runs."""
    _CALLER.set(caller)


def caller_of(context: grpc.aio.ServicerContext[Request, Reply]) -> str:
    """The caller of the admin service: by certificate, or with the node's token."""
    place = unquote(context.peer())
    # Only callers that were let in have either.
    names = [*context.auth_context().get("x509_common_name", ())]
    if names:
        name = names[0].decode("utf-8", "backslashreplace")
        return f"the holder of certificate {name[:_SHOWN_MAX]!r} at {place}"
    return f"the holder of the admin token at {place}"


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Tells of a change when it is made, or why it is not."""
    try:
        yield
    except Exception as error:
        logger.info("%s: %s: refused: %s", _CALLER.get(), what, error)
        raise
    except asyncio.CancelledError:
        # Whoever asks and hangs up is told of, too.
        logger.info("%s: %s: %s", _CALLER.get(), what, _LEFT)
        raise
    logger.info("%s: %s", _CALLER.get(), what)


def tell_loudly(what: str) -> None:
    """Tells of a change with a WARNING: one that is to be seen where little is told."""
    logger.warning("%s: %s", _CALLER.get(), what)


def tell_answer(operation: Operation, answer: Refused | None) -> None:
    """Tells of a change of the cluster map, and what the map answered; None: it is made."""
    if answer is None:
        logger.info("%s: %s", _CALLER.get(), described(operation))
    else:
        logger.info("%s: %s: refused: %s", _CALLER.get(), described(operation), answer.text)


def tell_unknown(operation: Operation, *, left: bool = False) -> None:
    """Tells of a change of the cluster map that may still be made: nobody has answered in time.

    `left`: whoever asked for it has not waited.
    """
    what = _LEFT if left else "not answered in time"
    logger.info("%s: %s: %s", _CALLER.get(), described(operation), what)


def described(operation: Operation) -> str:
    """An operation of the map on one line, without secrets."""
    told = []
    for field in fields(operation):
        value = "…" if field.name in _SECRET else repr(getattr(operation, field.name))
        told.append(f"{field.name}={value[:_SHOWN_MAX]}")
    return f"{type(operation).__name__}({', '.join(told)})"
