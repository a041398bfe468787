"""Plays the scripts beside this file and compares the reactions, word for word.

A script is made of blocks with an empty line between them. Lines with `#` tell the story. Then come
commands, a line of four dashes, and the reaction. The first word of a file's name is the world it
plays in: `copies` (one fragment's primary and backups), `link` (two ends of a link) or `cluster`
(whole nodes and their clients).
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scripts.cluster_world import ClusterWorld
from tests.scripts.copies_world import CopiesWorld
from tests.scripts.link_world import LinkWorld

HERE = Path(__file__).parent
MARK = "----"

#: A world obeys a command and tells its reaction in lines.
World = Callable[[str], list[str]]

WORLDS: dict[str, Callable[[], World]] = {
    "cluster": lambda: ClusterWorld().obey,
    "copies": lambda: CopiesWorld().obey,
    "link": lambda: LinkWorld().obey,
}


def play(text: str, world: World) -> str:
    """The script with the reactions of this world."""
    blocks: list[str] = []
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        if MARK in lines:
            lines = lines[: lines.index(MARK)]
        commands = [line for line in lines if not line.startswith("#")]
        if commands:
            reaction = [line for command in commands for line in world(command)]
            lines += [MARK, *(reaction or ["nothing"])]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_script(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    played = play(text, WORLDS[path.stem.partition("_")[0]]())
    if request.config.getoption("--rewrite", default=False):
        path.write_text(played)
    else:
        assert played == text
