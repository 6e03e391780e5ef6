"""`make search` prints its seed, tries the same for the same seed, ends after its time and fails when a property does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import search

ROOT = Path(search.__file__).parent.parent


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """Ten properties that write down what they are tried with."""
    numbers = "".join(
        f"@given(st.integers())\n@settings(max_examples=3)\ndef test_{name}(n): tell({name!r}, n)\n\n"
        for name in "abcdefghij"
    )
    (tmp_path / "test_numbers.py").write_text(
        "import pathlib\nfrom hypothesis import given, settings\nfrom hypothesis import strategies as st\n"
        f"def tell(*what): print(*what, file=open({str(tmp_path / 'told')!r}, 'a'))\n\n{numbers}"
    )
    return tmp_path


def searched(folder: Path, *arguments: str) -> tuple[int, str, list[str]]:
    """The exit status, what was printed, and what the properties were tried with."""
    (folder / "told").write_text("")
    program = (
        "import sys; from tests import search; search.PROPERTIES = sys.argv[1]; sys.exit(search.main(sys.argv[2:]))"
    )
    own = (f"--rootdir={folder}", "-p", "conftest", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), *arguments, *own],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr, (folder / "told").read_text().splitlines()


def test_a_fresh_seed_is_printed_and_tries_the_same_again(properties: Path) -> None:
    status, text, tried = searched(properties)
    assert status == 0, text
    seed = re.search(r"^seed (\d+): make search SEED=\1 tries the same", text, re.MULTILINE)
    assert seed
    assert "tried 10 of 10 properties" in text
    assert searched(properties, "--seed", seed[1])[2] == tried
    _, other, others = searched(properties)
    assert not other.startswith(f"seed {seed[1]}:")
    assert others != tried


def test_no_property_begins_after_the_time_is_over(properties: Path) -> None:
    status, text, tried = searched(properties, "--seconds", "0")
    assert (status, tried) == (0, [])
    assert "tried 0 of 10 properties" in text


def test_a_property_that_does_not_hold_fails_and_is_named(properties: Path) -> None:
    with (properties / "test_numbers.py").open("a") as file:
        file.write("def test_never(): assert 0\n")
    status, text, _ = searched(properties, "--seed", "3")
    assert status == 1
    assert "FAILED" in text
    assert "test_never" in text
