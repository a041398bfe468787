"""Places for those who gather messages at a time: so many in all, and so many of each user.

Who has no place waits, in order; who takes nothing leaves room for others' readers.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class ReadRoom:
    """Gives places. Belongs to one event loop."""

    __slots__ = ("_of_user", "_room", "_shares")

    def __init__(self, most: int, of_user: int) -> None:
        """`most`: places in all; `of_user`: of one user."""
        self._room = asyncio.Semaphore(most)
        self._of_user = of_user
        #: Of users who have a place, or want one: their places, and how many want or have one.
        self._shares: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def place(self, user: str) -> AsyncGenerator[None, None]:
        """Holds a place of the user, once there is one."""
        share, wanted = self._shares.get(user) or (asyncio.Semaphore(self._of_user), 0)
        self._shares[user] = share, wanted + 1
        try:
            async with share, self._room:
                yield
        finally:
            share, wanted = self._shares.pop(user)
            if wanted > 1:
                self._shares[user] = share, wanted - 1
