"""Whether a run was good, and why not: sentences for people, a word for scripts.

In: the facts of a run (`Collector.facts`). Out: complaints; none means that it was good.
"""

from typing import Any, Final

#: A counter of fedq's that counts what the cluster knows it has lost.
LOST_COUNTER: Final = "fedq_messages_lost_total"


def complaints(facts: dict[str, Any], node_may_die: bool) -> list[str]:
    """What is wrong, as sentences.

    `node_may_die`: connections that the broker ended are no complaint; what their lives were owed
    before is.
    """
    found: list[str] = []
    if not facts["workers"]:
        return ["no worker reported anything"]
    if not facts["subscribers_max"] and not facts["owed"]:
        found.append("nobody ever subscribed, so nothing was tried")
    if not facts["published"]:
        found.append("nothing was published, so nothing was tried")
    elif not facts["owed"] and facts["subscribers_max"]:
        found.append("nobody was owed a message; let it run longer than the grace and the drain")
    if facts["lost"]:
        found.append(
            f"{facts['lost']:,} of {facts['owed']:,} deliveries that were owed did not come, "
            f"to {facts['short']:,} subscribers"
        )
    if facts["repeated"]:
        found.append(f"{facts['repeated']:,} deliveries came twice")
    if facts["out_of_order"]:
        found.append(f"{facts['out_of_order']:,} deliveries came after a later one")
    if facts["refused"]:
        found.append(f"the broker refused {facts['refused']:,} publishes")
    if facts["not_ready"]:
        found.append(f"{facts['not_ready']:,} subscribers were never ready, or not again")
    if facts["lives"]["broken"] and not node_may_die:
        found.append(f"the broker ended {facts['lives']['broken']:,} connections of subscribers")
    for name, node in facts["nodes"].items():
        lost = node["counters_grown"].get(LOST_COUNTER, 0)
        if lost:
            found.append(f"{name} itself counts {lost:,.0f} lost messages")
    return found


def sentence(facts: dict[str, Any], problems: list[str]) -> str:
    """The run in one paragraph."""
    last = facts["last_subscriber_us"]
    told = (
        f"{facts['subscribers_max']:,} subscribers at most; {facts['published']:,} messages "
        f"published, {facts['delivered']:,} deliveries; of {facts['owed']:,} owed "
        f"{facts['lost']:,} were lost, {facts['repeated']:,} came twice, "
        f"{facts['out_of_order']:,} out of order; the last subscriber had a message after "
        f"{last['p50'] / 1e3:,.0f} ms (median), {last['p99'] / 1e3:,.0f} ms (p99), "
        f"{last['max'] / 1e3:,.0f} ms at most."
    )
    if problems:
        return f"BAD: {'; '.join(problems)}. {told}"
    return f"Good: {told}"
