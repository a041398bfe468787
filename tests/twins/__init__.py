"""Both forms of every module with a `.pyx` behind one set of tests: twins, and native forms.

`twin(name, kind)` gives a hot module as its Python source (`PURE`) or as its extension
(`COMPILED`), and skips the test where there is no such extension. A test file makes a fixture:

    @pytest.fixture(params=KINDS)
    def settlements(request: pytest.FixtureRequest) -> ModuleType:
        return twin("fedq.amqp.settlements", request.param)

`pairs(name)` gives both at once, for properties of the kind "both give the same". Whichever of the
two is imported by its name stays what the rest of the process uses.
"""

import importlib
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

import fedq

PURE: Final = "pure"
COMPILED: Final = "compiled"
KINDS: Final = (PURE, COMPILED)

FEDQ: Final = Path(fedq.__path__[0])


def hot_modules() -> list[str]:
    """Names of all modules that have a `.pyx`, sorted."""
    found = [path.relative_to(FEDQ.parent).with_suffix("") for path in FEDQ.rglob("*.pyx")]
    return sorted(".".join(path.parts) for path in found)


def source_of(name: str) -> Path:
    """The `.py` of a module of fedq."""
    return FEDQ.joinpath(*name.split(".")[1:]).with_suffix(".py")


def extension_of(name: str) -> Path | None:
    """The built extension of a module, if there is one for this Python."""
    source = source_of(name)
    places = [source.with_name(source.stem + suffix) for suffix in EXTENSION_SUFFIXES]
    return next((place for place in places if place.exists()), None)


def twin(name: str, kind: str) -> ModuleType:
    """The module as the kind says; skips the test when that one is not built."""
    if kind == PURE:
        return _load(name, source_of(name))
    extension = extension_of(name)
    if extension is None:
        pytest.skip(f"{name} is not compiled here: it needs a C compiler and `make setup`")
    return _load(name, extension)


def pairs(name: str) -> tuple[ModuleType, ModuleType]:
    """Both forms, the pure one first; skips the test when the other is not built."""
    return twin(name, PURE), twin(name, COMPILED)


@cache
def _load(name: str, file: Path) -> ModuleType:
    """The module from this file, which becomes what others import only if nothing is yet."""
    imported = importlib.import_module(name)
    if imported.__file__ is not None and Path(imported.__file__) == file:
        return imported
    is_source = file.suffix == ".py"
    loader = (SourceFileLoader if is_source else ExtensionFileLoader)(name, str(file))
    spec = spec_from_file_location(name, file, loader=loader)
    assert spec is not None, f"{file} can be loaded"
    module = module_from_spec(spec)
    loader.exec_module(module)
    assert sys.modules[name] is imported, "loading a twin leaves the imported one in place"
    return module
