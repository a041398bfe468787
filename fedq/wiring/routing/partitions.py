"""Which fragment of a stream in several fragments a publish goes to: that of its routing key.

Inputs: routes of publishes, and how many fragments there are. Output: the number of one of them.

The same on every node, in every release, and for ever: who reads a key reads it in one place, in
order (docs/adr/0064). So what is computed here never changes.
"""

from hashlib import blake2b


def partition_of(route: bytes, count: int) -> int:
    """The number of the fragment, from 0 on, that a route's key has among so many."""
    # Both parts are short strings: the exchange, which does not count, and the key.
    key = route[2 + route[0] :]
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big") % count
