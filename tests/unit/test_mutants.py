"""`make mutants` puts every kind of fault where it belongs, and no other text changes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import PACKAGE, Mutant, Verdict, changes_of, files_of_tests, mutants, place, sample, table
from tests.mutants.changes import Change, changes
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.trial import parts


def faults(source: str) -> list[str]:
    """The module with each fault."""
    return [change.apply(source.encode()).decode() for change in changes(source.encode())]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", ["a <= b"]),
        ("a < b >= c", ["a <= b >= c", "a < b > c"]),
        ("(a) not in (b)", ["(a) in (b)"]),
        ("a is not None", ["a is None"]),
        ("a and b and c", ["a or b and c", "a and b or c"]),
        ("x = a + b", ["x = a - b"]),
        ("x = (a\n  * b)", ["x = (a\n  / b)"]),
        ("x = 'é' * a - b", ["x = 'é' * a + b"]),
        ("x = (a  # or is in\n  and b)", ["x = (a  # or is in\n  or b)"]),
        ("x = not a", ["x = a"]),
        ("x = f(not (a or b))", ["x = f((a or b))", "x = f(not (a and b))"]),
        ("x = 3", ["x = 4"]),
        ("x = 1.5", ["x = 3.0"]),
        ("x = True", ["x = False"]),
        ("x = 'text'", []),
        ("x: Literal[3]", []),
        ("def f(a: int | None) -> int | None: ...", []),
        ("if a:\n    pass", ["if (not (a)):\n    pass"]),
        ("x = a if b else c", ["x = a if (not (b)) else c"]),
        ("x = [a for a in b if a]", ["x = [a for a in b if (not (a))]"]),
        ("for a in b:\n    continue", ["for a in b:\n    break"]),
        ("if TYPE_CHECKING:\n    import a", []),
        ("zip(a, b, strict=True)", []),
    ],
)
def test_each_fault_is_one_operator_constant_or_branch(source: str, expected: list[str]) -> None:
    assert faults(source) == expected


def test_every_fault_of_the_product_can_be_compiled_and_differs() -> None:
    found = mutants()
    assert {"placement", "lifecycle", "status"} <= found.keys()
    for each in found.values():
        for mutant in sample(each, 40, "compile"):
            source = mutant.path.read_bytes()
            assert ast.dump(ast.parse(mutant.change.apply(source))) != ast.dump(ast.parse(source)), mutant


def test_each_change_that_changes_nothing_is_there_and_left_out() -> None:
    paths = {PACKAGE / path for path, *_ in EQUIVALENT}
    assert {place(path, change) for path in paths for change in changes_of(path)} >= EQUIVALENT.keys()
    drawn = {place(mutant.path, mutant.change) for mutant in mutants("schedule/queue.py")["schedule"]}
    assert drawn
    assert not drawn & EQUIVALENT.keys()


def test_a_seed_draws_the_same_again_and_another_seed_others() -> None:
    everything = mutants()["placement"]
    assert sample(everything, 20, "1") == sample(everything, 20, "1") != sample(everything, 20, "2")


def test_the_table_counts_by_folder_and_names_what_was_not_noticed() -> None:
    path = Path(__file__).parent.parent.parent / "operator/gpujob/status/a.py"
    mutant = Mutant("status", path, Change("operator", 7, 0, 1, "<", "<="))
    assert table([Verdict(mutant, True, 3), Verdict(mutant, False, 2)]) == [
        "FOLDER       MUTANTS NOTICED PERCENT",
        "status             2       1    50.0",
        "all                2       1    50.0",
        "",
        "not noticed:",
        "  operator/gpujob/status/a.py:7: operator: '<' becomes '<=' (2 tests run it)",
    ]


def test_a_folder_has_its_own_tests_those_that_import_it_and_some_of_the_whole_operator() -> None:
    names = {path.name for path in files_of_tests("lifecycle")}
    assert {"test_start_failures.py", "test_a_long_queue_blocks_nobody.py", "test_fault_plans.py"} <= names
    assert "test_faults_change_nothing.py" not in names, "it takes minutes"
    assert {path.parent.name for path in files_of_tests("memory")} >= {"memory", "simulation"}


def test_a_few_tests_run_first_and_each_once() -> None:
    tests = [f"test {number}" for number in range(1000)]
    found = [list(part) for part in parts(tests)]
    assert [len(part) for part in found] == [25, 400, 400, 175]
    assert [test for part in found for test in part] == tests
    assert [list(part) for part in parts(tests[:3])] == [tests[:3]]
