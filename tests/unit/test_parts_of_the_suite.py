"""`make test` fails when one part fails, says what failed at its end, and no folder of tests is left out."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import ClassVar

import pytest

from tests.balance import measured, read, shares
from tests.conftest import pytest_collection_modifyitems
from tests.parts import BACKGROUND_NICE, PARTS, Outcome, Part, When, run, summary

REPOSITORY = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of these tests need no plugin, and the imports of plugins take three quarters of the start of pytest."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def part(name: str, folder: Path, text: str) -> Part:
    """A part of one file of tests."""
    path = folder / f"test_{name}.py"
    path.write_text(text)
    return Part(name, (str(path), f"--rootdir={folder}", "-q"))


def test_a_part_that_fails_is_named_and_the_others_run_to_their_end(tmp_path: Path) -> None:
    good = part("good", tmp_path, "def test_one(): pass\ndef test_two(): pass\n")
    bad = part("bad", tmp_path, "def test_three(): assert 1 == 2\ndef test_four(): pass\n")
    outcomes = run([bad, good])
    assert [outcome.status for outcome in outcomes] == [1, 0]
    lines = summary(outcomes, 61.5)
    assert ["test_bad.py::test_three" in line for line in lines if line.startswith("FAILED ")] == [True]
    assert lines[-1].strip("= ") == "1 failed, 3 passed in 61.50s (0:01:01)"


def test_what_python_compiles_is_kept_for_the_next_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "module_of_the_test.py").write_text("")
    text = "import sys\nimport module_of_the_test\ndef test_it(): assert not sys.dont_write_bytecode\n"
    (outcome,) = run([part("keeps", tmp_path, text)])
    assert outcome.status == 0
    assert list(tmp_path.glob("__pycache__/module_of_the_test*.pyc"))


@pytest.mark.parametrize("when", list(When))
def test_the_others_wait_for_a_part_that_is_ahead(tmp_path: Path, when: When) -> None:
    # The first one waits until the other one has looked; three seconds show that this one does not look while it must wait.
    first = f"""
        import pathlib, time
        def test_it():
            end = time.monotonic() + {3 if when is When.AHEAD else 60}
            while not pathlib.Path({str(tmp_path / "looked")!r}).exists() and time.monotonic() < end:
                time.sleep(0.05)
            pathlib.Path({str(tmp_path / "done")!r}).touch()
    """
    second = f"""
        import pathlib
        def test_it():
            done = pathlib.Path({str(tmp_path / "done")!r}).exists()
            pathlib.Path({str(tmp_path / "looked")!r}).touch()
            assert done
    """
    parts = [replace(part("first", tmp_path, dedent(first)), when=when), part("second", tmp_path, dedent(second))]
    assert [outcome.status for outcome in run(parts, at_once=2)] == [0, 0 if when is When.AHEAD else 1]


def test_no_more_parts_run_at_once_than_there_are_places(tmp_path: Path) -> None:
    text = """
        import pathlib, time
        def test_it():
            mine = pathlib.Path(__file__).with_suffix(".runs")
            mine.touch()
            time.sleep(1)  # In which a third one would begin.
            assert len(list(mine.parent.glob("*.runs"))) <= 2
            mine.unlink()
    """
    parts = [part(name, tmp_path, dedent(text)) for name in ("one", "two", "three", "four", "five")]
    assert [outcome.status for outcome in run(parts, at_once=2)] == [0] * 5


def test_a_part_in_the_background_comes_behind_the_others(tmp_path: Path) -> None:
    text = """
        import os, pathlib
        GROUP = pathlib.Path("/proc/self/autogroup")
        def test_it():
            assert os.nice(0) == {nice}
            assert not GROUP.exists() or GROUP.read_text().split()[-1] == "{group}"
    """
    back = part("back", tmp_path, dedent(text).format(nice=BACKGROUND_NICE, group=BACKGROUND_NICE))
    front = part("front", tmp_path, dedent(text).format(nice=os.nice(0), group=0))
    assert [outcome.status for outcome in run([replace(back, when=When.BACKGROUND), front])] == [0, 0]


def test_a_signal_ends_the_parts_that_run_and_starts_no_other(tmp_path: Path) -> None:
    text = """
        import pathlib, time, pytest
        @pytest.fixture
        def cluster():
            pathlib.Path(__file__).with_suffix(".began").touch()
            yield
            pathlib.Path(__file__).with_suffix(".ended").touch()
        def test_it(cluster): time.sleep(600)
    """
    one, two = (part(name, tmp_path, dedent(text)) for name in ("one", "two"))
    program = (
        f"from tests.parts import Part, run\nprint([each.status for each in run([{one!r}, {two!r}], at_once=1)])\n"
    )
    program = program.replace(repr(one.when), "Part('', ()).when")
    process = subprocess.Popen(
        [sys.executable, "-c", dedent(program)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    while not (tmp_path / "test_one.began").exists():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate()
    assert output.splitlines()[-1] == f"[2, {-signal.SIGINT}]"
    assert sorted(path.name for path in tmp_path.glob("*ed")) == ["test_one.ended"]


def test_a_part_that_dies_fails_with_its_last_words(tmp_path: Path) -> None:
    (dead,) = run([part("dead", tmp_path, "import os\ndef test_it(): os.write(1, b'boom\\n'); os._exit(9)\n")], ["-s"])
    assert dead.status == 9
    assert dead.failures() == ["ERROR dead: pytest ended with exit status 9, its last line is: boom"]


def test_a_part_reports_the_cpu_of_its_processes(tmp_path: Path) -> None:
    program = "import time\nwhile time.process_time() < 2: pass"
    text = f"import subprocess, sys\ndef test_it(): subprocess.run([sys.executable, '-c', {program!r}], check=True)\n"
    (outcome,) = run([part("busy", tmp_path, text)])
    assert outcome.cpu > 2
    assert summary([outcome], 5)[-2].endswith(f" {outcome.cpu:.0f} s of CPU")


def test_a_part_without_tests_fails(tmp_path: Path) -> None:
    (empty,) = run([part("empty", tmp_path, "")])
    assert empty.status == 5
    assert empty.failures()[0].startswith("ERROR empty: pytest ended with exit status 5")


def test_counts_of_all_parts_are_summed() -> None:
    one = Outcome("one", ["=== 1 failed, 2 passed, 3 skipped, 1 error in 1.00s ==="], 1)
    two = Outcome("two", ["=== 5 passed, 2 errors in 4.00s (0:00:04) ===", ""], 1)
    assert summary([one, two], 5)[-1].strip("= ") == "3 errors, 1 failed, 7 passed, 3 skipped in 5.00s (0:00:05)"


def test_every_test_is_in_one_part() -> None:
    found = [file for each in PARTS if each.module == "pytest" and each.name != "contract" for file in files(each)]
    assert len(found) == len(set(found))
    assert set(found) == set((REPOSITORY / "tests").rglob("test_*.py"))


def test_what_core_leaves_out_is_in_contract() -> None:
    core, contract = (next(each for each in PARTS if each.name == name) for name in ("core", "contract"))
    assert marks(core) == "not e2e"
    assert marks(contract) == "e2e"
    marked = {
        file for file in files(core) if re.search(r"^(@pytest|pytestmark.*)[.]mark[.]e2e", file.read_text(), re.M)
    }
    assert marked
    assert marked <= set(files(contract))


def marks(part: Part) -> str:
    """The expression of marks that a part's arguments select."""
    return part.arguments[part.arguments.index("-m") + 1]


