"""The generated protobuf code is what the generator makes of `protos/` today."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.integration.waiting import patient

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "generate_protos.py"

SMALL = """
syntax = "proto3";
package small;
message Word { string text = 1; }
"""
USER = """
syntax = "proto3";
package small;
import "small.proto";
service Echo { rpc Say(Word) returns (Word); }
"""


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_protos", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_code_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"],
        capture_output=True,
        text=True,
        timeout=patient(60),
    )
    assert done.returncode == 0, done.stderr


def test_drift_is_found_and_mended(generator: ModuleType, tmp_path: Path) -> None:
    protos, target = tmp_path / "protos", tmp_path / "pb"
    protos.mkdir()
    target.mkdir()
    (protos / "small.proto").write_text(SMALL)
    (protos / "user.proto").write_text(USER)
    wanted = generator.generate(protos)
    assert "from . import small_pb2" in wanted["user_pb2_grpc.py"]
    assert generator.drift(wanted, target) == sorted(wanted)
    generator.write(wanted, target)
    assert generator.drift(wanted, target) == []
    (target / "small_pb2.py").write_text("edited by hand")
    (target / "gone_pb2.py").write_text("of a proto that was removed")
    assert generator.drift(wanted, target) == ["small_pb2.py", "gone_pb2.py"]
    assert generator.write(wanted, target) == ["small_pb2.py", "gone_pb2.py"]
    assert generator.drift(wanted, target) == []
    assert not (target / "gone_pb2.py").exists()
