"""The command line and nodes, started often: a process that has imported them, and forks for each.

Most of what `fedq cluster status` takes is to start Python and import gRPC, and so is most of what
a node takes until it serves; tests ask again and again until something has happened, and start
hundreds of nodes. Each still has a process of its own. As a program this is the process that forks:
a wish on each line of its input, an answer on each of its output, both as JSON.

A node that is forked becomes a child of who asked for it (a subreaper, as Linux calls that), who
then waits for it as for any other. Nodes in the ordinary way are in `test_cli_node.py` and others.
"""

import ctypes
import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from fedq.shell.host.grpc_environment import settle_grpc
from tests.integration.waiting import patient

#: How long a question may take; who asks is told that it was cut off.
_QUESTION_S = 20
#: From <linux/prctl.h>.
_PR_SET_CHILD_SUBREAPER: Final = 36
#: What changes from test to test, and is nothing to a node.
_OF_PYTEST: Final = "PYTEST_CURRENT_TEST"


class Answer(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str


class Forked:
    """A node that was forked: of `subprocess.Popen` what tests need."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        #: As `Popen` has it; None while the process runs.
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, as soon as it has ended; `subprocess.TimeoutExpired`."""
        if self.poll() is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                ended = select.poll()
                ended.register(descriptor, select.POLLIN)
                ended.poll(None if timeout is None else timeout * 1_000)
            finally:
                os.close(descriptor)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(f"the node {self.pid}", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Sends it unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)


class Questions:
    """The process that forks, until `close`."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._asked = 0
        self._environment = environment
        self._prctl = getattr(ctypes.CDLL(None), "prctl", None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.questions"],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, *arguments: str) -> Answer:
        """Runs `fedq` with these arguments."""
        return Answer(*self._wish("ask", list(arguments)))

    def start(
        self, arguments: list[str], directory: Path, log: Path, environment: dict[str, str]
    ) -> Forked | None:
        """A process that runs `fedq` with these arguments; None if it has to be another's fork.

        That is where its environment is not that of the process that forks, which has imported all
        modules, or where the system gives nobody the children of others.
        """
        if self._prctl is None or _lasting(environment) != _lasting(self._environment):
            return None
        # A test whose deadline passes meanwhile would lose the process: it passes afterwards.
        with _undisturbed():
            if self._prctl(_PR_SET_CHILD_SUBREAPER, 1):
                return None
            try:
                (pid,) = self._wish("start", arguments, str(directory), str(log))
            finally:
                self._prctl(_PR_SET_CHILD_SUBREAPER, 0)
        return Forked(pid)

    def _wish(self, *wish: object) -> list[Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asked += 1
        self._process.stdin.write(json.dumps([self._asked, *wish]) + "\n")
        self._process.stdin.flush()
        while True:
            number, *answer = json.loads(self._process.stdout.readline())
            # A test's deadline may have passed while it waited: the answer to that is nobody's.
            if number == self._asked:
                return list(answer)

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def _lasting(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name != _OF_PYTEST}


@contextmanager
def _undisturbed() -> Iterator[None]:
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, (signal.SIGALRM, signal.SIGINT, signal.SIGTERM)
    )
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def main() -> None:
    """Fulfils wishes until there are no more."""
    settle_grpc()
    # Now, for all forks; not before, as gRPC reads its settings when it is imported.
    import_module("fedq.cli.commands")
    import_module("fedq.cli.node.node_process")
    # What was imported is garbage in none of them.
    gc.freeze()
    for line in sys.stdin:
        number, kind, *wish = json.loads(line)
        answer = _answer(*wish) if kind == "ask" else [_start(*wish)]
        sys.stdout.write(json.dumps([number, *answer]) + "\n")
        sys.stdout.flush()


def _answer(arguments: list[str]) -> list[object]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if not child:
            _run(arguments, out, err)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return [code, out.read(), err.read()]


def _start(arguments: list[str], directory: str, log: str) -> int:
    """The process id of a grandchild, which has lost its parent when this returns."""
    reading, writing = os.pipe()
    parent = os.fork()
    if not parent:
        child = os.fork()
        if child:
            os.write(writing, str(child).encode())
            os._exit(0)
        os.close(reading)
        os.close(writing)
        _become(arguments, directory, log)
    os.close(writing)
    os.waitpid(parent, 0)
    pid = int(os.read(reading, 32))
    os.close(reading)
    return pid


def _become(arguments: list[str], directory: str, log: str) -> None:
    """Is the command from now on, and ends as it does."""
    from fedq.cli.main import main as run_command

    os.chdir(directory)
    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT),
    ):  # fmt: skip
        opened = os.open(name, flags, 0o666)
        os.dup2(opened, number)
        os.close(opened)
    os.dup2(1, 2)
    sys.argv = ["fedq", *arguments]
    run_command()


def _run(arguments: list[str], out: IO[str], err: IO[str]) -> None:
    """Becomes the command, in a process of its own."""
    from fedq.cli.commands import app

    signal.setitimer(signal.ITIMER_REAL, patient(_QUESTION_S))
    for stream, place in ((sys.stdout, out), (sys.stderr, err)):
        os.dup2(place.fileno(), stream.fileno())
    os.close(sys.stdin.fileno())
    sys.argv = ["fedq", *arguments]
    code = 1
    try:
        app()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
