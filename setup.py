"""Builds the compiled twins of hot modules; all else about the package is in pyproject.toml.

Every `fedq/x/name.pyx` becomes an extension beside its complete twin `fedq/x/name.py`, which is
what runs where nothing could be compiled (docs/adr/0022-compiled-twins.md). So every extension is
optional: without a C compiler a warning is shown, and the installation goes on. `FEDQ_PURE=1`
builds none.

In a checkout, after a change of a `.pyx`:

    python setup.py build_ext --inplace
"""

import logging
import os
from pathlib import Path

from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parent
#: Where the generated C goes: not between the sources.
C_FOLDER = "build/c"


def extensions() -> list[Extension]:
    """One extension for each twin, or none where they are not wanted or cannot be made."""
    if os.environ.get("FEDQ_PURE", "") not in ("", "0"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        # pip brings Cython by itself (see [build-system]); this is for who runs setup.py bare.
        logging.warning("no module is compiled, as Cython is missing: pip install Cython")
        return []
    found = [
        Extension(
            ".".join(path.with_suffix("").parts),
            [path.as_posix()],
            # Without debugging symbols, which are most of a file's size.
            extra_compile_args=["-g0"] if os.name == "posix" else [],
        )
        for path in sorted(pyx.relative_to(ROOT) for pyx in (ROOT / "fedq").rglob("*.pyx"))
    ]
    modules: list[Extension] = cythonize(
        found, build_dir=C_FOLDER, compiler_directives={"language_level": 3}
    )
    for module in modules:
        # Said here, as cythonize makes extensions of its own and would forget it.
        module.optional = True
    return modules


setup(ext_modules=extensions())
