"""What the scrub of a node's journal has come to, for whoever wants to know. Data only."""


class Scrub:
    """Progress and findings since the process began."""

    __slots__ = (
        "bytes_read", "found", "last_pass_unix_ms", "mended", "pass_bytes", "passes", "segment",
    )  # fmt: skip

    def __init__(self) -> None:
        #: Passes that came to their end, and when the last one did.
        self.passes = 0
        self.last_pass_unix_ms = 0
        #: The segment that is being read; 0: none is.
        self.segment = 0
        #: Bytes that the pass under way, or the last one, has read; and all of them.
        self.pass_bytes = self.bytes_read = 0
        #: Segments in which something could not be read.
        self.found = 0
        #: Messages that were fetched from other copies and written anew.
        self.mended = 0
