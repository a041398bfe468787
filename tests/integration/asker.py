"""Runs commands for the process that forks (`questions.py`): each in a fork, or in one for many.

A command that asks a running node (`--node`) does little more than that; to fork, to put the
command line together and to start gRPC would take fifteen times as long. So one fork runs all of
these, one after the other, as tests of the command line do in their process. It is ended with a
command that takes too long, and another one goes on. All others have a process each: they may
change signals, working directory or logs.
"""

import io
import json
import os
import select
import signal
import socket
import sys
import tempfile
import traceback
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import IO, Any, Final

from typer.main import get_command

from fedq.cli.commands import app
from tests.integration.waiting import patient

#: How long a question may take; who asks is told that it was cut off.
_QUESTION_S: Final = 20
#: What is asked of a running node has this option.
_OF_A_NODE: Final = "--node"
#: The command line, put together once for all forks.
COMMAND: Final = get_command(app)


def main() -> None:
    """What the process of a command runs that is a fork: `fedq.cli.main` in short."""
    sys.exit(COMMAND(prog_name="fedq"))


class Asker:
    """The forks that run commands; `end` ends the one that is kept."""

    def __init__(self) -> None:
        # With the first command typer imports what it needs for any.
        _said(["version"])
        self._pid = 0
        self._socket: socket.socket | None = None
        self._answers: IO[bytes] | None = None

    def ask(self, arguments: list[str]) -> list[Any]:
        """Exit code, output and errors of the command."""
        if _OF_A_NODE not in arguments:
            return _answer(arguments)
        if self._socket is None:
            self._begin()
        assert self._socket is not None
        assert self._answers is not None
        with suppress(OSError):
            self._socket.sendall(json.dumps(arguments).encode() + b"\n")
            if select.select([self._socket], [], [], patient(_QUESTION_S))[0]:
                line = self._answers.readline()
                if line.endswith(b"\n"):
                    return list(json.loads(line))
        self.end()
        return [-signal.SIGKILL, "", "the command was cut off, or ended its process"]

    def _begin(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._pid = os.fork()
        if not self._pid:
            self._socket.close()
            _serve(theirs)
        theirs.close()
        self._answers = self._socket.makefile("rb")

    def end(self) -> None:
        """Ends the fork, if there is one."""
        if self._socket is not None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self.let_go()

    def let_go(self) -> None:
        """Knows nothing of the fork any more, as another fork should."""
        if self._socket is not None and self._answers is not None:
            self._answers.close()
            self._socket.close()
            self._socket = self._answers = None


def _serve(questions: socket.socket) -> None:
    """Is the fork that is kept: it runs commands until nobody asks any more."""
    # Neither the pipes of who forks are its own, nor do they end with it.
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdin, sys.stdout):
        os.dup2(nothing, stream.fileno())
    with questions.makefile("rb") as lines:
        for line in lines:
            questions.sendall(json.dumps(_said(json.loads(line))).encode() + b"\n")
    os._exit(0)


def _said(arguments: list[str]) -> list[Any]:
    """What a command says that runs in this process."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    code: object = 0
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        try:
            COMMAND.main(arguments, prog_name="fedq")
        except SystemExit as ended:
            code = ended.code
        except Exception:
            traceback.print_exc()
            code = 1
    said = [each.buffer.getvalue().decode() for each in streams]
    return [code if isinstance(code, int) else int(code is not None), *said]


def _answer(arguments: list[str]) -> list[Any]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if not child:
            _run(arguments, out, err)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return [code, out.read(), err.read()]


def _run(arguments: list[str], out: IO[str], err: IO[str]) -> None:
    """Becomes the command, in a process of its own."""
    signal.setitimer(signal.ITIMER_REAL, patient(_QUESTION_S))
    for stream, place in ((sys.stdout, out), (sys.stderr, err)):
        os.dup2(place.fileno(), stream.fileno())
    os.close(sys.stdin.fileno())
    sys.argv = ["fedq", *arguments]
    code = 1
    try:
        COMMAND(prog_name="fedq")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
