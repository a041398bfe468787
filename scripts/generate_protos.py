"""Writes `fedq/shell/pb/` from `protos/*.proto`, or checks that it is up to date.

    python scripts/generate_protos.py            # write
    python scripts/generate_protos.py --check    # exit 1 and name the files that differ

The generator writes absolute imports between its files; they are made relative to the package.
Files of protos that are gone are removed.
"""

import argparse
import importlib.resources
import re
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
TARGET = ROOT / "fedq" / "shell" / "pb"
_SIBLING_IMPORT = re.compile(r"^import (\w+_pb2)( as \w+)?$", re.MULTILINE)


def generate(protos: Path) -> dict[str, str]:
    """File name -> text of everything generated from the `.proto` files of a directory."""
    sources = sorted(protos.glob("*.proto"))
    if not sources:
        raise SystemExit(f"{protos}: no .proto file to generate from")
    known_types = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as directory:
        status = protoc.main(
            [
                "protoc",
                f"-I{protos}",
                f"-I{known_types}",
                f"--python_out={directory}",
                f"--pyi_out={directory}",
                f"--grpc_python_out={directory}",
                *(source.name for source in sources),
            ]
        )
        if status != 0:
            raise SystemExit(f"the protobuf compiler refused {protos}; see its message above")
        return {
            path.name: _SIBLING_IMPORT.sub(r"from . import \1\2", path.read_text("utf-8"))
            for path in sorted(Path(directory).iterdir())
        }


def drift(wanted: dict[str, str], target: Path) -> list[str]:
    """Names of the files in `target` that are missing, different or left over."""
    present = {path.name: path for path in target.glob("*_pb2*.py*")}
    wrong = [
        name
        for name, text in wanted.items()
        if name not in present or present[name].read_text("utf-8") != text
    ]
    return wrong + sorted(name for name in present if name not in wanted)


def write(wanted: dict[str, str], target: Path) -> list[str]:
    """Brings `target` up to date; returns the names of the files that changed."""
    changed = drift(wanted, target)
    for name in changed:
        if name in wanted:
            (target / name).write_text(wanted[name], "utf-8")
        else:
            (target / name).unlink()
    return changed


def main() -> int:
    """The command line; 0 when nothing differs or everything was written."""
    parser = argparse.ArgumentParser(description="Generate fedq/shell/pb from protos/")
    parser.add_argument("--check", action="store_true", help="only verify, write nothing")
    arguments = parser.parse_args()
    wanted = generate(PROTOS)
    if not arguments.check:
        for name in write(wanted, TARGET):
            sys.stdout.write(f"{(TARGET / name).relative_to(ROOT)}\n")
        return 0
    wrong = drift(wanted, TARGET)
    for name in wrong:
        sys.stderr.write(f"{(TARGET / name).relative_to(ROOT)} is out of date\n")
    if wrong:
        sys.stderr.write("run: python scripts/generate_protos.py\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
