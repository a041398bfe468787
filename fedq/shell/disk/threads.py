"""Threads that do what may wait for a disk, and answer on the event loop.

Inputs: jobs, in order. Outputs, on the event loop: an answer for each of them, as it was made, or
with why it could not be. Invariants: whatever a job does ends in an answer and not a thread; a disk
that hangs holds up nobody but who waits for it, and no close.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

#: How long a close waits for jobs that are under way.
_CLOSE_S: Final = 2.0

Job = TypeVar("Job")
Answer = TypeVar("Answer")


class DiskThreads(Generic[Job, Answer]):
    """Does jobs of one kind. Every method is for the event loop's thread."""

    def __init__(
        self,
        names: Iterable[str],
        do: Callable[[Job], Answer],
        on_done: Callable[[Job, Answer], None],
        on_failed: Callable[[Job, str], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`names`: of the threads. `do` is called in them, the other two on the loop."""
        self._names = list(names)
        self._do = do
        self._on_done = on_done
        self._on_failed = on_failed
        self._loop = loop
        self._jobs: SimpleQueue[tuple[Job] | None] = SimpleQueue()
        #: Shared with the threads; what is appended to an empty one calls the loop.
        self._answers: deque[Callable[[], None]] = deque()
        self._guard = threading.Lock()
        self._closed = False
        self._threads: list[threading.Thread] = []

    def put(self, jobs: Iterable[Job]) -> None:
        """Has jobs done; returns at once."""
        if not self._threads:
            # Most nodes never need them.
            for name in self._names:
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        for job in jobs:
            self._jobs.put((job,))

    def close(self) -> bool:
        """Ends the threads; false if a disk hangs. Nothing is answered any more."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(_CLOSE_S)
        return not any(thread.is_alive() for thread in self._threads)

    def threads(self) -> list[threading.Thread]:
        """The threads; those of a disk that hangs outlive a close."""
        return list(self._threads)

    # --- the threads ---

    def _run(self) -> None:
        while (wanted := self._jobs.get()) is not None and not self._closed:
            self._answer(self._done(wanted[0]))

    def _done(self, job: Job) -> Callable[[], None]:
        """What the loop is to call for a job, now that it is done or has failed."""
        try:
            answer = self._do(job)
        except OSError as error:
            reason = error.strerror or str(error)
        except MemoryError:
            reason = "there is no memory for it"
        except Exception as error:
            # Whatever it is: who waits is told, and others are served.
            reason = f"{type(error).__name__}: {error}"
        else:
            return lambda: self._on_done(job, answer)
        return lambda: self._on_failed(job, reason)

    def _answer(self, answer: Callable[[], None]) -> None:
        with self._guard:
            is_first = not self._answers
            self._answers.append(answer)
        if is_first and not self._closed:
            try:
                self._loop.call_soon_threadsafe(self._hand_over)
            except RuntimeError:
                # The loop has ended meanwhile: nobody waits.
                self._closed = True

    # --- the event loop ---

    def _hand_over(self) -> None:
        with self._guard:
            answers, self._answers = self._answers, deque()
        for answer in answers:
            if self._closed:
                return
            answer()
