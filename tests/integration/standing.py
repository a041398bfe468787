"""What `fedq cluster status` finds wrong, where the machine has much else to do."""

from typing import Any, Final

#: A node says so of its machine: of lanes of tests beside it, that is true.
BUSY: Final = "this machine is too slow, or too busy"


def wrong(status: dict[str, Any]) -> list[str]:
    """The problems of a status, but for those that only say how busy the machine is."""
    return [each for each in status["problems"] if BUSY not in each]
