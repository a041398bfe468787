"""The demo's clients as processes of their own, and what their records show so far."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from demo import records
from tests.integration.harness import environment
from tests.integration.stock import Address

STOP_S = 75.0


class Client:
    """One client process and its record file."""

    def __init__(self, title: str, module: str, arguments: Sequence[str], path: Path) -> None:
        """`arguments` go before the record file and the addresses, as the module wants them."""
        self.title = title
        self.path = path
        self._command = [sys.executable, "-m", module, *arguments, str(path)]
        self._follower = records.Follower(path)
        self._log_path = path.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None
        self._was_asked = False
        #: `host:port` it is connected to, "" while it is not.
        self.place = ""
        self.confirmed = 0
        self.delivered = 0
        self.sent = 0
        self.last_ms = 0

    def start(self, addresses: Sequence[Address], options: Sequence[str] = ()) -> None:
        """Starts the client, which turns to the addresses in this order."""
        places = [f"{address.host}:{address.port}" for address in addresses]
        with self._log_path.open("wb") as log:
            # A session of its own: Ctrl-C in the terminal is the demo's to handle.
            self._process = subprocess.Popen(
                [*self._command, *places, *options], env=environment() | os.environ,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def read_news(self) -> list[records.Record]:
        """Updates the figures; returns the records about connections."""
        news: list[records.Record] = []
        for record in self._follower.new():
            if record.kind == records.CONFIRMED:
                self.confirmed += 1
                self.last_ms = record.at_ms
            elif record.kind == records.DELIVERED:
                self.delivered += 1
                self.last_ms = record.at_ms
            elif record.kind == records.SENT:
                self.sent += 1
            elif record.kind in (records.CONNECTED, records.LOST, records.FINISHED):
                self.place = record.name if record.kind == records.CONNECTED else ""
                news.append(record)
        return news

    def failure(self) -> str | None:
        """What the process wrote if it ended without being asked to; else None."""
        if self._was_asked or self._process is None or self._process.poll() is None:
            return None
        return self._log_path.read_text(encoding="utf-8", errors="replace")[-2000:]

    def ask_to_stop(self) -> None:
        """SIGTERM: publishers wait for their confirms, consumers end."""
        self._was_asked = True
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def has_ended(self) -> bool:
        """Whether the process is over."""
        return self._process is None or self._process.poll() is not None

    def end(self) -> int:
        """Waits for the end; kills a client that does not end in time. Returns its exit code."""
        if self._process is None:
            return 0
        try:
            return self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return 1

    def kill(self) -> None:
        """Ends the process at once."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
