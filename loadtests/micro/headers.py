"""Claim: a headers exchange looks at the bindings that may match, not at all of them.

10,000 bindings that ask for a kind, of which there are ten, and a customer; a message has both.
"""

from fedq.wiring.routing.headers import HeaderIndex, HeaderPattern
from loadtests.micro.timing import Case

BINDINGS = 10_000


def wanted(number: int) -> dict[str, object]:
    """What binding `number` asks for."""
    return {"kind": f"kind {number % 10}", "customer": number}


MESSAGES = [{**wanted(number), "other": 1} for number in range(0, BINDINGS, 10)]
PATTERNS = [HeaderPattern(wanted(number)) for number in range(BINDINGS)]
INDEX: HeaderIndex[int] = HeaderIndex()
for name, pattern in enumerate(PATTERNS):
    INDEX.add(name, pattern)


def indexed() -> int:
    """Looks up all messages; returns how many bindings matched."""
    return sum(len(INDEX.match(headers)) for headers in MESSAGES)


def plain() -> int:
    """Looks at every pattern for the first ten."""
    return sum(pattern.matches(headers) for headers in MESSAGES[:10] for pattern in PATTERNS)


CASES = [
    Case("headers lookup, 10,000 bindings", len(MESSAGES), indexed),
    Case("headers, every binding looked at", 10, plain),
]
