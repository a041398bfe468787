"""fedq: an AMQP 0-9-1 broker federation. docs/ARCHITECTURE.md is the map of this package.

Hot modules may have a compiled one beside them, which Python's own order of imports prefers. With
`FEDQ_PURE=1` in the environment all are taken from their Python sources instead
(docs/adr/0022-compiled-twins.md). Both do the same; it is a matter of speed, and of debugging.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

from fedq.core.version import VERSION

__version__ = VERSION


class PureFinder:
    """Finds the modules of this package in their Python sources alone."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of fedq from its `.py`; `None` for all others."""
        if not name.startswith(f"{__name__}."):
            return None
        for place in path or ():
            spec = FileFinder(place, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name, target)
            if spec is not None and spec.loader is not None:
                return spec
        return None


if os.environ.get("FEDQ_PURE", "") not in ("", "0"):
    sys.meta_path.insert(0, PureFinder)
