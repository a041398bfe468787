"""docs/TESTS_OF_MODULES.md has a row for every module; what it names is there and reaches it."""

from tests.table_of_tests import BY_HAND, FILES_MAX, by_hand, modules, reaches, standing
from tests.tidy.sources import ROOT, report

TABLE = "docs/TESTS_OF_MODULES.md"
HELP = "run `python -m tests.table_of_tests`, and read what it wrote"


def test_every_module_has_a_row() -> None:
    rows, known = standing(), modules()
    problems = [f"{path}:1: no row in {TABLE}; {HELP}" for path in known if path not in rows]
    problems += [f"{TABLE}: {path} is no module; {HELP}" for path in rows if path not in known]
    problems += [
        f"{TABLE}: {path} has {len(tests)} tests, {FILES_MAX} at most; {HELP}"
        for path, tests in rows.items()
        if not 0 < len(tests) <= FILES_MAX
    ]
    assert not problems, report(problems)


def test_what_a_row_names_reaches_the_module() -> None:
    processes = by_hand()
    problems: list[str] = []
    for path, tests in standing().items():
        for test in tests:
            if not (ROOT / test).is_file():
                problems.append(f"{TABLE}: {test} of {path} is not there; {HELP}")
            elif path not in processes and not reaches(test, path):
                problems.append(f"{TABLE}: {test} never imports {path}; {HELP}")
    assert not problems, report(problems)


def test_what_stands_by_hand_is_taken_over() -> None:
    rows = standing()
    name = BY_HAND.relative_to(ROOT)
    problems = [
        f"{name}: {path} is gone, or has another row in {TABLE}; correct it, then {HELP}"
        for path, tests in by_hand().items()
        if rows.get(path) != tests
    ]
    assert not problems, report(problems)
