"""Whether this machine, and the ways to its peers, are fast enough for the configured timing.

Inputs: ticks, which come every 50 ms where nothing holds the process up, and what peers echo of
this node's heartbeats. Outputs: a warning, and a sentence for `fedq cluster status`, when ticks
come late again and again, or when no echo of a peer is young: both say what to set. A single hiccup
is nobody's business.
"""

from typing import Final

from fedq.core.ids import NodeId
from fedq.node.records.state import NodeState

#: How often the driver ticks (`fedq.shell.turn`).
_TICK_MS: Final = 50
#: What came within such a time is judged together; and said again only after so many of them.
_WITHIN_MS: Final = 20_000
_TELL_EVERY: Final = 15
#: So many ticks that are later than a third of the lease make a slow machine.
_LATE_MIN: Final = 3
#: So many echoes of a peer tell how long the way to it is.
_ECHOES_MIN: Final = 20
_ROUND_MS: Final = 100


class Punctuality:
    """Measures how late turns and echoes are, and warns."""

    __slots__ = ("_began_ms", "_echoes", "_late", "_latest_ms", "_seen_ms", "_told", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self._seen_ms = 0
        self._began_ms = 0
        #: Ticks of this time that were late, and by how much the latest was.
        self._late = 0
        self._latest_ms = 0
        #: Of each peer: how many echoes came, and how old the youngest was.
        self._echoes: dict[NodeId, tuple[int, int]] = {}
        #: For how many times yet a subject need not be told again.
        self._told: dict[str, int] = {}

    def on_echo(self, peer: NodeId, echo_ms: int) -> None:
        """Takes an echo: the peer has heard what this node said then, by this node's clock."""
        age_ms = self.state.now_ms - echo_ms
        if echo_ms > 0 and age_ms >= 0:
            count, youngest_ms = self._echoes.get(peer, (0, age_ms))
            self._echoes[peer] = (count + 1, min(youngest_ms, age_ms))

    def tick(self) -> None:
        """Looks how late it is."""
        now_ms, lease_ms = self.state.now_ms, self.state.settings.lease_ms
        if self._seen_ms:
            late_ms = now_ms - self._seen_ms - _TICK_MS
            if late_ms * 3 > lease_ms:
                self._late += 1
                self._latest_ms = max(self._latest_ms, late_ms)
        self._seen_ms = now_ms
        if now_ms - self._began_ms >= _WITHIN_MS:
            self._judge()
            self._began_ms, self._late, self._latest_ms = now_ms, 0, 0
            self._echoes = {}

    def _judge(self) -> None:
        self._told = {subject: left - 1 for subject, left in self._told.items() if left > 1}
        lease_ms, seconds = self.state.settings.lease_ms, _WITHIN_MS // 1_000
        if self._late >= _LATE_MIN:
            self._tell(
                "machine",
                f"this machine is too slow, or too busy, for timing.lease_ms = {lease_ms}: in "
                f"{seconds} s the node was held up {self._late} times, for {self._latest_ms} ms at "
                "most. Give it processor time",
                self._latest_ms,
            )
        for peer, (count, youngest_ms) in self._echoes.items():
            if count >= _ECHOES_MIN and youngest_ms * 2 > lease_ms:
                self._tell(
                    f"way to {peer}",
                    f"the way to {peer} and back takes {youngest_ms} ms at least, too long for "
                    f"timing.lease_ms = {lease_ms}. Make it shorter",
                    youngest_ms,
                )

    def _tell(self, subject: str, what: str, held_up_ms: int) -> None:
        lease_ms = _rounded(max(self.state.settings.lease_ms, 3 * held_up_ms))
        sentence = (
            f"{what}, or set on all nodes at once timing.heartbeat_ms: {lease_ms // 7}, lease_ms: "
            f"{lease_ms} and suspect_ms: {_rounded(lease_ms * 5 // 2)}: failures are then noticed "
            "later"
        )
        self.state.found[subject] = (sentence, self.state.now_ms)
        if subject not in self._told:
            self._told[subject] = _TELL_EVERY
            self.state.out.warnings.append(sentence)


def _rounded(milliseconds: int) -> int:
    return -(-milliseconds // _ROUND_MS) * _ROUND_MS
