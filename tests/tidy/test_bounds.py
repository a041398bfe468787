"""The table of bounds in the documents has the numbers of the code, and none of its own."""

import importlib.util
import re
from types import ModuleType

import pytest

from tests.tidy.sources import ROOT, report

SCRIPT = ROOT / "scripts" / "write_bounds.py"
#: A number that is no bound.
NETWORK = "IPv6: /64"


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_bounds", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_document_has_the_bounds_of_today(writer: ModuleType) -> None:
    document = writer.TARGET.read_text("utf-8")
    assert writer.renewed(document) == document, "run: python scripts/write_bounds.py"


def test_no_row_has_a_number_of_its_own(writer: ModuleType) -> None:
    problems = [
        f"{what}: {number}; name the constant"
        for what, bound in writer.ROWS
        for number in re.findall(r"\d+", writer.PLACE.sub("", what + bound).replace(NETWORK, ""))
    ]
    assert not problems, report(problems)


@pytest.mark.parametrize(
    ("name", "value", "form", "wanted"),
    [
        ("FRAME_BYTES_MAX", 131_072, "", "128 KiB"),
        ("BACKLOG_BYTES_MAX", 1 << 40, "", "1,024 GiB"),
        ("PROPERTIES_BYTES_MAX", 126_956, "", "126,956 bytes"),
        ("PASSWORD_BYTES_MAX", 1_024, "bytes", "1,024 bytes"),
        ("UNHEARD_MS_MAX", 3_600_000, "", "1 h"),
        ("RPC_HANDSHAKE_MS", 3_000, "", "3 s"),
        ("HEARD_PASS_MS", 20, "", "20 ms"),
        ("HEARTBEAT_S", 60, "", "60 s"),
        ("SWEEP_S", 0.5, "", "500 ms"),
        ("LOGINS_VERIFIED_S", 20, "count", "20"),
        ("CHANNELS_MAX", 2_047, "", "2,047"),
        ("KEEPALIVE_PROBES", 4, "word", "four"),
    ],
)
def test_a_value_is_shown_in_its_unit(
    writer: ModuleType, monkeypatch: pytest.MonkeyPatch,
    name: str, value: float, form: str, wanted: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(writer, "VALUES", {name: value})
    assert writer.shown(name, form) == wanted


def test_a_changed_bound_and_a_lost_mark_are_found(
    writer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = writer.TARGET.read_text("utf-8")
    monkeypatch.setattr(writer, "VALUES", {**writer.VALUES, "DEATHS_MAX": 7})
    assert "| entries of `x-death` | 7, and" in writer.renewed(document)
    with pytest.raises(ValueError, match="put the table between"):
        writer.renewed(document.replace(writer.BEGIN, ""))
