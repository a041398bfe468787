"""The part of `fedq queue show --why`: why each fragment is there, stays, and is led where it is.

In: the queue as a JSON value (`forms.stored_form`). Out: lines for people.
"""

from collections.abc import Iterator
from typing import Final

from fedq.cli.asking.forms import Form
from fedq.cli.terminal.screen import duration

_CAUSES: Final = {
    "declared": "declared with its queue",
    "fixed": "one of as many as the declaration, or an operator, asks for",
    "traffic": "came as publishes came through a node without one",
}


def why_lines(queue: Form) -> Iterator[str]:
    """What is to be said of all fragments, one after the other."""
    for fragment in queue["fragments"]:
        yield from _of_fragment(fragment, fragment["why"])


def _of_fragment(fragment: Form, why: Form) -> Iterator[str]:
    cause = _CAUSES.get(why["cause"], "of an unknown cause")
    yield f"fragment {fragment['fragment']}, led by {fragment['primary']}: {cause}"
    if why["stays"] is None:
        yield f"  ? {fragment['primary']} did not say more"
        return
    if why["idle_ms"] is not None:
        yield f"  without traffic for {duration(why['idle_ms'])}"
    if why["retiring"]:
        yield "  is being retired"
    else:
        for each in why["stays"]:
            yield f"  is not retired: {each}"
        if not why["stays"]:
            yield "  is about to be retired"
    if why["to_be_led_by"] is not None:
        yield f"  is to be led by {why['to_be_led_by']}"
    for each in why["waits"]:
        yield f"  waits: {each}"
