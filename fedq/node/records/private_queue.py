"""What a node keeps of a queue that lives on it alone: a plain record, changed by the flows."""

from fedq.core.ids import QueueKey
from fedq.core.policy import PLAIN, QueuePolicy
from fedq.fragments.fragment import Fragment
from fedq.node.records.client_state import Client, Consumer
from fedq.proxy.hub import Hub


class PrivateQueue:
    """A queue that lives on this node only: an exclusive one."""

    __slots__ = (
        "arguments", "auto_delete", "bindings", "claimed", "closes", "dropped", "durable", "ending",
        "fragment",
        "had_consumers", "hub", "is_counted", "is_plain", "keeps_oldest", "key", "owner", "policy",
        "sole_consumer", "used_ms", "waiting", "waiting_bytes",
    )  # fmt: skip

    def __init__(
        self, key: QueueKey, fragment: Fragment, owner: Client, policy: QueuePolicy,
        now_ms: int, closes: bool = False, keeps_oldest: bool = False,
    ) -> None:  # fmt: skip
        """`policy`: what its client asked for; `closes`: its owner leaves when it is too long.

        `keeps_oldest`: what comes when it is full is dropped, and nobody is told.
        """
        #: The consumer that gets whatever comes, at once: the only one, of a queue that holds
        #: nothing (`fan_out`). Void as soon as anything of that may change.
        self.sole_consumer: Consumer | None = None
        self.key = key
        self.policy = policy
        #: Its policy has no say in what becomes of a message.
        self.is_plain = policy._replace(expires_ms=None) == PLAIN
        #: When it was last of use to somebody (x-expires).
        self.used_ms = now_ms
        self.fragment = fragment
        #: The only connection that may use it.
        self.owner = owner
        self.hub: Hub[Consumer] = Hub(policy.single_active)
        self.auto_delete = False
        self.durable = False
        #: The arguments of its declaration, as JSON.
        self.arguments = ""
        #: Its name was chosen by the client and is registered in the map.
        self.claimed = False
        #: Its bindings are being undone; then it is gone.
        self.ending = False
        self.had_consumers = False
        self.closes = closes
        self.keeps_oldest = keeps_oldest
        #: How many messages, and bytes, waited when its last turn was over (`ExclusiveWaiting`).
        self.waiting = self.waiting_bytes = 0
        #: Messages that its length cost it.
        self.dropped = 0
        #: It is one of `NodeState.private_unnamed`.
        self.is_counted = False
        #: (exchange, routing key, arguments as JSON).
        self.bindings: dict[tuple[QueueKey, str, str], None] = {}
