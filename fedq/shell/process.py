"""What a node wants of the process it runs in: descriptors, and a patient garbage collector.

Both settings hold for the whole process, which runs one node. Invariant: neither asks for a
privilege; a system that refuses leaves things as they were.
"""

import gc
import resource
from typing import Final

#: Descriptors kept for files, peers and the admin port.
_RESERVED: Final = 256
_CLIENTS_MIN: Final = 16
#: A node holds few tracked objects for each message; looking through all of them often costs
#: pauses of 100 ms and more with many clients.
_COLLECTOR_THRESHOLDS: Final = (50_000, 50, 1_000)


def clients_max() -> int:
    """Takes all descriptors the system allows; returns for how many clients they are enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return max(soft - _RESERVED, _CLIENTS_MIN)


def settle_collector() -> None:
    """To be called once a node has started: what lives now lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)
