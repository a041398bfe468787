"""Two ends of a link, `ann` and `ben`, and the wire between them, for scripts.

say WHO WORD…      hands messages to the link
turn WHO           its frames go onto the wire
arrive WHO [N]     frames (all, or N) that WHO sent reach the other
lose WHO           what WHO has on the wire is lost
break | connect    the connection, seen by both ends
map A B            the next version of the map: when ann and ben came up (0: is down)
apply WHO          WHO applies the newest version
wait MS            time passes
"""

from collections import deque

from fedq.core.ids import Incarnation, MapVersion, NodeId
from fedq.core.peer_messages import PeerFrame, PeerMessage, Relay
from fedq.proxy.links import Link


class LinkWorld:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.names = ["ann", "ben"]
        self.links = [
            Link(NodeId("ann"), Incarnation(1), NodeId("ben")),
            Link(NodeId("ben"), Incarnation(1), NodeId("ann")),
        ]
        self.wires: list[deque[PeerFrame]] = [deque(), deque()]
        self.versions = [0, 0]
        self.history = [(0, 0)]
        self.now_ms = 0

    def obey(self, command: str) -> list[str]:
        """One command; the reaction in lines."""
        verb, *words = command.split()
        if verb == "wait":
            self.now_ms += int(words[0])
            return []
        if verb in ("break", "connect"):
            for side, link in enumerate(self.links):
                self.wires[side].clear()
                if verb == "break":
                    link.on_disconnected()
                else:
                    link.on_connected()
            return []
        if verb == "map":
            self.history.append((int(words[0]), int(words[1])))
            return []
        side = self.names.index(words[0])
        if verb == "say":
            for word in words[1:]:
                self.links[side].send(Relay(1, "/", [word.encode()]))
            return []
        if verb == "lose":
            lost = len(self.wires[side])
            self.wires[side].clear()
            return [f"{lost} frames are lost"]
        return self._pass(verb, side, words[1:])

    def _pass(self, verb: str, side: int, words: list[str]) -> list[str]:
        if verb == "turn":
            frames = self.links[side].take_frames(
                MapVersion(self.versions[side]), self.now_ms, None
            )
            self.wires[side].extend(frames)
            return [self._frame(side, frame) for frame in frames]
        if verb == "apply":
            return self._apply(side)
        assert verb == "arrive", verb
        wire, other = self.wires[side], 1 - side
        heard: list[PeerMessage] = []
        for _ in range(int(words[0]) if words else len(wire)):
            heard += self.links[other].on_frame(
                wire.popleft(), MapVersion(self.versions[other]), self.now_ms
            )
        return [self._heard(other, heard)]

    def _apply(self, side: int) -> list[str]:
        self.versions[side] = len(self.history) - 1
        up = self.history[-1]
        link = self.links[side]
        before = link.session
        begins = link.set_session(up[side], up[1 - side])
        said = []
        if begins:
            said.append(f"{self.names[side]}: a session begins")
        elif link.session != before:
            said.append(f"{self.names[side]}: the session is over")
        version = MapVersion(self.versions[side])
        released: list[PeerMessage] = []
        while link.may_release(version):
            released += link.release(version, self.now_ms)
        return [*said, self._heard(side, released)] if released else said

    def _frame(self, side: int, frame: PeerFrame) -> str:
        words = " ".join(_word(message) for message in frame.messages)
        numbers = f"from number {frame.first}: {words}" if frame.messages else "no messages"
        heard = f"heard through {frame.acknowledged}"
        return f"{self.names[side]} -> {self.names[1 - side]}: {numbers}; {heard}"

    def _heard(self, side: int, messages: list[PeerMessage]) -> str:
        words = " ".join(_word(message) for message in messages)
        return f"{self.names[side]} hears {words or 'nothing new'}"


def _word(message: PeerMessage) -> str:
    assert isinstance(message, Relay)
    return message.messages[0].decode()
