"""Takes away from a killed node's data directory what a power cut could have taken.

A node runs with `power.c` loaded, which notes what it has made durable. `cut` then leaves of every
file what was synced and, of the rest, as much as the dice say, with torn sectors in it; and each
directory has the names of its last sync or those of now. What POSIX promises to be on disk is never
touched.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

_SOURCE = Path(__file__).with_name("power.c")
_SECTOR = 512
_NOTES = "synced"
_SHADOW = "shadow"

#: Device and inode of a file.
_File = tuple[int, int]


def compiler() -> str | None:
    """A C compiler of this machine; without one the power cannot be cut."""
    return shutil.which("cc") or shutil.which("gcc")


def build(directory: Path) -> Path:
    """Compiles `power.c` into the directory; returns the library."""
    library = directory / "power.so"
    subprocess.run(
        [compiler() or "cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"],
        check=True,
    )
    return library


def prefix(library: Path) -> list[str]:
    """What goes before the command of a node, which runs in its own directory."""
    return ["env", f"LD_PRELOAD={library}", f"FEDQ_SYNCED={_NOTES}", f"FEDQ_SHADOW={_SHADOW}"]


def settle(directory: Path) -> None:
    """All that is in the node's data directory now counts as durable."""
    shadow = directory / _SHADOW
    shutil.rmtree(shadow, ignore_errors=True)
    shadow.mkdir(parents=True)
    lines: list[str] = []
    for folder in _folders(directory / "data"):
        names = [f"D {folder}"]
        for path in _files(folder):
            found = path.stat()
            lines.append(f"F {found.st_dev} {found.st_ino} {found.st_size}")
            names.append(f"{path.name}/{found.st_ino}")
            os.link(path, shadow / str(found.st_ino))
        lines.append("\t".join(names))
    (directory / _NOTES).write_text("".join(f"{line}\n" for line in lines))


def cut(directory: Path, dice: random.Random) -> int:
    """Cuts the power of a node that has just been killed; returns how many bytes are gone."""
    sizes: dict[_File, int] = {}
    listings: dict[Path, dict[str, int]] = {}
    for line in (directory / _NOTES).read_text().splitlines():
        if line.startswith("D "):
            place, *entries = line[2:].split("\t")
            listings[Path(place)] = {
                name: int(inode) for name, _, inode in (entry.rpartition("/") for entry in entries)
            }
            continue
        kind, device, inode, size = line.split()
        key = int(device), int(inode)
        sizes[key] = min(sizes.get(key, 0), int(size)) if kind == "T" else int(size)
    for folder, names in listings.items():
        if folder.is_dir() and dice.random() < 0.5:
            _put_names_back(folder, names, directory / _SHADOW)
    gone = 0
    for folder in _folders(directory / "data"):
        for path in _files(folder):
            found = path.stat()
            gone += _tear(path, sizes.get((found.st_dev, found.st_ino), 0), dice)
    settle(directory)
    return gone


def _put_names_back(folder: Path, names: dict[str, int], shadow: Path) -> None:
    for path in _files(folder):
        if names.get(path.name) != path.stat().st_ino:
            path.unlink()
    for name, inode in names.items():
        kept = shadow / str(inode)
        if kept.exists() and not (folder / name).exists():
            os.link(kept, folder / name)


def _tear(path: Path, synced: int, dice: random.Random) -> int:
    size = path.stat().st_size
    if size <= synced:
        return 0
    end = dice.randint(synced, size)
    # A copy: the file may have another name in the shadow, which must keep what it has.
    content = bytearray(path.read_bytes()[:end])
    for at in range(synced - synced % _SECTOR, end, _SECTOR):
        if dice.random() < 0.2:
            start, stop = max(at, synced), min(at + _SECTOR, end)
            content[start:stop] = bytes(stop - start)
    path.unlink()
    path.write_bytes(content)
    return size - end


def _folders(data: Path) -> Iterator[Path]:
    if data.is_dir():
        yield data
        yield from (path for path in sorted(data.rglob("*")) if path.is_dir())


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_file()]
