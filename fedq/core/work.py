"""How much a node may still do in a turn, in units of about a microsecond of compiled code.

Inputs: the beginning of each turn; what was done, as its doer knows it. Output: whether something
may still begin. What cannot be cut may overdraw; then nothing else begins (docs/adr/0033).

Within a turn each client has a share, so that one that asks for much leaves room for the others.
"""


class Work:
    """The budget of a turn."""

    __slots__ = (
        "_applied", "_before", "_dealt", "_floor", "_served", "left", "owes_batch", "per_turn",
        "share", "turn",
    )  # fmt: skip

    def __init__(self, per_turn: int) -> None:
        """`per_turn`: what a turn may do."""
        self.per_turn = per_turn
        #: What one client may do in a turn.
        self.share = max(1, per_turn // 2)
        #: What this turn may still do; negative when it is overdrawn.
        self.left = per_turn
        #: What was done to hand out messages.
        self._dealt = 0
        #: The next batch is handed out whatever is left: something worse comes of it otherwise.
        self.owes_batch = False
        #: And what for other nodes.
        self._served = 0
        #: And to follow the cluster map.
        self._applied = 0
        #: Counts the turns.
        self.turn = 0
        #: What the share at hand must leave, and what was left when it began.
        self._floor = 0
        self._before = per_turn

    @property
    def done(self) -> int:
        """What was done since the share at hand began."""
        return self._before - self.left

    @property
    def room(self) -> int:
        """What may still be done within the share at hand, or the turn."""
        return self.left - self._floor

    @property
    def is_spent(self) -> bool:
        """Whether nothing else may begin."""
        return self.left <= self._floor

    def begin_turn(self) -> None:
        """Begins a turn, with all of its budget."""
        self.turn += 1
        self.left = self.per_turn
        self._floor = self._dealt = self._served = self._applied = 0

    def resize(self, per_turn: int) -> None:
        """Sets what a turn may do from the next turn on."""
        self.per_turn = per_turn
        self.share = max(1, per_turn // 2)

    def spend(self, amount: int) -> None:
        """Charges work that was done, or is begun and will be."""
        self.left -= amount

    def deal(self, amount: int) -> bool:
        """Charges work that was done to hand out messages; true if the turn has room for more.

        A quarter of a turn is for that, whatever else there is to do, and one batch at least.
        """
        before = self._dealt
        self.left -= amount
        self._dealt += amount
        if self.left > 0 or before <= self.per_turn // 4:
            return True
        owed, self.owes_batch = self.owes_batch, False
        return owed

    def serve(self, amount: int) -> None:
        """Charges work that was done, or will be, because another node said so."""
        self.left -= amount
        self._served += amount

    @property
    def may_serve(self) -> bool:
        """Whether more of other nodes is heard; a quarter of a turn is for that."""
        return self.left > 0 or self._served <= self.per_turn >> 2

    def apply(self, amount: int) -> None:
        """Charges work that was done because the cluster map said so."""
        self.left -= amount
        self._applied += amount

    @property
    def may_apply(self) -> bool:
        """Whether the next command of the map is taken; one is, and a quarter of a turn is."""
        return self.left > 0 or self._applied <= self.per_turn >> 2

    def begin_share(self, used: int) -> None:
        """Begins the share of a client, who has used so much of it in this turn."""
        left = self._before = self.left
        floor = left - self.share + used
        self._floor = 0 if floor < 0 else min(floor, left)

    def begin_slice(self, shift: int) -> None:
        """Begins a piece of a long job: that part of a turn (a shift), even of an overdrawn one."""
        self._before = self.left
        self._floor = self.left - max(1, self.per_turn >> shift)

    def end_share(self) -> int:
        """Ends the share, or the slice; returns what was done since it began."""
        self._floor = 0
        return self._before - self.left
