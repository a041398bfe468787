"""A real node whose disk fails: by a C library that looks into a file at each call.

`FailingDisk.prefix` goes before the node's command; `fail` says how the disk fails from then on
(the words are in `failing_disk.c`), `heal` that it does no more.
"""

import subprocess
from pathlib import Path

from tests.faults.power import compiler

_SOURCE = Path(__file__).with_name("failing_disk.c")
_FAULT = "failing"


class FailingDisk:
    """The disk of all nodes that run with its prefix."""

    def __init__(self, directory: Path) -> None:
        library = directory / "failing_disk.so"
        self._fault = directory / _FAULT
        subprocess.run(
            [compiler() or "cc", "-O1", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"],
            check=True,
        )
        self.prefix = ("env", f"LD_PRELOAD={library}", f"FEDQ_FAILING_DISK={self._fault}")

    def fail(self, how: str) -> None:
        """It fails so from now on."""
        new = self._fault.with_suffix(".new")
        new.write_text(how)
        new.replace(self._fault)

    @property
    def has_failed(self) -> bool:
        """Whether any read, write or sync has."""
        return self._fault.with_suffix(".met").exists()

    def heal(self) -> None:
        """It works again."""
        self._fault.unlink()
