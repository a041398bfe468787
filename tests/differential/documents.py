"""docs/DIFFERENCES.md, made from the decisions: `python -m tests.differential --write`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.differential.decisions import DECISIONS, Decision
from tests.differential.unplayed import UNPLAYED, Unplayed

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "DIFFERENCES.md"

_HEAD: Final = """\
# Where fedq is not RabbitMQ

`python -m tests.differential` plays the same random scripts of AMQP operations against fedq and a
real RabbitMQ 3.10 and compares every frame that clients see, and the counts of every queue, after
each write of one or more operations. What follows is the whole list of differences that are meant
to stay. Everything else that differs is a bug. The list is made from
`tests/differential/decisions.py` and `unplayed.py` by `python -m tests.differential --write`; do
not edit it here.

What is compared: every method with its arguments, properties with the types of header values,
bodies, the order of each consumer's deliveries, which publishes were confirmed and how, counts of
messages and consumers, reply codes, and the words after them. What is not, since AMQP leaves it
open or no two runs agree on it: names and consumer tags that the broker makes, delivery tags apart
from their counting up, the order of different consumers' deliveries, one cumulative confirm or
several, the times in `x-death`.

| operation | RabbitMQ | fedq | why |
|---|---|---|---|
"""
_UNPLAYED: Final = """
These no script meets, but the suites of client libraries do, or operators:

| operation | RabbitMQ | fedq | why |
|---|---|---|---|
"""


def document() -> str:
    """The text of the document."""
    return _HEAD + _rows(DECISIONS) + _UNPLAYED + _rows(UNPLAYED)


def _rows(listed: Iterable[Decision | Unplayed]) -> str:
    return "".join(
        f"| {each.where} | {each.rabbit} | {each.fedq} | {each.reason} |\n" for each in listed
    )


def write() -> None:
    """Writes it."""
    DOCUMENT.write_text(document(), encoding="utf-8")
