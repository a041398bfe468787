"""Twins are twins: the same names, parameters and numbers; and FEDQ_PURE=1 forces the pure ones."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from fedq import compiled as compiled_modules
from fedq.amqp import spec
from fedq.compiled import Survey, survey
from fedq.core.message import HEAD_SIZE
from tests.twins import FEDQ, extension_of, hot_modules, pairs, source_of, twin

ENUM: Final = re.compile(r"^cdef enum:\n((?:(?: .*)?\n)+)", re.MULTILINE)
CONSTANT: Final = re.compile(r"^ +(\w+) = (.+)$", re.MULTILINE)
#: The name under which others find a constant of C.
OFFERED: Final = re.compile(r"^([A-Z_]+) = ([A-Z_]+)$", re.MULTILINE)
#: What only compiled code needs a number for: module and name.
OF_ONE_TWIN: Final = {
    ("fedq.shell.disk.group_commit", "ENTRIES_MIN"),
    # Python's is in seconds, and for all that waits for room: `durable_files.FULL_WAIT_S`.
    ("fedq.shell.disk.group_commit", "FULL_WAIT_US"),
    ("fedq.shell.clients.sending", "PARTS_MAX"),
    ("fedq.wiring.routing.topics", "NOTHING"),
    ("fedq.wiring.routing.topics", "SEVERAL"),
    ("fedq.wiring.routing.topics", "UNKNOWN"),
}


def public_names(module: ModuleType) -> list[str]:
    """What the source of a module defines for others, as opposed to what it imports for itself."""
    found: list[str] = []
    for node in ast.parse(source_of(module.__name__).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            found += [target.id for target in targets if isinstance(target, ast.Name)]
    return sorted(name for name in found if not name.startswith("_"))


def parameters(value: object) -> list[str]:
    """The names of a callable's parameters."""
    assert callable(value)
    return list(inspect.signature(value).parameters)


@pytest.mark.parametrize("name", hot_modules())
def test_a_twin_has_a_complete_pure_module_beside_it(name: str) -> None:
    assert source_of(name).exists(), f"{name} has a .pyx and no .py"
    assert twin(name, "pure").__doc__


@pytest.mark.parametrize("name", hot_modules())
def test_both_have_the_same_public_names(name: str) -> None:
    pure, compiled = pairs(name)
    missing = [public for public in public_names(pure) if not hasattr(compiled, public)]
    assert not missing, f"{name}.pyx lacks {', '.join(missing)}"


@pytest.mark.parametrize("name", hot_modules())
def test_both_take_the_same_parameters(name: str) -> None:
    pure, compiled = pairs(name)
    for public in public_names(pure):
        value, other = getattr(pure, public), getattr(compiled, public)
        if inspect.isfunction(value):
            assert parameters(other) == parameters(value), f"{name}.{public}"
        elif inspect.isclass(value):
            verbs = [verb for verb in vars(value) if not verb.startswith("_")]
            lacking = [verb for verb in verbs if not hasattr(other, verb)]
            assert not lacking, f"{name}.{public} lacks {', '.join(lacking)}"
        elif isinstance(value, int | str | bytes | tuple):
            assert other == value, f"{name}.{public}"


def c_constants(source: Path) -> dict[str, int]:
    """The constants that a `.pyx` or `.pxd` declares, with their values."""
    found: dict[str, int] = {}
    for block in ENUM.findall(source.read_text(encoding="utf-8")):
        for name, value in CONSTANT.findall(block):
            found[name] = eval(value, {}, found)
    return found


def test_c_has_the_numbers_of_the_protocol_that_python_has() -> None:
    of_c = c_constants(FEDQ / "amqp" / "wire.pxd")
    of_python: dict[str, Any] = {**vars(spec), "MESSAGE_HEAD": HEAD_SIZE}
    assert len(of_c) > 20
    assert {name: of_python.get(name) for name in of_c} == of_c


@pytest.mark.parametrize("name", hot_modules())
def test_both_have_the_same_numbers(name: str) -> None:
    """Public or private: a limit that differs shows only where it is reached."""
    pure = vars(twin(name, "pure"))
    source = source_of(name).with_suffix(".pyx")
    offered = {own: public for public, own in OFFERED.findall(source.read_text(encoding="utf-8"))}
    for own, value in c_constants(source).items():
        constant = offered.get(own, own)
        if (name, constant) in OF_ONE_TWIN:
            assert constant not in pure
            assert f"_{constant}" not in pure
        else:
            assert pure.get(constant, pure.get(f"_{constant}")) == value, f"{name}.{constant}"


def files_of_hot_modules(environment: dict[str, str]) -> list[str]:
    """What a fresh Python imports for the names of the hot modules."""
    script = (
        "import importlib, importlib.util, sys\n"
        "for found in [importlib.util.find_spec(name) for name in sys.argv[1:]]:\n"
        "    sys.stdout.write(found.origin + '\\n')\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *compiled_modules.hot_modules()],
        env=environment, cwd=source_of("fedq.x").parents[1],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_fedq_pure_forces_the_python_sources() -> None:
    files = files_of_hot_modules({**os.environ, "FEDQ_PURE": "1"})
    assert files == [str(source_of(name)) for name in compiled_modules.hot_modules()]


def test_without_it_what_is_compiled_is_taken() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "FEDQ_PURE"}
    files = files_of_hot_modules(environment)
    for name, file in zip(compiled_modules.hot_modules(), files, strict=True):
        extension = extension_of(name)
        if extension is None:
            pytest.skip(f"{name} is not compiled here: it needs a C compiler and `make setup`")
        assert file == str(extension)


def test_the_survey_tells_what_an_import_finds() -> None:
    found = survey()
    assert sorted([*found.compiled, *found.pure]) == compiled_modules.hot_modules()
    assert found.is_wish == (os.environ.get("FEDQ_PURE", "") not in ("", "0"))


def test_if_anything_is_compiled_everything_is() -> None:
    """A build that leaves something out would otherwise pass: its tests are skipped."""
    found = survey()
    if found.is_wish or not found.compiled:
        pytest.skip("nothing is compiled here: it needs a C compiler and `make setup`")
    assert not found.pure


def test_the_survey_says_what_to_do() -> None:
    assert Survey(("a", "b"), (), False).text == "all 2 hot modules are compiled"
    assert "install a C compiler" in Survey((), ("a", "b"), False).text
    assert "a fault of the build" in Survey(("a",), ("b",), False).text
    assert "FEDQ_PURE is set" in Survey((), ("a", "b"), True).text
