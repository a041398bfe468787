"""Three pictures of what the model says, in one SVG that is the same on every machine."""

from collections.abc import Sequence
from typing import Final

from loadtests.locust.page import COLORS, PANEL, TOP, WIDTH, Axes, Point
from loadtests.macro.chart import NAMESPACE, PAPER, box, text
from loadtests.scale.model import Cluster, best_relays, predict
from loadtests.scale.tables import SLOWER, SUBSCRIBERS, TRAFFIC

_NODES: Final = range(10, 201, 5)
_MIB: Final = 1 << 20


def draw() -> str:
    """The whole file."""
    height = TOP + 3 * PANEL
    title = "A message to one and to ten million subscribers, by the model"
    last, memory, busy = [], [], []
    for subscribers in SUBSCRIBERS:
        told = {n: predict(Cluster(n, subscribers, SLOWER), TRAFFIC) for n in _NODES}
        last.append([(float(n), each.last_s * 1e3) for n, each in told.items()])
        memory.append([(float(n), each.node_bytes / _MIB) for n, each in told.items()])
    few = [(n, Cluster(n, 100 * n, SLOWER), best_relays(n)) for n in _NODES]
    trees = [
        (n, predict(Cluster(n, each.subscribers, SLOWER, relays), TRAFFIC).rate_max)
        for n, each, relays in few
    ]
    busy = [
        [(float(n), predict(each, TRAFFIC).rate_max) for n, each, _ in few],
        [(float(n), rate) for n, rate in trees],
    ]
    names = ["1 million", "10 million"]
    parts = [
        f'<svg xmlns="{NAMESPACE}" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f"<title>{title}</title>",
        box(0, 0, WIDTH, height, PAPER),
        text(12, 26, title, size=17),
        *_panel(0, "Until the last subscriber has it", "ms", names, last),
        *_panel(1, "Memory of a node", "MiB", names, memory),
        *_panel(
            2, "Messages a second, at most, with 100 subscribers a node", "",
            ["one sender", "a tree"], busy,
        ),
    ]  # fmt: skip
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(
    place: int, title: str, unit: str, names: Sequence[str], lines: Sequence[Sequence[Point]]
) -> list[str]:
    axes = Axes(
        TOP + place * PANEL, title, [x for line in lines for x, _ in line],
        [y for line in lines for _, y in line],
    )  # fmt: skip
    parts = axes.frame("nodes", unit)
    parts += [axes.line(line, COLORS[index]) for index, line in enumerate(lines)]
    return parts + axes.legend(names)