def files(part: Part) -> list[Path]:
    """The files of tests that a part's arguments name."""
    ignored = [REPOSITORY / word.partition("=")[2] for word in part.arguments if word.startswith("--ignore=")]
    named = [REPOSITORY / word for word in part.arguments if word.startswith("tests")]
    paths = [path for each in named for path in ([each] if each.is_file() else each.rglob("test_*.py"))]
    return [path for path in paths if not any(path.is_relative_to(each) for each in ignored)]


def test_parts_of_one_kind_take_about_as_long_as_each_other() -> None:
    seconds = measured()
    for kind in ("kwok", "nodes"):
        sums = [sum(seconds.get(file, 0) for file in each.arguments) for each in PARTS if each.name.startswith(kind)]
        assert len(sums) > 1
        assert max(sums) - min(sums) <= max(seconds.values())


def test_the_longest_file_goes_first_and_to_the_list_with_the_fewest_seconds() -> None:
    seconds = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    assert shares("abcde", 2, seconds) == [["e", "b", "a"], ["d", "c"]]
    assert shares(reversed("abcde"), 2, seconds) == shares("abcde", 2, seconds)
    assert shares(["a"], 2, seconds) == [["a"], []]


def test_a_file_that_is_not_measured_counts_as_the_mean_of_the_others() -> None:
    assert shares(["new", "long", "short"], 2, {"long": 9, "short": 1}) == [["long"], ["new", "short"]]
    assert shares(["new", "newer"], 2, {}) == [["new"], ["newer"]]


def test_seconds_are_read_of_the_reports_of_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "e2e"
    folder.mkdir(parents=True)
    (folder / "test_waits.py").write_text("def test_it(): pass\ndef test_other(): pass\n")
    (tmp_path / "test_elsewhere.py").write_text("def test_it(): pass\n")
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", ".", f"--rootdir={tmp_path}", "-q", f"--junitxml={report}"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    interrupted = '<testcase time="0.001" />'
    timed = re.sub(r'(<testcase [^>]* time=")[0-9.]+"', r'\g<1>0.6"', report.read_text())
    report.write_text(timed.replace("<testcase ", f"{interrupted}<testcase ", 1))
    assert read([report]) == {"tests/e2e/test_waits.py": 2}


def test_several_processes_get_whole_files_and_the_longest_first() -> None:
    class Worker:
        workerinput: ClassVar[dict[str, str]] = {}

    seconds = {file: each for file, each in measured().items() if file.startswith("tests/unit/")}
    shorter, longest = sorted(seconds, key=lambda file: seconds[file])[-2:]
    assert seconds[longest] > seconds[shorter]
    items = [SimpleNamespace(nodeid=f"{file}::{name}") for file in ("tests/new.py", shorter, longest) for name in "ab"]
    pytest_collection_modifyitems(Worker(), items)  # type: ignore[arg-type]
    wanted = [f"{file}::{name}" for file in (longest, shorter, "tests/new.py") for name in "ab"]
    assert [item.nodeid for item in items] == wanted


def test_it_runs_as_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    done = subprocess.run(
        [sys.executable, "-m", "tests.parts", "--help"], capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    assert done.returncode == 0
    assert "core     | usage:" in done.stdout
