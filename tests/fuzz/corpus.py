"""Inputs that are kept: one line of hexadecimal digits each, in `corpus/<target>.txt`.

A line that starts with `#` says what the inputs below it are, or what they found.
"""

from pathlib import Path
from typing import Final

DIRECTORY: Final = Path(__file__).parent / "corpus"


def kept(name: str) -> list[bytes]:
    """The kept inputs of a target, oldest first."""
    path = DIRECTORY / f"{name}.txt"
    if not path.exists():
        return []
    lines = path.read_text("ascii").splitlines()
    return [bytes.fromhex(line) for line in lines if line and not line.startswith("#")]


def keep(name: str, inputs: list[bytes], remark: str) -> None:
    """Adds inputs under a remark."""
    path = DIRECTORY / f"{name}.txt"
    text = path.read_text("ascii") if path.exists() else ""
    lines = [f"# {remark}", *(data.hex() for data in inputs), ""]
    path.write_text(text + "\n".join(lines), "ascii")
