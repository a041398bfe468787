"""What a configuration says of exclusive queues: what may wait in them, and what happens then.

In: the keys `exclusive_...` of the section `limits`. Out: `ExclusiveQueues`. What each of them
means is in docs/OPERATING.md; 0 is no bound.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from fedq.core.limits import EXCLUSIVE_QUEUE_MESSAGES_MAX, EXCLUSIVE_TOTAL_MESSAGES_MAX

_Messages = Annotated[int, Field(ge=0, le=1 << 40)]
_Bytes = Annotated[int, Field(ge=0, le=1 << 50)]


@dataclass(frozen=True, slots=True)
class ExclusiveQueues:
    """Bounds of each one, of all together, and of those of a virtual host."""

    queue_messages: int = EXCLUSIVE_QUEUE_MESSAGES_MAX
    queue_bytes: int = 0
    overflow: str = "drop-head"
    total_messages: int = EXCLUSIVE_TOTAL_MESSAGES_MAX
    total_bytes: int = 0
    vhost_messages: int = 0
    vhost_bytes: int = 0


#: What holds where nothing is said.
DEFAULT: Final = ExclusiveQueues()


class ExclusiveSection(BaseModel):
    """The keys of the file."""

    exclusive_queue_messages: _Messages = EXCLUSIVE_QUEUE_MESSAGES_MAX
    exclusive_queue_bytes: _Bytes = 0
    exclusive_queue_overflow: Literal["drop-head", "drop-tail", "disconnect"] = "drop-head"
    exclusive_total_messages: _Messages = EXCLUSIVE_TOTAL_MESSAGES_MAX
    exclusive_total_bytes: _Bytes = 0
    exclusive_vhost_messages: _Messages = 0
    exclusive_vhost_bytes: _Bytes = 0

    @property
    def exclusive(self) -> ExclusiveQueues:
        """All of them."""
        return ExclusiveQueues(
            self.exclusive_queue_messages, self.exclusive_queue_bytes,
            self.exclusive_queue_overflow, self.exclusive_total_messages,
            self.exclusive_total_bytes, self.exclusive_vhost_messages, self.exclusive_vhost_bytes,
        )  # fmt: skip
