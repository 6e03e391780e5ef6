"""`make mutants` puts every kind of fault where it belongs, and no other text changes."""

from __future__ import annotations

import ast
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.__main__ import PACKAGE, Mutant, Verdict, changes_of, mutants, place, rooms_of, sample, table
from tests.mutants.changes import Change, changes
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.in_process import codes, statement
from tests.mutants.trial import REPOSITORY


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
    drawn = {place(mutant.path, mutant.change) for mutant in mutants("kubernetes/quantities.py")["fleet"]}
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
        "  operator/gpujob/status/a.py:7: operator: '<' becomes '<=' (it runs in 2 tests)",
    ]


def test_the_rooms_of_each_folder_are_there() -> None:
    for folder in mutants():
        assert all((REPOSITORY / "tests" / room).exists() for room in rooms_of(folder)), folder
    assert rooms_of("status") == ("unit/status",)
    assert rooms_of("fleet") == rooms_of("placement"), "they are tried in one process"


def test_one_module_or_one_line_of_it_can_be_taken() -> None:
    found = mutants("schedule/shares.py")
    assert {mutant.path.name for mutant in found["schedule"]} == {"shares.py"}
    lines = {mutant.change.line for mutant in found["schedule"]}
    assert {mutant.change.line for mutant in mutants(f"schedule/shares.py:{min(lines)}")["schedule"]} == {min(lines)}


SOURCE = """\
LIMIT = 3

def f(a=1,
      b=2):
    if (a or
            b):
        return [
            a
            + b
        ]
    return lambda: a

class C:
    x = 1

    def g(self):
        for each in self:
            each()
"""


TESTS = ("test_it.py::test_add",)
"""What a trial of its own runs of the tests below."""


@pytest.mark.parametrize(
    ("line", "lines"),
    [(1, None), (3, None), (4, None), (5, [5, 6]), (6, [5, 6]), (8, [7, 8, 9, 10]), (11, [11]), (13, None), (14, None), (17, [17]),
     (18, [18])],
)  # fmt: skip
def test_a_fault_in_a_function_is_of_the_lines_of_its_statement(line: int, lines: list[int] | None) -> None:
    found = statement(SOURCE, line)
    assert (None if found is None else list(found)) == lines


def test_all_code_of_a_module_is_found() -> None:
    names = [code.co_qualname for code in codes(compile(SOURCE, "m", "exec"))]
    assert names == ["<module>", "f", "f.<locals>.<lambda>", "C", "C.g"]


def test_faults_in_functions_are_noticed_in_forks_of_one_process(tmp_path: Path) -> None:
    """Each of five faults of which a test notices one, with closures that exist already; the last two show when it is imported."""
    module = tmp_path / "calculus.py"
    module.write_text(
        "def adder(a):\n    def add(b):\n        return a + b\n    return add\n\ndef unused(a):\n    return a - 1\n"
        "LIMIT = 4\n\ndef early(a):\n    return not a\n\nearly(LIMIT)\n"
    )
    (tmp_path / "test_it.py").write_text(
        "from calculus import adder\n\nADD = adder(2)\n\ndef test_add():\n    assert ADD(3) == 5\n"
    )
    faults = [(module, change) for change in changes(module.read_bytes())]
    answer = tmp_path / "answer"
    subprocess.run(
        [sys.executable, "-m", "tests.mutants.in_process", str(answer)], check=True, cwd=REPOSITORY,
        input=pickle.dumps(([str(tmp_path)], [str(tmp_path)], faults, 60.0)), stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}"},
    )  # fmt: skip
    trials = pickle.loads(answer.read_bytes())
    # A test's id begins with the folders below the root that pytest chooses, which depends on where the repository is.
    found = [
        (change.line, noticed, tried, tuple(name.rpartition("/")[2] for name in tests))
        for (_, change), (noticed, tried, tests) in zip(faults, trials, strict=True)
    ]
    assert found == [
        (3, True, 1, ()), (7, False, 0, ()), (7, False, 0, ()), (8, False, 0, TESTS), (11, False, 0, TESTS),
    ]  # fmt: skip
