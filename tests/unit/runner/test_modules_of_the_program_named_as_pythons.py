"""Files beside a program that are named as modules of Python's library: the reporter never runs one, the program still does."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from tests.unit.runner.running import PROGRAMS, run
from tests.unit.runner.test_programs_without_torch import stand_in

__all__ = ["stand_in"]

SCRAPE = f"import sys; sys.path.append({str(PROGRAMS)!r}); from scraping import page\n"
WITH_TORCH = """
    import torch
    optimizer = torch.optim.Optimizer()
    for batch in torch.utils.data.dataloader._BaseDataLoaderIter([[1, 2]]):
        optimizer.step()
"""
WITH_THE_LINE = "import gpujob_report\ngpujob_report.step()\n"
ALIVE = """
    print("went on", *sorted(name for name in sys.modules if name.startswith("gpujob_runner.report.")))
"""
NAMES = sorted(
    name
    for name in sys.stdlib_module_names
    # What Python itself has by the time that a program begins; it takes no file of the program's for these.
    if name not in ("sys", "builtins", "antigravity", "this", "__future__", "_abc", "site") and "." not in name
)


@pytest.mark.parametrize("program", [WITH_TORCH, WITH_THE_LINE], ids=["torch", "the line"])
@pytest.mark.parametrize("where", ["beside the script", "on PYTHONPATH"])
def test_a_file_of_any_such_name_is_never_run_by_the_reporter(
    tmp_path: Path, stand_in: Path, program: str, where: str
) -> None:
    shadows = tmp_path / ("app" if where == "beside the script" else "shadows")
    for folder in (tmp_path / "app", shadows):
        folder.mkdir(exist_ok=True)
    script = tmp_path / "app" / "train.py"
    script.write_text("import sys\n" + textwrap.dedent(program) + textwrap.dedent(ALIVE))
    # What Python needs to start is no business of the reporter.
    plain = run(["-X", "utf8", str(script)], tmp_path, behind=[stand_in])
    assert plain.stdout.startswith("went on"), plain.stderr
    before = run(
        ["-c", "import sys; print(*sys.modules)"], tmp_path, GPUJOB_REPORT_PORT="", PYTHONPATH=""
    ).stdout.split()
    for name in NAMES:
        if name not in before:
            (shadows / f"{name}.py").write_text(f"import os; os.write(2, b'ran {name}'); raise SystemExit(7)\n")
    behind = [stand_in] if shadows.name == "app" else [shadows, stand_in]
    done = run([str(script)], tmp_path, behind=behind)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", plain.stdout)


def test_the_program_imports_its_own_file_though_the_reporter_imported_pythons(tmp_path: Path) -> None:
    (tmp_path / "signal.py").write_text("BUY = 1\n")
    (tmp_path / "train.py").write_text(
        WITH_THE_LINE + "import signal, socket\nprint(signal.BUY, socket.AF_INET.value)\n"
    )
    done = run(["train.py"], tmp_path)
    assert (done.stdout, done.stderr) == ("1 2\n", "")


def test_a_module_of_the_program_that_took_the_name_first_costs_the_report_alone(tmp_path: Path) -> None:
    (tmp_path / "fcntl.py").write_text("MINE = 1\n")
    (tmp_path / "train.py").write_text("import fcntl\n" + WITH_THE_LINE + "print(fcntl.MINE)\n")
    done = run(["train.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n")


def test_another_thread_imports_the_programs_modules_meanwhile(tmp_path: Path) -> None:
    """The path of the program is its own all the time: the reporter's imports do not change it for the program."""
    for number in range(200):
        (tmp_path / f"part{number}.py").write_text(f"NUMBER = {number}\n")
    program = """
        import importlib, sys, threading
        found = []
        def load():
            for number in range(200):
                found.append(importlib.import_module(f"part{number}").NUMBER)
        loading = threading.Thread(target=load)
        loading.start()
        import gpujob_report
        gpujob_report.step()
        loading.join()
        print(found == list(range(200)))
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(program))
    done = run(["train.py"], tmp_path)
    assert (done.stdout, done.stderr) == ("True\n", "")
