"""The preflight asks the Python that the command will start: by name, shebang, launcher or a shell's words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpujob_runner.preflight.interpreter import Interpreter, Missing, find_interpreter


def program(path: Path, text: str = "\x7fELF") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of an image: two Pythons on PATH, a virtual environment beside it, launchers of all kinds."""
    for name in ("python3", "python3.12", "bash", "env", "nice", "true"):
        program(tmp_path / "bin" / name)
    venv = tmp_path / "venv" / "bin"
    program(venv / "python")
    program(venv / "python3")
    program(venv / "torchrun", f"#!{venv}/python\nimport sys")
    program(venv / "accelerate", f"#!/bin/sh\n'''exec' \"{venv}/python3\" \"$0\" \"$@\"\n' '''")
    program(venv / "activate", "")
    program(tmp_path / "bin" / "deepspeed", "#!/usr/bin/env python3.12\n")
    program(tmp_path / "app" / "run.sh", f"#!/usr/bin/env bash\nset -e\nexport A=b\nexec {venv}/torchrun train.py\n")
    program(tmp_path / "app" / "loop.sh", "#!/usr/bin/env bash\n./loop.sh\n")
    (tmp_path / "app" / "src").mkdir()
    monkeypatch.chdir(tmp_path / "app")
    return tmp_path


def found(image: Path, *words: str, named: bool = True) -> object:
    return find_interpreter(
        [word.replace("VENV", str(image / "venv")) for word in words], {"PATH": f"{image}/bin"}, named=named
    )


@pytest.mark.parametrize(
    ("words", "python", "folder"),
    [
        (["python3", "train.py"], "bin/python3", "app"),
        (["python3.12", "src/train.py"], "bin/python3.12", "app/src"),
        (["python3", "-u", "-m", "trainer"], "bin/python3", "app"),
        (["env", "A=b", "-u", "HOME", "python3.12", "train.py"], "bin/python3.12", "app"),
        (["nice", "-n", "5", "python3.12", "-c", "pass"], "bin/python3.12", "app"),
        (["VENV/bin/torchrun", "train.py"], "venv/bin/python", "venv/bin"),
        (["VENV/bin/accelerate", "launch", "train.py"], "venv/bin/python3", "app"),
        (["deepspeed", "train.py"], "bin/python3.12", "bin"),
        (["bash", "-c", "cd /tmp && python3.12 train.py"], "bin/python3.12", "app"),
        (["bash", "-eo", "pipefail", "-c", "python3.12 train.py | tee log"], "bin/python3.12", "app"),
        (["bash", "-lc", "source VENV/bin/activate; torchrun train.py"], "venv/bin/python", "venv/bin"),
        (["bash", "run.sh"], "venv/bin/python", "venv/bin"),
        (["./run.sh"], "venv/bin/python", "venv/bin"),
        (["bash", "-c", "if [ -n \"$A\" ]; then python3.12 a.py; fi"], "bin/python3.12", "app"),
        (["bash", "-c", "unbalanced 'quote"], "bin/python3", "app"),
        (["true"], "bin/python3", "app"),
        ([], "bin/python3", "app"),
        (["./loop.sh"], "bin/python3", "app"),
    ],
)  # fmt: skip
def test_each_way_to_start_a_python(image: Path, words: list[str], python: str, folder: str) -> None:
    assert found(image, *words) == Interpreter(str(image / python), str(image / folder))


def test_a_program_that_is_not_there_is_named(image: Path) -> None:
    assert found(image, "python3.99", "train.py") == Missing("python3.99")
    assert found(image, "./train.sh") == Missing("./train.sh")
    # Arguments of an unknown entry point: no word of them need be a program.
    assert found(image, "--epochs", "3", named=False) == Interpreter(str(image / "bin/python3"), os.getcwd())


def test_an_image_without_python_has_none(tmp_path: Path) -> None:
    program(tmp_path / "train")
    assert find_interpreter([str(tmp_path / "train")], {"PATH": str(tmp_path)}, named=True) is None


words = st.sampled_from(
    ["bash", "-c", "env", "python3", "source", "&&", ";", "'", '"', "\\", "$(x)", "-", "--", "./run.sh", "A=b", "activate", "\0", "é"]
)  # fmt: skip


@given(words=st.lists(words | st.text(max_size=8), max_size=8), named=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_words_are_read(image: Path, words: list[str], named: bool) -> None:
    find_interpreter(words, {"PATH": f"{image}/bin"}, named=named)
    find_interpreter(["bash", "-c", " ".join(words)], {"PATH": f"{image}/bin"}, named=named)
