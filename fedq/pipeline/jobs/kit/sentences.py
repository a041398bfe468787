"""Errors of Spark as one sentence: what users would look for in a page of tracebacks.

Input: the text of an error. Output: a `PipelineError`. fedq's own sentences are found in what Spark
wraps around them; a full disk is told as such; of anything else the first line, and where the rest
is.
"""

import errno
import re
from typing import Final

from fedq.pipeline.failure import PipelineError

_OURS: Final = re.compile(r"fedq\.pipeline\.(?:[a-z_]+\.)*(?:\w+Error|Interrupted): (.+)")
_FULL: Final = ("No space left on device", "Disk quota exceeded")
_LINE_MAX: Final = 400


def sentence_of(text: str, log: str) -> PipelineError:
    """The error to raise in place of one of Spark's; `log`: the file with the rest."""
    if any(words in text for words in _FULL):
        return full_disk(None)
    own = _OURS.findall(text)
    if own:
        return PipelineError(own[-1].strip())
    first = next((line.strip() for line in text.splitlines() if line.strip()), "it says nothing")
    return PipelineError(f"Spark failed: {first[:_LINE_MAX]} ({log} has more)")


def is_full_disk(error: OSError) -> bool:
    """Whether an error is that of a disk without room."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def full_disk(path: str | None) -> PipelineError:
    """The sentence about a disk without room."""
    where = f" ({path})" if path else ""
    return PipelineError(
        f"the disk is full{where}: make room, and run the same command again; it goes on where it "
        "was, and nothing that it had committed is lost"
    )
