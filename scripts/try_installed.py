"""Builds sdist and wheel as strangers get them, installs the wheel alone, and tries that.

    python scripts/try_installed.py            # in a folder of its own, removed at the end
    python scripts/try_installed.py --keep DIR

The sdist is made of the checkout and the wheel of the sdist, both in isolated environments, so what
the project's own environment happens to hold cannot help. The wheel goes into an empty environment.
There, with a C compiler on the machine, every module that may be compiled must be; `fedq node` must
serve `fedq bench`; and the tests of the twins must pass against the installed package.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
#: What the tests of the twins need beside fedq itself.
TEST_PACKAGES: Final = ("hypothesis", "pika", "psutil", "pytest")
COMPILERS: Final = ("cc", "gcc", "clang")
BENCH_SECONDS: Final = 2.0
#: How long a node may take until it answers.
START_S: Final = 30.0
#: How long a command may take: one that hangs must not keep the CI.
COMMAND_S: Final = 1_200.0


def main() -> int:
    """The command: prints what it does, exit 1 with a sentence when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    keep: Path | None = parser.parse_args().keep
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        return _try_in(keep.resolve())
    with tempfile.TemporaryDirectory(prefix="fedq-installed-") as directory:
        return _try_in(Path(directory))


def _try_in(folder: Path) -> int:
    wheel = _build(folder)
    _say(f"installing {wheel.name} into an empty environment")
    environment = folder / "environment"
    _run([sys.executable, "-m", "venv", environment], folder)
    python = environment / "bin" / "python"
    _install(python, folder, wheel)
    problem = _look_at_version(python, folder) or _bench(python, folder)
    if problem:
        _say(f"WRONG: {problem}")
        return 1
    _say("the tests of the twins, against what is installed")
    _install(python, folder, *TEST_PACKAGES)
    shutil.copytree(ROOT / "tests", folder / "tests", dirs_exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: takes long\n")
    _run([python, "-m", "pytest", "-q", "tests/twins"], folder)
    return 0


def _build(folder: Path) -> Path:
    """The wheel, made of the sdist, made of the checkout."""
    _say("building sdist and wheel in isolation")
    _run([sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT], folder)
    return next((folder / "dist").glob("*.whl"))


def _install(python: Path, folder: Path, *what: Path | str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check")
    _run([python, "-m", "pip", "install", *quiet, *what], folder)


def _look_at_version(python: Path, folder: Path) -> str:
    """Whether all that can be compiled here is; "" or a sentence."""
    found: dict[str, Any] = json.loads(_run([python, "-m", "fedq", "version", "--json"], folder))
    compiled, pure = found["compiled"], found["not_compiled"]
    _say(f"{len(compiled)} modules are compiled, {len(pure)} are not")
    has_compiler = any(shutil.which(each) for each in COMPILERS)
    if pure and has_compiler:
        return f"with a C compiler at hand these were not compiled: {', '.join(pure)}"
    if not compiled and not pure:
        return "the wheel does not know what may be compiled: its sources are not in it"
    return ""


def _bench(python: Path, folder: Path) -> str:
    """Whether an installed node serves the installed load generator; "" or a sentence."""
    log = (folder / "node.log").open("wb")
    command: list[str | Path] = [python, "-m", "fedq", "node", "--config", _configuration(folder)]
    node = subprocess.Popen(command, cwd=folder, env=_environment(), stdout=log, stderr=log)
    try:
        url = f"amqp://guest:guest@127.0.0.1:{_port_of(folder, node)}"
        bench = [python, "-m", "fedq", "bench", "--url", url, "--json", "--quiet"]
        said = _run([*bench, "--seconds", str(BENCH_SECONDS), "--warm-up", "0.5"], folder)
    finally:
        node.terminate()
        node.wait(15)
        log.close()
    delivered: int = json.loads(said)["delivered"]
    _say(f"the installed node delivered {delivered:,} messages in {BENCH_SECONDS:g} s")
    return "" if delivered else "the installed node delivered nothing"


def _configuration(folder: Path) -> Path:
    path = folder / "node.yaml"
    path.write_text(
        "node: installed\ndata: data\n"
        "amqp: {listen: [{host: 127.0.0.1, port: 0}]}\nadmin: {host: 127.0.0.1, port: 0}\n"
    )
    return path


def _port_of(folder: Path, node: "subprocess.Popen[bytes]") -> int:
    """Where the node listens: its log says so once it is ready."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        text = (folder / "node.log").read_text(errors="replace")
        _, found, rest = text.partition("ready: amqp://127.0.0.1:")
        if found:
            return int(rest.split()[0])
        if node.poll() is not None:
            break
        time.sleep(0.05)
    raise SystemExit(f"the installed node does not start:\n{text}")


def _environment() -> dict[str, str]:
    """What the tried processes see: nothing of the checkout, nothing that asks for pure modules."""
    hidden = ("PYTHONPATH", "FEDQ_PURE", "VIRTUAL_ENV", "PYTHONHOME")
    return {name: value for name, value in os.environ.items() if name not in hidden}


def _run(command: list[Any], folder: Path) -> str:
    """Runs a command outside of the checkout; what it prints. Exits with its output if it fails."""
    words = [str(each) for each in command]
    done = subprocess.run(
        words, cwd=folder, env=_environment(), text=True, check=False,
        capture_output=True, timeout=COMMAND_S,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
