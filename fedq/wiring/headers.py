"""Matching of headers exchanges.

A binding's arguments are its pattern: `x-match` says how (`all`, the default; `any`; and both
`-with-x`), every other entry is a header to look for. Entries whose names begin with "x-" are
looked for only by the `-with-x` forms. An entry without a value (void) asks for presence alone.

Values are equal if type and value are (`True` is not 1); the specification (3.1.3.3) leaves more
to the server, and RabbitMQ does the same.
"""

from collections.abc import Mapping
from typing import Any, Final

from fedq.core.errors import PRECONDITION_FAILED, Refused
from fedq.wiring.arguments import binary_text, type_name, value_text

MATCH_KINDS: Final = ("all", "any", "all-with-x", "any-with-x")


def refuse_arguments(arguments: Mapping[str, Any]) -> Refused | None:
    """The refusal of a binding whose `x-match` means nothing; None for a good one."""
    kind = arguments.get("x-match", "all")
    if not isinstance(kind, str):
        text = f"type {type_name(kind)} (value {value_text(kind)}); expected longstr"
        return Refused(PRECONDITION_FAILED, f"Invalid x-match field {text}")
    if kind in MATCH_KINDS:
        return None
    return Refused(
        PRECONDITION_FAILED,
        f"Invalid x-match field value {binary_text(kind)}; expected all, any, all-with-x, or "
        "any-with-x",
    )


class HeaderPattern:
    """The pattern of one binding, prepared for matching."""

    __slots__ = ("_every", "_wanted")

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """`arguments` were accepted by `refuse_arguments`."""
        kind = arguments.get("x-match", "all")
        self._every = kind in ("all", "all-with-x")
        with_x = kind in ("all-with-x", "any-with-x")
        self._wanted = [
            (name, value)
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        ]

    def matches(self, headers: Mapping[str, Any]) -> bool:
        """Whether a message with these headers passes."""
        every = self._every
        for name, value in self._wanted:
            fits = name in headers and (value is None or _same(value, headers[name]))
            if fits is not every:
                return fits
        return every


def _same(wanted: object, given: object) -> bool:
    return type(wanted) is type(given) and bool(wanted == given)
