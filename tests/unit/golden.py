"""Where the golden files are, and how those are read that hold a frame a line."""

from pathlib import Path
from typing import Final

GOLDEN: Final = Path(__file__).parents[1] / "golden"


def frames(name: str) -> list[bytes]:
    """The frames of a golden file: a line each, in hexadecimal."""
    return [bytes.fromhex(line) for line in (GOLDEN / name).read_text().splitlines()]
