"""What became of the lanes of `make test`: each leaves a file, and the last step tells them all.

    python -m tests.lanes tell unit integration     # these, in this order
    python -m tests.lanes note sim "1000 histories" # of a lane that is no pytest
    python -m tests.lanes forget                    # what earlier runs left
    python -m tests.lanes efforts                   # what took most of the processors

A lane that is pytest's is noted by `tests/plugins/lane.py`.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).resolve().parent.parent / "build" / "lanes"
#: Reasons for skips that are told of each lane; of the rest only how many tests they concern.
REASONS_TOLD: Final = 8
#: Failures of one lane that are told by name.
FAILURES_TOLD: Final = 50
#: So many modules of each lane are told by what they took.
MODULES_TOLD: Final = 15


class Lane(NamedTuple):
    """What a lane left."""

    #: What ran, in words.
    ran: str
    is_green: bool
    seconds: float | None = None
    #: Skipped tests by the reason.
    skipped: Mapping[str, int] = {}
    #: Tests that failed, as pytest names them, each with what it said last.
    failed: Sequence[Sequence[str]] = ()
    #: Processor seconds by module of tests, with all processes that it had.
    effort: Mapping[str, float] = {}
    #: Kept at each failure, so that it outlives a lane that is killed.
    is_over: bool = True


def note(name: str, lane: Lane) -> None:
    """Keeps it for the end."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(lane._asdict()), encoding="utf-8")


def noted(name: str) -> Lane | None:
    """What the lane left, if it left anything."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Lane(**found)


def told(names: Sequence[str]) -> list[str]:
    """A line for each lane, one for each reason of skips below it, and at the end all failures."""
    lines: list[str] = []
    failed: list[str] = []
    for name in names:
        lane = noted(name)
        if lane is not None:
            failed += _failures(name, lane)
        if lane is None or not lane.is_over:
            lines.append(f"{name:12} RED: did not come to its end: see above")
            continue
        lines.append(f"{name:12} {'' if lane.is_green else 'RED: '}{lane.ran}{_took(lane)}")
        reasons = sorted(lane.skipped.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"{'':12}   {count:4} skipped: {why}" for why, count in reasons[:REASONS_TOLD]]
        if more := reasons[REASONS_TOLD:]:
            count = sum(each for _, each in more)
            lines.append(f"{'':12}   {count:4} skipped for {len(more)} other reasons")
    return [*lines, *(["What failed:", *failed] if failed else [])]


def _took(lane: Lane) -> str:
    took = "" if lane.seconds is None else f" in {lane.seconds:.0f} s"
    return took + (f", {sum(lane.effort.values()):.0f} s of a processor" if lane.effort else "")


def efforts() -> list[str]:
    """The modules of each noted lane that took most, and what the others took together."""
    lines: list[str] = []
    for path in sorted(FOLDER.glob("*.json")):
        lane = noted(path.stem)
        if lane is None or not lane.effort:
            continue
        lines.append(f"{path.stem:12} {sum(lane.effort.values()):8.1f} s of a processor")
        ranked = sorted(lane.effort.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"{'':12} {spent:8.1f} s  {name}" for name, spent in ranked[:MODULES_TOLD]]
        if more := ranked[MODULES_TOLD:]:
            spent = sum(each for _, each in more)
            lines.append(f"{'':12} {spent:8.1f} s  {len(more)} other modules")
    return lines or ["No lane has been noted yet: make test, or one lane of it."]


def _failures(name: str, lane: Lane) -> list[str]:
    lines = [f"{name:12} {test}: {why}" for test, why in lane.failed[:FAILURES_TOLD]]
    if more := lane.failed[FAILURES_TOLD:]:
        lines.append(f"{name:12} and {len(more)} others: see above")
    return lines


def main(arguments: Sequence[str]) -> int:
    """The command; see the module."""
    match arguments:
        case ["forget"]:
            for path in FOLDER.glob("*.json"):
                path.unlink()
        case ["note", name, ran]:
            note(name, Lane(ran, is_green=True))
        case ["efforts"]:
            sys.stdout.write("\n".join([*efforts(), ""]))
        case ["tell", *names]:
            sys.stdout.write("\n".join(["What ran:", *told(names), ""]))
        case _:
            sys.stderr.write(__doc__ or "")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
