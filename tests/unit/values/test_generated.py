"""Files that are generated: written where they differ, named where they are only checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpujob.values.generated import generate, settle


def test_what_differs_is_written_and_strays_go(tmp_path: Path) -> None:
    same, stale, new, stray = (tmp_path / name for name in ("same", "stale", "deep/new", "stray"))
    for path in (same, stale, stray):
        path.write_bytes(b"old")
    before = same.stat().st_mtime_ns
    assert settle({same: b"old", stale: b"fresh", new: b"fresh"}, "its source", check=False, strays=[stray]) == 0
    assert (stale.read_bytes(), new.read_bytes(), stray.exists()) == (b"fresh", b"fresh", False)
    assert same.stat().st_mtime_ns == before


def test_a_check_names_what_differs_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale, lacking, stray = (tmp_path / name for name in ("stale", "lacking", "stray"))
    stale.write_bytes(b"old")
    stray.write_bytes(b"old")
    assert settle({stale: b"fresh", lacking: b"fresh"}, "its source", check=True, strays=[stray]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told == [f"{path} differs from its source; run make generate" for path in (stale, lacking, stray)]
    assert (stale.read_bytes(), lacking.exists(), stray.exists()) == (b"old", False, True)
    assert settle({stale: b"old"}, "its source", check=True) == 0


def test_a_generator_writes_or_checks_all_that_it_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")

    def run(*arguments: str) -> int:
        return generate(
            arguments, "its source", lambda path: {path / "name": b"made"}, lambda path, made: path.glob("odd")
        )

    assert run("--check", one, other) == 1
    assert run(one, other) == run("--check", one, other) == 0
    (tmp_path / "other" / "odd").touch()
    assert run("--check", one, other) == 1
    assert run(other) == run("--check", one, other) == 0
    capsys.readouterr()


def test_a_generator_without_a_path_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        generate(["--check"], "its source", lambda path: {path: b"made"})
    assert "PATH" in capsys.readouterr().err
