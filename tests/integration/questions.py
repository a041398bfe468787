"""The command line and nodes, started often: a process that has imported them, and forks for each.

Most of what `fedq cluster status` takes is to start Python and import gRPC, and so is most of what
a node takes until it serves; tests ask again and again until something has happened, and start
hundreds of nodes. Each still has a process of its own. As a program this is the process that forks:
a wish on each line of its input, an answer on each of its output, both as JSON. It takes a name of
`PROGRAMS`, and forks for that alone: Celery's workers are started as nodes are.

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from fedq.shell.host.grpc_environment import settle_grpc

#: From <linux/prctl.h>.
_PR_SET_CHILD_SUBREAPER: Final = 36
#: What changes from test to test, and is nothing to a node.
_OF_PYTEST: Final = "PYTEST_CURRENT_TEST"
FEDQ: Final = "fedq"
CELERY: Final = "celery"
#: What is imported before the forks, by what they become: first what mostly has the `main` of it.
PROGRAMS: Final = {
    FEDQ: ("tests.integration.asker", "fedq.cli.node.node_process"),
    CELERY: (
        "celery.bin.celery", "celery.apps.worker", "celery.backends.filesystem",
        "celery.backends.rpc", "celery.concurrency.prefork", "celery.concurrency.solo",
        "celery.concurrency.thread", "kombu.transport.pyamqp",
    ),
}  # fmt: skip


class Answer(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str


class Forked:
    """A node or worker that was forked: of `subprocess.Popen` what tests need."""

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
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
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

    def __init__(self, environment: dict[str, str], program: str = FEDQ) -> None:
        self._asked = 0
        self._environment = environment
        self._main = PROGRAMS[program][0]
        self._prctl = getattr(ctypes.CDLL(None), "prctl", None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.questions", program],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, *arguments: str) -> Answer:
        """Runs `fedq` with these arguments."""
        return Answer(*self._wish("ask", list(arguments)))

    def start(
        self, arguments: list[str], directory: Path, log: Path, environment: dict[str, str],
        module: str | None = None, late: Mapping[str, str] = MappingProxyType({}),
    ) -> Forked | None:  # fmt: skip
        """A process of the program with these arguments; None if it has to be another's fork.

        That is where its environment is not that of the process that forks, which has imported all
        modules, or where the system gives nobody the children of others. `module`: whose `main` it
        runs instead. `late`: variables that only modules read which are not imported yet.
        """
        if self._prctl is None or _lasting(environment) != _lasting(self._environment):
            return None
        wish = [module or self._main, arguments, str(directory), str(log), dict(late)]
        # A test whose deadline passes meanwhile would lose the process: it passes afterwards.
        with _undisturbed():
            if self._prctl(_PR_SET_CHILD_SUBREAPER, 1):
                return None
            try:
                (pid,) = self._wish("start", *wish)
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


def _asker() -> Any:
    from tests.integration.asker import Asker

    return Asker()


def main() -> None:
    """Fulfils wishes until there are no more."""
    program = sys.argv[1]
    settle_grpc()
    # Now, for all forks; not before, as gRPC reads its settings when it is imported.
    for module in PROGRAMS[program]:
        import_module(module)
    asker: Any = _asker() if program == FEDQ else None
    # What is here is garbage in none of them.
    gc.freeze()
    for line in sys.stdin:
        number, kind, *wish = json.loads(line)
        if kind == "ask":
            answer = asker.ask(*wish)
        else:
            answer = [_start(asker, *wish)]
        sys.stdout.write(json.dumps([number, *answer]) + "\n")
        sys.stdout.flush()
    if asker is not None:
        asker.end()


def _start(
    asker: Any, module: str, arguments: list[str], directory: str, log: str, late: dict[str, str]
) -> int:
    """The process id of a grandchild, which has lost its parent when this returns."""
    reading, writing = os.pipe()
    parent = os.fork()
    if not parent:
        if os.fork():
            os._exit(0)
        if module == PROGRAMS[CELERY][0]:
            # So that its pool processes can be ended with it; nobody knows of it before.
            os.setsid()
        os.write(writing, str(os.getpid()).encode())
        os.close(reading)
        os.close(writing)
        if asker is not None:
            asker.let_go()
        os.environ |= late
        _become(module, arguments, directory, log)
    os.close(writing)
    os.waitpid(parent, 0)
    pid = int(os.read(reading, 32))
    os.close(reading)
    return pid


def _become(module: str, arguments: list[str], directory: str, log: str) -> None:
    """Is the command from now on, and ends as it does."""
    os.chdir(directory)
    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT),
    ):  # fmt: skip
        opened = os.open(name, flags, 0o666)
        os.dup2(opened, number)
        os.close(opened)
    os.dup2(1, 2)
    sys.argv = [module.partition(".")[0], *arguments]
    sys.exit(import_module(module).main())


if __name__ == "__main__":
    main()
