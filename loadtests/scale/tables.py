"""What the model says, as Markdown: beside the records, and for millions.

In: the model. Out: the part of docs/SCALE.md that `python -m loadtests.scale --write` puts there.
"""

from typing import Final

from loadtests.scale.model import (
    Cluster,
    Prediction,
    Traffic,
    best_relays,
    predict,
    spread,
    tree_depth,
)
from loadtests.scale.records import all_held

NODES: Final = (10, 20, 50, 100, 200)
SUBSCRIBERS: Final = (1_000_000, 10_000_000)
#: A message a second, of 200 bytes, with nodes that wait five times as long for each other.
TRAFFIC: Final = Traffic(1.0, 200)
SLOWER: Final = 5.0
#: Subscribers of a node that stand for little and for much to do there.
FEW: Final = 100
_MIB: Final = 1 << 20


def records() -> list[str]:
    """Each figure on record beside the prediction."""
    rows = ["| record | figure | measured | predicted | off |", "|---|---|---|---|---|"]
    rows += [
        f"| {held.record} | {held.figure} | {held.measured:,.1f} | {held.predicted:,.1f} | "
        f"{held.off:.0%} |"
        for held in all_held()
    ]
    return rows


def millions() -> list[str]:
    """What one and ten million subscribers take, on so many nodes."""
    rows = [
        "| subscribers | nodes | of a node | last delivery, ms | of that: to the last node | "
        "messages a second, at most | memory of a node, MiB | descriptors of a node | between "
        "nodes, KiB/s | busy, publisher's node, any other | of that heartbeats | all of a node "
        "come back, s (with names of their own) |",
        "|" + "---|" * 12,
    ]
    for subscribers in SUBSCRIBERS:
        for nodes in NODES:
            told = predict(Cluster(nodes, subscribers, SLOWER), TRAFFIC)
            rows.append(f"| {subscribers:,} | {nodes} | {subscribers // nodes:,} {_row(told)}")
    return rows


def _row(told: Prediction) -> str:
    return (
        f"| {told.last_s * 1e3:,.0f} | {told.spread_s * 1e3:.1f} | {told.rate_max:,.1f} | "
        f"{told.node_bytes / _MIB:,.0f} | {told.descriptors:,} | {told.wire_bytes_s / 1024:,.0f} | "
        f"{told.publisher_busy:.0%}, {told.node_busy:.0%} | {told.beats_busy:.1%} | "
        f"{told.storm_s:.2f} ({told.named_storm_s:.1f}) |"
    )


def heartbeats() -> list[str]:
    """What heartbeats alone take of each node."""
    rows = ["| nodes | frames a second, of a node | default timing | five times as long |",
            "|---|---|---|---|"]  # fmt: skip
    for nodes in (3, 10, 20, 64, 100, 200):
        busy = [predict(Cluster(nodes, nodes, slower), TRAFFIC).beats_busy for slower in (1, 5)]
        frames = 2 * (nodes - 1) * 10
        rows.append(f"| {nodes} | {frames:,} | {busy[0]:.1%} | {busy[1]:.1%} |")
    return rows


def trees() -> list[str]:
    """Where handing on along a tree beats one sender to all nodes."""
    rows = [
        "| nodes | one sender, ms | a tree, ms | hands on to, hops | of the time to the last "
        "subscriber, 100 a node | 5,000 a node | messages a second at most, 100 a node: one "
        "sender, a tree |",
        "|" + "---|" * 7,
    ]
    for nodes in (5, 10, 20, 50, 100, 200):
        relays = best_relays(nodes)
        alone, tree = spread(nodes, 0), spread(nodes, relays)
        gains = []
        for here in (FEW, 5_000):
            last = predict(Cluster(nodes, nodes * here, SLOWER), TRAFFIC).last_s
            gains.append(f"-{(alone - tree) / last:.0%}")
        rates = [
            predict(Cluster(nodes, nodes * FEW, SLOWER, each), TRAFFIC).rate_max
            for each in (0, relays)
        ]
        how = f"{relays}, {tree_depth(nodes, relays)}" if relays else "all, 1"
        rows.append(
            f"| {nodes} | {alone * 1e3:.2f} | {tree * 1e3:.2f} | {how} | {gains[0]} | {gains[1]} | "
            f"{rates[0]:,.0f}, {rates[1]:,.0f} |"
        )
    return rows


def document() -> str:
    """All tables, each with its heading."""
    parts = [
        ("Beside what was measured", records()),
        ("One and ten million", millions()),
        ("Heartbeats", heartbeats()),
        ("Trees", trees()),
    ]
    return "\n".join(
        line for heading, rows in parts for line in (f"### {heading}", "", *rows, "")
    ).rstrip()
