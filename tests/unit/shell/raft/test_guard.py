"""pysyncobj as fedq leaves it: one exact version, and nothing of it pickles."""

import pickle
import subprocess
import sys

import pysyncobj.journal
import pysyncobj.pickle
import pysyncobj.syncobj
import pysyncobj.tcp_connection
import pytest

from fedq.shell.raft import log as raft_log


class Attack:
    """Unpickling it would end the process."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return sys.exit, (3,)


def test_pysyncobj_can_no_longer_read_or_write_pickles() -> None:
    frame = pickle.dumps(Attack())
    for module in (pysyncobj.pickle, pysyncobj.syncobj.pickle, pysyncobj.tcp_connection.pickle):
        with pytest.raises(AssertionError, match="tried to pickle"):
            module.loads(frame)
        with pytest.raises(AssertionError, match="tried to pickle"):
            module.dumps(1)
    with pytest.raises(AssertionError, match="tried to pickle"):
        pysyncobj.journal.loads(frame)


def test_another_version_of_pysyncobj_is_refused_and_says_what_to_install() -> None:
    program = "import pysyncobj.version as v; v.VERSION = '0.3.18'; import fedq.shell.raft.log"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "ImportError: fedq works with pysyncobj 0.3.17 only" in result.stderr
    assert f"pip install pysyncobj=={raft_log.PYSYNCOBJ_VERSION}" in result.stderr
