"""To which cluster the data directory belongs, noted as soon as the disk takes it.

Inputs: the cluster's name, from the map. Output: `identity.json`. A disk that is full, or fails, is
asked again: it must not end a node, and other processes hear the name from this one meanwhile.
"""

import asyncio
import logging
from typing import Final

from fedq.shell.identity import IdentityFile

logger = logging.getLogger("fedq.node")

_AGAIN_S: Final = 1.0


class ClusterMark:
    """Notes the name in a file, and again until it is there."""

    __slots__ = ("_file", "_is_told", "_loop")

    def __init__(self, file: IdentityFile, loop: asyncio.AbstractEventLoop) -> None:
        self._file = file
        self._loop = loop
        self._is_told = False

    def note(self, name: str) -> None:
        """Notes the name; raises `NodeFailure` if the directory belongs to another cluster."""
        try:
            self._file.mark_cluster(name)
        except OSError as error:
            if not self._is_told:
                self._is_told = True
                logger.warning(
                    "that the data directory belongs to cluster %s is not on its disk yet: %s",
                    name, error.strerror or error,
                )  # fmt: skip
            self._loop.call_later(_AGAIN_S, self.note, name)
