"""Draws `docs/pictures/*.svg`, or checks that they are what this script draws.

    python scripts/draw_pictures.py            # write
    python scripts/draw_pictures.py --check    # exit 1 and name the files that differ

Input: the descriptions below. Output: one SVG file for each, the same bytes on every machine.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import rooms_picture

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
import page_picture  # noqa: E402 (finds fedq from here on)

from loadtests.scale import picture  # noqa: E402 (as above)

TARGET: Final = ROOT / "docs" / "pictures"
#: The name that XML gives to SVG; put together, because it is a name and leads nowhere.
NAMESPACE: Final = "http:" + "//www.w3.org/2000/svg"

INK: Final = "#1f2933"
FAINT: Final = "#7b8794"
PAPER: Final = "#ffffff"
NODE: Final = "#f0f4f8"
PRIMARY: Final = "#ffd8a8"
BACKUP: Final = "#d0ebff"
CLIENT: Final = "#d3f9d8"
GONE: Final = "#ffc9c9"
LINE: Final = "#e03131"


class Picture:
    """A growing SVG. Lengths are in pixels; the origin is the upper left corner."""

    #: The colour of what is to be followed.
    line: Final = LINE

    def __init__(self, title: str, width: int, height: int) -> None:
        self._parts = [
            f'<svg xmlns="{NAMESPACE}" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        ]

    def box(
        self, x: int, y: int, width: int, height: int, fill: str, lines: Sequence[str] = ()
    ) -> None:
        """A rectangle with lines of text in its middle."""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" '
            f'stroke="{INK}"/>'
        )
        top = y + height // 2 - 8 * (len(lines) - 1) + 4
        for number, line in enumerate(lines):
            self.text(x + width // 2, top + 16 * number, line)

    def text(
        self, x: int, y: int, line: str, *, anchor: str = "middle", color: str = INK,
        bold: bool = False,
    ) -> None:  # fmt: skip
        """One line of text; `y` is its base line."""
        weight = ' font-weight="bold"' if bold else ""
        self._parts.append(
            f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{color}"{weight}>'
            f"{escape(line)}</text>"
        )

    def stroke(
        self, x1: int, y1: int, x2: int, y2: int, *, color: str = INK, dashed: bool = False
    ) -> None:
        """A straight line."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{color}" '
            f'stroke-width="1.4"{dash}/>'
        )

    def arrow(self, x1: int, y1: int, x2: int, y2: int) -> None:
        """An arrow from the first point to the second; its tip is drawn, as not all can mark."""
        self.stroke(x1, y1, x2, y2)
        length = math.hypot(x2 - x1, y2 - y1)
        back, side = (x2 - x1) * 9 / length, (y2 - y1) * 9 / length
        foot_x, foot_y = x2 - back, y2 - side
        left = f"{foot_x - side * 0.4:.1f},{foot_y + back * 0.4:.1f}"
        right = f"{foot_x + side * 0.4:.1f},{foot_y - back * 0.4:.1f}"
        self._parts.append(f'<polygon points="{x2},{y2} {left} {right}" fill="{INK}"/>')

    def upright(self, x: int, y: int, line: str) -> None:
        """A line of text that is read from below."""
        self._parts.append(
            f'<text transform="translate({x} {y}) rotate(-90)" fill="{INK}">{escape(line)}</text>'
        )

    def dot(self, x: int, y: int, radius: int, *, is_filled: bool) -> None:
        """A small circle."""
        fill = INK if is_filled else PAPER
        self._parts.append(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{fill}" stroke="{INK}"/>')

    def finish(self) -> str:
        """The whole file."""
        return "\n".join([*self._parts, "</svg>", ""])


# --- a queue over three nodes ---------------------------------------------------------------------


def draw_queue() -> str:
    """One queue, three fragments, each with a backup on another node."""
    picture = Picture("One queue in three fragments on three nodes", 760, 330)
    for number, name in enumerate("ABC"):
        x = 20 + 250 * number
        picture.box(x, 90, 220, 170, NODE)
        picture.text(x + 110, 110, f"node {name}", bold=True)
        picture.box(x + 15, 122, 190, 46, PRIMARY, (f"fragment {number + 1}: primary",))
        copied = (number + 2) % 3 + 1
        picture.box(x + 15, 200, 190, 46, BACKUP, (f"fragment {copied}: backup",))
        picture.box(x + 15, 20, 90, 34, CLIENT, ("publisher",))
        picture.box(x + 115, 20, 90, 34, CLIENT, ("consumer",))
        picture.arrow(x + 60, 54, x + 60, 121)
        picture.arrow(x + 160, 122, x + 160, 55)
    for x in (225, 475):
        picture.arrow(x, 150, x + 60, 214)
    picture.stroke(725, 145, 750, 145)
    picture.stroke(750, 145, 750, 282)
    picture.stroke(750, 282, 8, 282)
    picture.stroke(8, 282, 8, 223)
    picture.arrow(8, 223, 34, 223)
    picture.text(
        380, 312, "Every record reaches the backup of its fragment before the publisher's confirm.",
        color=FAINT,
    )  # fmt: skip
    return picture.finish()


# --- floors ---------------------------------------------------------------------------------------

FLOORS: Final = (
    ("fedq.cli", "commands that people type"),
    ("fedq.admin | bench | pipeline", "answers for the cluster; tools beside it"),
    ("fedq.shell", "sockets, gRPC, Raft log, journal files, clock, configuration"),
    ("fedq.node", "all machines wired together: Node"),
    ("fedq.proxy", "serving what lives on other nodes: links, hubs, publishers, relays"),
    ("fedq.wiring | fragments | channels | replication", "the machines"),
    ("fedq.amqp | journal", "two encodings: wire and disk"),
    ("fedq.core", "words that every floor shares"),
)
FLOORS_ABOVE_THE_LINE: Final = 3


def draw_floors() -> str:
    """The floors, and the line below which nothing touches the world."""
    picture = Picture("The floors of fedq", 760, 424)
    y = 14
    for number, (name, what) in enumerate(FLOORS):
        if number == FLOORS_ABOVE_THE_LINE:
            picture.stroke(10, y + 12, 750, y + 12, color=LINE, dashed=True)
            picture.text(
                380, y + 7, "the line: below it no I/O, no clock, no chance, no await", color=LINE
            )
            y += 24
        picture.box(10, y, 740, 36, BACKUP if number < FLOORS_ABOVE_THE_LINE else PRIMARY)
        picture.text(24, y + 23, name, anchor="start", bold=True)
        picture.text(736, y + 23, what, anchor="end")
        y += 44
    picture.text(380, y + 10, "Imports go down only.", color=FAINT)
    return picture.finish()


def draw_node() -> str:
    """The rooms of a node, from the code's own imports."""
    picture = Picture("The rooms of a node", *rooms_picture.size())
    rooms_picture.draw_rooms(picture, (BACKUP, NODE))
    return picture.finish()


# --- sequences ------------------------------------------------------------------------------------

#: (from, to, text); the same name twice is something that happens at one place.
Step = tuple[str, str, str]


def draw_sequence(title: str, actors: Sequence[str], steps: Sequence[Step], dead: str = "") -> str:
    """Who says what to whom, from top to bottom; `dead` is an actor whose life ends."""
    gap, top = 175, 40
    width, height = gap * len(actors) + 40, top + 36 * len(steps) + 40
    picture = Picture(title, width, height)
    places = {actor: 20 + gap // 2 + gap * number for number, actor in enumerate(actors)}
    for actor, x in places.items():
        picture.stroke(x, top, x, height - 10, color=FAINT, dashed=True)
        picture.box(x - 72, 10, 144, 30, GONE if actor == dead else NODE, (actor,))
    for number, (source, target, text) in enumerate(steps):
        y = top + 36 * (number + 1)
        if source == target:
            picture.box(places[source] - 78, y - 18, 156, 24, PRIMARY, ())
            picture.text(places[source], y - 2, text)
        else:
            picture.arrow(places[source], y, places[target], y)
            middle = (places[source] + places[target]) // 2
            picture.text(middle, y - 8, text)
    return picture.finish()


CONFIRM: Final[tuple[Step, ...]] = (
    ("publisher", "node A", "basic.publish"),
    ("node A", "node B", "PublishBatch"),
    ("node B", "node B", "position, record"),
    ("node B", "node C", "Replicate"),
    ("node C", "node C", "apply, fsync"),
    ("node B", "node B", "fsync, meanwhile"),
    ("node C", "node B", "ReplicaAck"),
    ("node B", "node B", "commit mark rises"),
    ("node B", "node A", "PublishDone"),
    ("node A", "publisher", "basic.ack"),
)

FAILOVER: Final[tuple[Step, ...]] = (
    ("node A", "node B", "dials, is refused"),
    ("node A", "map", "B is down, C leads"),
    ("map", "node C", "committed"),
    ("map", "node A", "committed"),
    ("node C", "node C", "reign 2 begins"),
    ("node A", "node C", "Attach: what is held"),
    ("node A", "node C", "PublishBatch, resent"),
    ("node C", "node C", "known ones dropped"),
    ("node C", "node A", "PublishDone"),
    ("node C", "node A", "Deliver, redelivered"),
)


def draw_all() -> dict[str, str]:
    """File name -> text of every picture."""
    return {
        "page.svg": page_picture.draw_page(NAMESPACE),
        "queue.svg": draw_queue(),
        "scale.svg": picture.draw(),
        "floors.svg": draw_floors(),
        "rooms.svg": draw_node(),
        "confirm.svg": draw_sequence(
            "From publish to confirm", ("publisher", "node A", "node B", "node C"), CONFIRM
        ),
        "failover.svg": draw_sequence(
            "Failover", ("node B", "node A", "node C", "map"), FAILOVER, dead="node B"
        ),
    }


def drift(wanted: dict[str, str]) -> list[str]:
    """Names of the files that are missing, different or left over."""
    present = {path.name: path for path in TARGET.glob("*.svg")}
    wrong = [
        name
        for name, text in wanted.items()
        if name not in present or present[name].read_text("utf-8") != text
    ]
    return wrong + sorted(name for name in present if name not in wanted)


def main() -> int:
    """The command line; 0 when nothing differs or everything was written."""
    parser = argparse.ArgumentParser(description="Draw docs/pictures")
    parser.add_argument("--check", action="store_true", help="only verify, write nothing")
    arguments = parser.parse_args()
    wanted = draw_all()
    wrong = drift(wanted)
    if arguments.check:
        for name in wrong:
            sys.stderr.write(f"docs/pictures/{name} is not what the script draws\n")
        if wrong:
            sys.stderr.write("run: python scripts/draw_pictures.py\n")
        return 1 if wrong else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in wrong:
        if name in wanted:
            (TARGET / name).write_text(wanted[name], "utf-8")
        else:
            (TARGET / name).unlink()
        sys.stdout.write(f"docs/pictures/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
