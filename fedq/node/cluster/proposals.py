"""Changes this node asks of the cluster map, from asking to the answer.

Inputs: operations with whoever wants to hear the result, committed commands, ticks. Outputs:
commands in `out.proposals`.

What gathers in one turn travels as one command, but for what is asked for in order, up to the first
refusal: that has a command of its own (`InOrder`). A command that is not committed in time is asked
for again under the same request id, so it takes effect once. What has no one waiting for it
(failover and the like) is asked for once: whoever decided it decides anew.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from fedq.core.errors import RESOURCE_ERROR, Refused
from fedq.core.ids import NodeId, QueueKey
from fedq.core.limits import COMMANDS_IN_FLIGHT_MAX, OPERATIONS_PER_COMMAND_MAX
from fedq.node.records.state import NodeState
from fedq.node.risk import Fault
from fedq.wiring.cluster_map.operations import (
    OPERATIONS_BYTES_MAX,
    AddFragment,
    Operation,
    command_of,
    encode_command,
    encode_operation,
    fitting,
)
from fedq.wiring.cluster_map.state import Ok

Result: TypeAlias = Ok | Refused
Answer: TypeAlias = Callable[[Result], None]

NO_QUORUM = "the cluster has no quorum, or is too busy, to change its wiring now; try again later"
TOO_LARGE = "the names and arguments are too large for the cluster map: use shorter ones"
#: The answer when time is up. The operation may still take effect later.
GAVE_UP = Refused(RESOURCE_ERROR, NO_QUORUM)


class _Sent:
    __slots__ = ("answers", "command", "deadline_ms", "sent_ms")

    def __init__(
        self, command: bytes, answers: list[Answer | None], now_ms: int, timeout_ms: int
    ) -> None:
        self.command = command
        self.answers = answers
        self.sent_ms = now_ms
        self.deadline_ms = now_ms + timeout_ms


class InOrder:
    """Operations that take effect in their order, up to the first that is refused."""

    __slots__ = ("_room", "answers", "encoded", "is_open")

    def __init__(self, is_open: bool = True) -> None:
        self._room = OPERATIONS_BYTES_MAX
        self.encoded: list[bytes] = []
        self.answers: list[Answer | None] = []
        #: It has not been sent, so more may be added.
        self.is_open = is_open

    def takes(self, operation: bytes) -> bool:
        """Whether there is room for another encoded operation."""
        is_full = len(self.encoded) >= OPERATIONS_PER_COMMAND_MAX
        return self.is_open and not is_full and len(operation) < self._room

    def add(self, operation: bytes, answer: Answer) -> None:
        """Adds an encoded operation that it takes; `answer` hears its result, exactly once."""
        self._room -= len(operation) + 1
        self.encoded.append(operation)
        self.answers.append(answer)


class Proposals:
    """The changes that this node has asked for and not heard of yet."""

    __slots__ = ("_gathered", "_in_order", "_last", "_sent", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self._last = 0
        #: Encoded operations.
        self._gathered: list[tuple[bytes, Answer | None]] = []
        self._in_order: list[InOrder] = []
        self._sent: dict[str, _Sent] = {}

    def ask(self, operation: Operation, answer: Answer | None = None) -> None:
        """Proposes one operation; `answer` hears its result, exactly once."""
        if answer is not None and len(self._sent) >= COMMANDS_IN_FLIGHT_MAX:
            answer(GAVE_UP)
            return
        encoded = encode_operation(operation)
        if answer is not None and not fitting([encoded]):
            answer(Refused(RESOURCE_ERROR, TOO_LARGE))
            return
        self._gathered.append((encoded, answer))

    def begin_in_order(self) -> InOrder | Refused:
        """Begins operations that are to take effect in order; they leave at the turn's end."""
        if len(self._sent) >= COMMANDS_IN_FLIGHT_MAX:
            return GAVE_UP
        begun = InOrder()
        self._in_order.append(begun)
        return begun

    def ask_together(self, operations: list[Operation]) -> None:
        """Proposes operations that take effect in one commit, or not at all."""
        self.state.out.proposals.append(encode_command(self._next_request(), operations))

    def ask_for_fragment(self, queue: QueueKey) -> None:
        """Asks for a fragment here, as this node's publishes to the queue all go elsewhere."""
        info = self.state.map.queues.get(queue)
        if info is None or self.state.map.is_fixed(queue):
            return
        if self.state.policy_of(queue).one_place:
            return
        if self.state.me in self.state.map.drained:
            return
        primaries = [self.state.map.fragments[fragment].primary for fragment in info.fragments]
        if self.state.me not in primaries and len(primaries) <= len(self.state.live_peers()):
            self.ask(AddFragment(*queue, self.state.me))

    def flush(self) -> None:
        """Makes commands of what gathered in this turn."""
        if self._in_order:
            self._flush_in_order()
        gathered = self._gathered
        if not gathered:
            return
        self._gathered = []
        while gathered:
            count = fitting([encoded for encoded, _ in gathered])
            now, gathered = gathered[:count], gathered[count:]
            answers = [answer for _, answer in now]
            self._propose([encoded for encoded, _ in now], answers, in_order=False)

    def _flush_in_order(self) -> None:
        begun, self._in_order = self._in_order, []
        for each in begun:
            each.is_open = False
            if len(each.encoded) == 1:
                # It travels with the others.
                self._gathered.append((each.encoded[0], each.answers[0]))
            elif each.encoded:
                self._propose(each.encoded, each.answers, in_order=True)

    def _propose(self, encoded: list[bytes], answers: list[Answer | None], in_order: bool) -> None:
        state, request = self.state, self._next_request()
        command = command_of(request, encoded, in_order)
        state.out.proposals.append(command)
        if any(answer is not None for answer in answers):
            self._sent[request] = _Sent(
                command, answers, state.now_ms, state.settings.request_timeout_ms
            )

    def on_committed(self, request: str, results: list[Result]) -> None:
        """A command took effect; whoever asked hears the results."""
        sent = self._sent.pop(request, None)
        if sent is None:
            return
        if len(results) != len(sent.answers):
            # The command was refused as a whole.
            results = results[:1] * len(sent.answers)
        for answer, result in zip(sent.answers, results, strict=True):
            if answer is not None:
                self._answer(answer, result)

    def _answer(self, answer: Answer, result: Result) -> None:
        """Answers one asker; if that raises, it is its own affair, and the others hear theirs."""
        try:
            answer(result)
        except Exception as error:
            if self.state.risk.is_open:
                raise
            self.state.out.faults.append(Fault("an answer of the cluster map was lost", error))

    def tick(self) -> None:
        """Asks again, or gives up, for what was not committed."""
        state = self.state
        for request, sent in list(self._sent.items()):
            if state.now_ms >= sent.deadline_ms:
                del self._sent[request]
                for answer in sent.answers:
                    if answer is not None:
                        answer(GAVE_UP)
            elif state.now_ms - sent.sent_ms >= state.settings.proposal_retry_ms:
                sent.sent_ms = state.now_ms
                state.out.proposals.append(sent.command)

    def _next_request(self) -> str:
        """A request id that was never used before.

        A process on a restored directory may have the number of an earlier one, whose requests the
        map remembers; so the id has more than the number.
        """
        self._last += 1
        settings = self.state.settings
        return f"{settings.node}.{settings.incarnation}{settings.start[:8]}.{self._last}"


def asked(node: NodeId, requests: Sequence[str]) -> bool:
    """Whether one of these requests may be the node's; names may begin alike."""
    start = f"{node}."
    return any(request.startswith(start) for request in requests)
