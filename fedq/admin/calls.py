"""How a call of the admin service is answered: its time, and its refusal as a status."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar, cast

import grpc
import grpc.aio

from fedq.admin.bounds import MEMBER_ANSWER_MS, MERGE_MS
from fedq.admin.changes import caller_of, set_caller
from fedq.admin.refusal import AdminError, unavailable

#: Goes with every refusal, so that a caller can tell it from a broken connection's UNAVAILABLE.
REFUSAL_METADATA = (("fedq-refusal", "1"),)

Request = TypeVar("Request")
Reply = TypeVar("Reply")
Answer = TypeVar("Answer")


async def reply(
    context: grpc.aio.ServicerContext[Request, Reply], answer: Awaitable[Answer]
) -> Answer:
    """The answer; a refusal becomes the call's status here and nowhere else.

    From here on it is known whose call it is.
    """
    set_caller(caller_of(context))
    try:
        return await answer
    except AdminError as refusal:
        await refuse(context, refusal)


async def refuse(
    context: grpc.aio.ServicerContext[Request, Reply], refusal: AdminError
) -> NoReturn:
    """Ends a call with the status of its refusal."""
    metadata = (*REFUSAL_METADATA, *refusal.metadata)
    await context.abort(refusal.code, refusal.text, metadata)


async def heard(ask: Callable[[Callable[[Answer], None]], None], timeout_s: float) -> Answer:
    """What the node answers within one of its turns; `ask` puts the question to it."""
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def on_answer(value: Answer) -> None:
        # Nobody may wait any more.
        if not answer.done():
            answer.set_result(value)

    ask(on_answer)
    try:
        async with asyncio.timeout(timeout_s):
            return await answer
    except TimeoutError as error:
        raise unavailable("the node has stopped: ask another one") from error


def timeout_s(
    context: grpc.aio.ServicerContext[Request, Reply], bound_ms: int = MEMBER_ANSWER_MS
) -> float:
    """How long others may take: the bound, or what the caller's own deadline leaves."""
    bound_s = bound_ms / 1_000
    # The type stubs leave out that a caller without a deadline gives None.
    remaining_s = cast("float | None", context.time_remaining())
    if remaining_s is None:
        return bound_s
    return max(0.0, min(bound_s, remaining_s - MERGE_MS / 1_000))
