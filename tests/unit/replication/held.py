"""Messages of a fragment as its replication looks at them, for tests without a fragment."""


class Held(dict[int, bytes]):
    """Messages by position; one without bytes is on disk alone."""

    def message_at(self, position: int) -> bytes | None:
        """The message; None if there is none."""
        return self.get(position)

    def on_disk_from(self, position: int) -> int:
        """From which position on all up to this one are on disk alone."""
        while self.get(position) == b"":
            position -= 1
        return position + 1
