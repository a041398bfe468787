"""The log of a node on stderr: one line for each event, for people or as JSON."""

import logging
import sys
import time
from enum import StrEnum
from typing import Final

import orjson

from fedq.cli.terminal.plain_text import printable

_TIME: Final = "%Y-%m-%d %H:%M:%S"


class LogLevel(StrEnum):
    """How much a node writes to stderr."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line of the log looks."""

    TEXT = "text"
    JSON = "json"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC, ISO 8601), level, node, logger, message, exception."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        """The line of one event."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "node": self._node,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


class TextFormatter(logging.Formatter):
    """A line for people: a name in it that a client chose begins no line, and orders no terminal.

    What an exception tells comes after it, on lines of its own.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        """The line of one event."""
        record.message = printable(record.message)
        return super().formatMessage(record)


def set_up_log(node: str, level: LogLevel, form: LogFormat) -> None:
    """Writes what the node logs, from this level on, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    if form is LogFormat.JSON:
        handler.setFormatter(JsonFormatter(node))
    else:
        text = f"%(asctime)s.%(msecs)03d %(levelname)-7s {node} %(message)s"
        handler.setFormatter(TextFormatter(text, _TIME))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("fedq").setLevel(level.value.upper())
