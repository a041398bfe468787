"""The command line, asked often: a process that has imported it, and forks for each question.

Most of what `fedq cluster status` takes is to start Python and import gRPC, and tests ask it again
and again until something has happened. Each question still has a process of its own, which ends
with it. As a program this is the process that forks: a question on each line of its input, an
answer on each of its output, both as JSON.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from importlib import import_module
from typing import IO, NamedTuple

from fedq.shell.host.grpc_environment import settle_grpc

#: How long a question may take; who asks is told that it was cut off.
_QUESTION_S = 20


class Answer(NamedTuple):
    """What a command ended with."""

    code: int
    out: str
    err: str


class Questions:
    """The process that forks, until `close`."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._asked = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.questions"],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, *arguments: str) -> Answer:
        """Runs `fedq` with these arguments."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asked += 1
        self._process.stdin.write(json.dumps([self._asked, arguments]) + "\n")
        self._process.stdin.flush()
        while True:
            number, *answer = json.loads(self._process.stdout.readline())
            # A test's deadline may have passed while it waited: the answer to that is nobody's.
            if number == self._asked:
                return Answer(*answer)

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def main() -> None:
    """Answers questions until there are no more."""
    settle_grpc()
    # Now, for all forks; not before, as gRPC reads its settings when it is imported.
    import_module("fedq.cli.commands")
    for line in sys.stdin:
        number, arguments = json.loads(line)
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            child = os.fork()
            if not child:
                _run(arguments, out, err)
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            sys.stdout.write(json.dumps([number, code, out.read(), err.read()]) + "\n")
            sys.stdout.flush()


def _run(arguments: list[str], out: IO[str], err: IO[str]) -> None:
    """Becomes the command, in a process of its own."""
    from fedq.cli.commands import app

    signal.alarm(_QUESTION_S)
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
