"""What was found: a line for each thing that was looked at, and what to do about it."""

from enum import StrEnum
from typing import Any, NamedTuple


class State(StrEnum):
    """How a finding is to be taken."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(NamedTuple):
    """One thing that was looked at."""

    check: str
    state: State
    text: str
    #: Empty where there is nothing to do.
    what_to_do: str = ""

    def form(self) -> dict[str, Any]:
        """The finding for scripts."""
        return {
            "check": self.check,
            "state": str(self.state),
            "text": self.text,
            "what_to_do": self.what_to_do or None,
        }


def ok(check: str, text: str) -> Finding:
    """All is well there."""
    return Finding(check, State.OK, text)


def warning(check: str, text: str, what_to_do: str) -> Finding:
    """A node starts so, and its operator should know."""
    return Finding(check, State.WARNING, text, what_to_do)


def error(check: str, text: str, what_to_do: str) -> Finding:
    """A node does not start so, or would lose what it promises."""
    return Finding(check, State.ERROR, text, what_to_do)
