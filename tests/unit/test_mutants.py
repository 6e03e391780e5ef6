"""`make mutants` puts every kind of fault where it belongs, and no other text changes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import Mutant, Verdict, mutants, sample, table
from tests.mutants.changes import Change, changes


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
