"""An event loop in a thread of its own, for tests that ask what runs on one."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    """One event loop in one thread, while a test needs it."""

    _loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[None]:
        """Starts it, and ends it with all that it has."""
        assert cls._loop is None, "one after another"
        with asyncio.Runner() as runner:
            cls._loop = loop = runner.get_loop()
            thread = threading.Thread(target=loop.run_forever, daemon=True)
            thread.start()
            try:
                yield
            finally:
                cls._loop = None
                loop.call_soon_threadsafe(loop.stop)
                thread.join()

    @classmethod
    def run(cls, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Runs a coroutine there and waits for its result."""
        assert cls._loop is not None, "it runs only within `running`"
        return asyncio.run_coroutine_threadsafe(coroutine, cls._loop).result(20)
