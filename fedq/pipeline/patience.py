"""How long somebody goes on trying, with pauses that grow; `PipelineError` when it was too long."""

import time
from typing import Final

from fedq.pipeline.failure import PipelineError

#: Between two attempts, at first and at most.
_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 2.0


class Patience:
    """How long somebody goes on trying, from the first failure after something came last."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reset()

    def reset(self) -> None:
        """Something has come."""
        self._pause_s = _PAUSE_S
        self._since: float | None = None

    def wait(self, reason: str) -> None:
        """Waits a while; raises PipelineError with the reason when it has been too long.

        What was done before the first failure does not count: Spark may have computed for long.
        """
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since + self._pause_s > self._seconds:
            raise PipelineError(f"{reason} (tried for {self._seconds:g} s: retryTimeout)")
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)
