"""The running digest (a hash chain) of a cluster map: maps that came the same way have the same.

Inputs: the digest before, a command of the log, its results. Output: the digest after. Members
compare theirs at equal versions: a map that went another way is found out, whatever the cause (a
release that does something else, a log that was not the same, damage in memory).

Releases that kept none had no operation `process_up`: with the first one of those the digest
begins, at the same version on every node.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from fedq.core.errors import Refused
from fedq.wiring.cluster_map.state import Ok

#: 0: none yet.
NO_DIGEST: Final = 0
_BEGINS_WITH: Final = b'"op":"process_up"'
#: Fits into a number of JSON and of a frame.
_SIZE: Final = 7


def after(digest: int, command: bytes, results: Iterable[Ok | Refused]) -> int:
    """The digest after a command."""
    if digest == NO_DIGEST and _BEGINS_WITH not in command:
        return NO_DIGEST
    running = blake2b(digest.to_bytes(_SIZE, "big"), digest_size=_SIZE)
    running.update(command)
    for result in results:
        # Not the sentences: those may change from one release to the next.
        code = result.reply_code if isinstance(result, Refused) else -result.value - 1
        running.update(b"%d;" % code)
    return int.from_bytes(running.digest(), "big") or 1
