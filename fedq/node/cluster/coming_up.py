"""How this process enters the cluster map, and when it must end instead.

Inputs: the map, ticks, the leader, the answers of the map. Outputs: proposals, `out.fatal`.

The process proposes itself (`MemberUp`) until the map says that it is up, and says whether its data
directory has gone on from the process that the map knew before: if not it is *behind*, and its
copies count as old (docs/adr/0031-who-a-process-is.md). So they do if its journal is known to lack
something of that process's (docs/adr/0032-what-a-copy-is-worth.md). A process that the map refuses
for good says why and ends: it would neither serve nor be told why, and only hold others up.
"""

from fedq.core.errors import Refused
from fedq.core.ids import Incarnation
from fedq.core.versions import DIRECTORIES, MEMBERSHIP, MINE, NEWEST, shown
from fedq.node.cluster.proposals import GAVE_UP, Proposals, Result
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.operations import MemberDown, MemberUp
from fedq.wiring.cluster_map.operations_members import NameVoters, Speaks
from fedq.wiring.cluster_map.state import Member

#: In units of `suspect_ms`: a process that is up in the map for so long while it is asked to give
#: way lives; a dead one would have been declared down.
_LIVES_AFTER = 3


class ComingUp:
    """The way of this process into the cluster map."""

    __slots__ = ("_asked_ms", "_refusal", "_rival", "_rival_ms", "_was_up", "overtaken_by",
                 "proposals", "state")  # fmt: skip

    def __init__(self, state: NodeState, proposals: Proposals) -> None:
        self.state = state
        self.proposals = proposals
        self._asked_ms = -state.settings.proposal_retry_ms
        #: The last refusal, so that it is told once.
        self._refusal = ""
        #: The process of this name that is up while this one asks, and since when.
        self._rival: tuple[int, str] | None = None
        self._rival_ms = 0
        self._was_up = False
        #: The newer process of this name that the map knows: the next start needs a higher number.
        self.overtaken_by: Incarnation | None = None

    @property
    def is_up(self) -> bool:
        """Whether the map says that this very process runs."""
        known = self.state.map.members.get(self.state.me)
        return known is not None and known.up and self._is_mine(known)

    def look(self) -> None:
        """Looks at the map's members: has another process taken this one's place?"""
        state = self.state
        if state.map.cluster_version > NEWEST and state.out.fatal is None:
            state.out.fatal = (
                f"the cluster speaks version {state.map.cluster_version} of what nodes say to each "
                f"other, and this release {shown(MINE)}: update this node"
            )
        known = state.map.members.get(state.me)
        if known is None and self._was_up:
            # If it was not, this may be a log that tells of an earlier node of this name.
            self._look_at_forgotten()
        if known is None or state.out.fatal is not None:
            return
        if self._is_mine(known):
            self._was_up = self._was_up or known.up
        elif known.incarnation >= state.settings.incarnation:
            self.overtaken_by = known.incarnation
            state.out.fatal = self._why_overtaken(known)

    def _look_at_forgotten(self) -> None:
        """Ends this process if it was taken out of the cluster."""
        state = self.state
        if state.me in state.map.forgotten and state.out.fatal is None:
            state.out.fatal = (
                f"node '{state.me}' was taken out of this cluster (`fedq cluster forget`): to come "
                "back as a new node it needs an empty data directory, and `join` in its "
                "configuration"
            )

    def _look_at_successor(self) -> None:
        """Ends this process if another data directory was let in under its name."""
        state, mine = self.state, self.state.settings.directory
        place = state.map.roster.get(state.me)
        if place is None or not place.directory or not mine or state.out.fatal is not None:
            return
        if place.directory != mine and state.map.cluster_version >= DIRECTORIES:
            state.out.fatal = (
                f"node '{state.me}' of this cluster has another data directory than this process, "
                "which was taken out of it, or never was of it: give it an empty data directory, a "
                "name of its own, and `join` in its configuration"
            )

    def tick(self) -> None:
        """Asks the cluster to let this process in, again and again until the map says so."""
        state, settings = self.state, self.state.settings
        is_in = self.is_up and state.map.speaks.get(state.me) == MINE
        if state.leader is None or (is_in and not self._names_voters):
            return
        if state.now_ms - self._asked_ms < settings.proposal_retry_ms:
            return
        if settings.joins and not state.map.members:
            # Nothing is read yet of the cluster that it was let into, nor what that speaks.
            return
        self._asked_ms = state.now_ms
        if is_in:
            voters = [(node, settings.peers[node]) for node in sorted(settings.voters)]
            self.proposals.ask(NameVoters(tuple(voters)))
            return
        if self.is_up:
            said = Speaks(state.me, settings.incarnation, *MINE)
            self.proposals.ask(said, self._on_spoken)
            return
        known = state.map.members.get(state.me)
        other = known if known is not None and not self._is_mine(known) else None
        behind = other is not None and not self._goes_on_from(other)
        in_doubt = other is not None and other.incarnation < settings.vouched_since
        if other is not None and other.up and (not behind or state.leader == state.me):
            # Of this directory there is one process at a time, and of a voter's name one that
            # leads: the other one is gone.
            self.proposals.ask(MemberDown(state.me, other.incarnation))
        elif other is not None and other.up:
            self._look_at_rival(other)
        self.proposals.ask(
            MemberUp(
                state.me, settings.incarnation, settings.peers[state.me], settings.amqp_address,
                settings.zone, settings.start, settings.started_ms,
                other.incarnation if other is not None else 0,
                other.start if other is not None else "",
                behind or in_doubt,
                settings.directory if state.map.cluster_version >= DIRECTORIES else "",
            ),
            self._on_answer,
        )  # fmt: skip

    @property
    def _names_voters(self) -> bool:
        """Whether the roster is to begin, with the voters by this leader's configuration."""
        state = self.state
        wants = state.map.cluster_version >= MEMBERSHIP and not state.map.roster
        wants = wants and not state.settings.joins
        return wants and state.leader == state.me

    def _is_mine(self, member: Member) -> bool:
        settings = self.state.settings
        return (member.incarnation, member.start) == (settings.incarnation, settings.start)

    def _goes_on_from(self, member: Member) -> bool:
        """Whether the data directory has seen that process."""
        past = self.state.settings.past
        if not member.start:
            return any(number == member.incarnation for number, _ in past)
        return (member.incarnation, member.start) in past

    def _on_answer(self, result: Result) -> None:
        state = self.state
        if not isinstance(result, Refused):
            known = state.map.members.get(state.me)
            if known is not None and known.behind:
                state.out.warnings.append(
                    "this data directory did not go on from the process that the cluster knew of "
                    "this node, or its journal is damaged: its copies count as old, and are "
                    "compared with the others'"
                )
            return
        if result is not GAVE_UP:
            # What the log says of it as it answers is what is so now.
            self._look_at_forgotten()
            self._look_at_successor()
        if result is not GAVE_UP and result.text != self._refusal:
            self._refusal = result.text
            state.out.warnings.append(f"this process is not let in yet: {result.text}")

    def _on_spoken(self, result: Result) -> None:
        if isinstance(result, Refused) and result is not GAVE_UP:
            self.state.out.fatal = result.text

    def _look_at_rival(self, rival: Member) -> None:
        """Judges a process of this name that is up and unknown to this directory: does it live?"""
        state = self.state
        if self._rival != (rival.incarnation, rival.start):
            self._rival = (rival.incarnation, rival.start)
            self._rival_ms = state.now_ms
        elif state.now_ms - self._rival_ms >= _LIVES_AFTER * state.settings.suspect_ms:
            state.out.fatal = (
                f"another process of node '{state.me}' is up in this cluster (number "
                f"{rival.incarnation}, reached at {rival.peer_address}): only one may have the "
                "name. Give this node a name of its own, or stop that one first"
            )

    def _why_overtaken(self, known: Member) -> str:
        me = self.state.me
        if self._was_up:
            return (
                f"process {known.incarnation} of node '{me}', reached at {known.peer_address}, "
                "has taken this one's place: only one may have the name. Stop one of them, or "
                "give it a name and a data directory of its own"
            )
        return (
            f"the cluster knows process {known.incarnation} of node '{me}', and this one has the "
            f"number {self.state.settings.incarnation}: its data directory is from an older copy, "
            "or its clock is behind. The directory counts from there now: start the node again; "
            "its copies will be compared with the others'"
        )
