"""What reads bytes of others raises its own error for them, never an assertion.

An assertion in these modules speaks of what this node did itself; a comment in front says so.
"""

from tests.tidy.sources import report, sources

#: Where bytes of clients, peers and disks become values, and what is made of them.
FOREIGN = (
    "fedq/amqp/", "fedq/journal/decoding.py", "fedq/shell/peers/codec.py",
    "fedq/shell/raft/wire.py", "fedq/wiring/cluster_map/operations.py",
    "fedq/wiring/cluster_map/operation_fields.py", "fedq/replication/backup.py",
    "fedq/node/publishing/dead_letters.py", "fedq/node/copies/replica_flow.py",
    "fedq/proxy/links.py",
)  # fmt: skip
MARK = "# internal:"


def test_no_assertion_rests_on_foreign_bytes() -> None:
    problems = [
        f"{source.path}:{number}: an assertion on the path of foreign bytes; raise the decoder's "
        f"error, or say in front of it what this node did itself ({MARK} …)"
        for source in sources()
        if str(source.path).startswith(FOREIGN)
        for number, line in enumerate(source.lines, 1)
        if line.startswith(" ") and line.lstrip().startswith("assert ")
        if MARK not in source.lines[number - 2] + line
    ]
    assert not problems, report(problems)
