"""Builds what is compiled of fedq; all else about the package is in pyproject.toml.

Two kinds of extension modules stand beside the Python sources in whose place they are imported:

* Every `fedq/x/name.pyx` becomes an extension beside `fedq/x/name.py`, by Cython
  (docs/adr/0022-compiled-twins.md).
* What `fedq/compiled_modules.txt` names is compiled from the `.py` itself, by mypyc
  (docs/adr/0028-compiled-machines.md).

The `.py` is what runs where nothing could be compiled. So every extension is optional: without a C
compiler a warning is shown, and the installation goes on. `FEDQ_PURE=1` builds none. What mypyc
refuses is no matter of the machine, and ends the build. `scripts/try_installed.py` tries the whole.

In a checkout, after a change:

    python setup.py build_ext --inplace
"""

import io
import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, Final

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT: Final = Path(__file__).resolve().parent
PACKAGE: Final = ROOT / "fedq"
sys.path.insert(0, str(ROOT))
from fedq.compiled import compiled_from_python, cython_sources  # noqa: E402 (found from here on)

#: Where the generated C goes: not between the sources.
C_FOLDER: Final = Path("build/c")
#: The library that holds all that mypyc compiles; the modules themselves only point to it.
GROUP: Final = "fedq.compiled_modules"
LIBRARY: Final = f"{GROUP}__mypyc"


def _relative(path: Path) -> str:
    """How setuptools wants it."""
    return path.relative_to(ROOT).as_posix()


#: How much the C compiler does about what mypyc made. "0" takes a third of the time, and is for who
#: only wants to know that all of it compiles.
OPT_LEVEL: Final = os.environ.get("FEDQ_OPT_LEVEL", "2")

#: Commands of setuptools for which nothing is built; each would run both compilers for nothing.
WITHOUT_EXTENSIONS: Final = {"dist_info", "egg_info", "sdist"}


def is_wanted() -> bool:
    """Whether anything is to be compiled."""
    if WITHOUT_EXTENSIONS.intersection(sys.argv):
        return False
    return os.environ.get("FEDQ_PURE", "") in ("", "0")


def from_cython() -> list[Extension]:
    """One extension for each `.pyx`."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        # pip brings Cython by itself (see [build-system]); this is for who runs setup.py bare.
        logging.warning("no .pyx is compiled, as Cython is missing: pip install Cython")
        return []
    found = [
        Extension(
            ".".join(path.relative_to(ROOT).with_suffix("").parts),
            [_relative(path)],
            # Without debugging symbols, which are most of a file's size.
            extra_compile_args=["-g0"] if os.name == "posix" else [],
        )
        for path in cython_sources(PACKAGE)
    ]
    modules: list[Extension] = cythonize(
        found, build_dir=C_FOLDER.as_posix(), compiler_directives={"language_level": 3}
    )
    return modules


def from_python() -> list[Extension]:
    """The library of what is compiled from Python, and one small extension for each module."""
    try:
        from mypyc.build import mypycify
    except ImportError:
        logging.warning("nothing is compiled from Python, as mypyc is missing: pip install mypy")
        return []
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            found: list[Extension] = mypycify(
                # The project's own settings are for `make check`; here only the types count.
                ["--config-file=", *(_relative(path) for path in compiled_from_python(PACKAGE))],
                debug_level="0",
                opt_level=OPT_LEVEL,
                group_name=GROUP,
                multi_file=True,
                target_dir=C_FOLDER.as_posix(),
            )
    except SystemExit:
        # No matter of the machine: whoever installs it would get something slow and never know.
        raise SystemExit(
            f"mypyc refuses the modules of fedq/compiled_modules.txt:\n{said.getvalue()}\n"
            "FEDQ_PURE=1 in the environment installs fedq without compiled modules"
        ) from None
    for module in found:
        # A library with a dot in its name has its headers in a folder of their own.
        module.include_dirs.append((C_FOLDER / "fedq").as_posix())
        # What another compiler warns of is no reason to go without.
        options = module.extra_compile_args
        module.extra_compile_args = [each for each in options if each != "-Werror"]
    return found


class Build(build_ext):  # type: ignore[misc]  # it comes without types
    """Compiles the files of an extension side by side, and only what has changed."""

    extensions: list[Extension]

    def build_extensions(self) -> None:
        """Called once, when the compiler is known."""
        compiler: Any = self.compiler
        compiler.compile = partial(_compile, compiler, compiler.compile)
        for library in [each for each in self.extensions if each.name == LIBRARY]:
            self.build_extension(library)
            if not Path(self.get_ext_fullpath(LIBRARY)).exists():
                # Without it, what points to it could not be imported.
                self.extensions = [each for each in self.extensions if not _is_pointer(each)]
        super().build_extensions()

    def run(self) -> None:
        """Builds all extensions."""
        super().run()
        if self.inplace:
            # A change that makes no difference to the C leaves the library as it was.
            for library in ROOT.glob(f"{LIBRARY.replace('.', '/')}.*"):
                library.touch()


def _is_pointer(module: Extension) -> bool:
    """Whether a module of the library: there is nothing in it but where to find it."""
    return (C_FOLDER / "fedq").as_posix() in module.include_dirs


def _compile(
    compiler: Any, compile_all: Callable[..., list[str]], sources: list[str], *, output_dir: str,
    **options: Any,
) -> list[str]:  # fmt: skip
    """As the compiler's own `compile`. What all files include counts as a part of each."""
    headers = [path.stat().st_mtime for path in C_FOLDER.rglob("*.h")]

    def compile_one(source: str) -> list[str]:
        made: list[str] = compiler.object_filenames([source], output_dir=output_dir)
        changed = max([Path(source).stat().st_mtime, *headers])
        if all(Path(each).exists() and Path(each).stat().st_mtime > changed for each in made):
            return made
        return compile_all([source], output_dir=output_dir, **options)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [made for each in pool.map(compile_one, sources) for made in each]


def extensions() -> list[Extension]:
    """What is to be compiled: nothing where it is not wanted or cannot be."""
    found = [*from_cython(), *from_python()] if is_wanted() else []
    for module in found:
        # Said here, as cythonize and mypycify make extensions of their own.
        module.optional = True
    return found


setup(ext_modules=extensions(), cmdclass={"build_ext": Build})
