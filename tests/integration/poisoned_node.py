"""`fedq` with a bug: a message whose body says POISON makes a step of its choice raise.

    python -m tests.integration.poisoned_node STEP node --config …

STEP is `publish` (as it enters a fragment), `take` (as it is handed out) or `deliver` (as its
frames are made). To be run by `harness.UNCOMPILED`: modules are patched before anything is wired.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

from fedq.amqp import deliveries
from fedq.cli.main import main
from fedq.fragments.fragment import Fragment
from fedq.node.consuming import consume_flow
from fedq.node.containment import rehearsal

POISON: Final = b"POISON"


def check(messages: list[bytes]) -> None:
    """The bug."""
    if any(message.endswith(POISON) for message in messages):
        raise KeyError("a bug that nobody knows")


def before(function: Callable[..., Any], at: int) -> Callable[..., Any]:
    """The function, with a look at one of its arguments."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        check(args[at])
        return function(*args, **kwargs)

    return wrapper


def taken(self: Fragment, *args: Any, **kwargs: Any) -> Any:
    """`Fragment.take`, with a look at what was taken."""
    found = take(self, *args, **kwargs)
    check(found.messages)
    return found


take = Fragment.take

if __name__ == "__main__":
    step = sys.argv.pop(1)
    if step == "publish":
        Fragment.publish = before(Fragment.publish, 3)  # type: ignore[method-assign]
    elif step == "take":
        Fragment.take = taken  # type: ignore[method-assign]
    else:
        wrapped = before(deliveries.append_deliveries, 4)
        for module in (consume_flow, rehearsal):
            module.append_deliveries = wrapped  # type: ignore[attr-defined]
    main()
