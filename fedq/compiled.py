"""Which hot modules run compiled; what an operator should hear about it.

*Hot modules* are those that may be compiled. Input: the package's own folder, where each `.pyx` is
compiled in the place of the `.py` of the same name (docs/adr/0022-compiled-twins.md), and
`compiled_modules.txt` names what is compiled from the `.py` itself
(docs/adr/0028-compiled-machines.md). Output: `survey()`. Nothing is decided here: Python's own
order of imports prefers an extension module, and `FEDQ_PURE=1` makes `fedq/__init__.py` take the
sources.
"""

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import fedq


class Survey(NamedTuple):
    """The hot modules by what would be imported for their names, sorted."""

    compiled: tuple[str, ...]
    pure: tuple[str, ...]
    #: Pure was asked for, with FEDQ_PURE.
    is_wish: bool

    @property
    def text(self) -> str:
        """One sentence: what runs, and when it is less than could be, what to do."""
        total = len(self.compiled) + len(self.pure)
        if not self.pure:
            return f"all {total} hot modules are compiled"
        if self.is_wish:
            return f"{total} hot modules run from their Python sources: FEDQ_PURE is set"
        missing = (
            f"{len(self.pure)} of {total} hot modules are not compiled: everything works, with "
            "more processor time for each message; "
        )
        if self.compiled:
            return missing + (
                "a C compiler was there, so this is a fault of the build: install fedq again "
                "with `pip install --verbose` to see why they were left out"
            )
        return missing + "to have them, install a C compiler and then fedq again"


def cython_sources(package: Path) -> list[Path]:
    """The `.pyx` files that a package has beside its `.py` files, sorted."""
    return sorted(package.rglob("*.pyx"))


def compiled_from_python(package: Path) -> list[Path]:
    """The `.py` files of a package that are compiled as they are, sorted."""
    names = package / "compiled_modules.txt"
    if not names.exists():
        return []
    found: list[Path] = []
    for line in names.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            place = package.parent.joinpath(*line.split("."))
            found += place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    return sorted(path for path in found if path.name != "__init__.py")


def hot_modules() -> list[str]:
    """Names of the modules that may be compiled, sorted."""
    package = Path(fedq.__path__[0])
    found = [*cython_sources(package), *compiled_from_python(package)]
    return sorted(
        ".".join(path.relative_to(package.parent).with_suffix("").parts) for path in found
    )


def survey() -> Survey:
    """Looks for what an import would find; imports no hot module itself."""
    compiled: list[str] = []
    pure: list[str] = []
    for name in hot_modules():
        spec = find_spec(name)
        origin = spec.origin if spec is not None else None
        is_compiled = origin is not None and origin.endswith(tuple(EXTENSION_SUFFIXES))
        (compiled if is_compiled else pure).append(name)
    is_wish = any(finder is fedq.PureFinder for finder in sys.meta_path)
    return Survey(tuple(compiled), tuple(pure), is_wish)
