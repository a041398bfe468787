"""Where fedq is not RabbitMQ on purpose: matchers, each with the sentence that says why.

Input: a `Difference`. Output: the decision that covers all of it, if one does. A matcher looks at
the operation and at the exact lines of both sides, so that it covers nothing else.
`docs/DIFFERENCES.md` is made from this list.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.differential.compare import Difference

#: (difference, stream, RabbitMQ's lines, fedq's lines): whether this is the decision's case.
Matcher = Callable[[Difference, str, list[str], list[str]], bool]


class Decision(NamedTuple):
    """One difference that stays."""

    name: str
    #: The operation, as the document names it.
    where: str
    rabbit: str
    fedq: str
    reason: str
    matches: Matcher


DECISIONS: Final[tuple[Decision, ...]] = ()


def decision(difference: Difference) -> Decision | None:
    """The decision that covers every stream of the difference."""
    for each in DECISIONS:
        if all(
            each.matches(difference, stream, reference, subject)
            for stream, (reference, subject) in difference.streams.items()
        ):
            return each
    return None
