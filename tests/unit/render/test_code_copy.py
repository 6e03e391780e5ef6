"""The copying scripts, run by a real shell on folders as the kubelet and a file system make them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpujob.render.pod.code import COPY_CONFIG_MAP, COPY_FOLDER


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    (tmp_path / "code").mkdir()
    return tmp_path / "source"


def copied(script: str, source: Path) -> dict[str, str]:
    """Relative paths of the copy with their content, links with their target."""
    root = source.parent
    subprocess.run(["/bin/sh", "-c", script.replace("/gpujob/", f"{root}/")], check=True, cwd="/")
    code = root / "code"
    return {
        str(path.relative_to(code)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in sorted(code.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def test_a_config_map_arrives_as_plain_files_once_each(source: Path) -> None:
    version = source / "..2026_11_28_02_00_00.123"
    version.mkdir()
    (version / "train.py").write_text("train")
    (version / ".env").write_text("hidden")
    (source / "..data").symlink_to(version.name)
    for name in ("train.py", ".env"):
        (source / name).symlink_to(f"..data/{name}")
    assert copied(COPY_CONFIG_MAP, source) == {".env": "hidden", "train.py": "train"}


def test_an_empty_config_map_is_no_error(source: Path) -> None:
    (source / "..1").mkdir()
    (source / "..data").symlink_to("..1")
    assert copied(COPY_CONFIG_MAP, source) == {}


def test_a_claim_arrives_with_folders_links_and_hidden_files_but_without_lost_and_found(source: Path) -> None:
    (source / "package").mkdir()
    (source / "package" / "model.py").write_text("model")
    (source / "-odd name.py").write_text("odd")
    (source / ".git").mkdir()
    (source / ".git" / "HEAD").write_text("main")
    (source / "latest").symlink_to("nowhere")
    (source / "lost+found").mkdir()
    (source / "lost+found" / "#1").write_text("for root only")
    (source / "run.sh").write_text("run")
    (source / "run.sh").chmod(0o755)
    assert copied(COPY_FOLDER, source) == {
        ".git/HEAD": "main",
        "-odd name.py": "odd",
        "latest": "-> nowhere",
        "package/model.py": "model",
        "run.sh": "run",
    }
    assert (source.parent / "code" / "run.sh").stat().st_mode & 0o100


def test_an_empty_claim_is_no_error(source: Path) -> None:
    assert copied(COPY_FOLDER, source) == {}


def test_what_cannot_be_copied_fails_the_container(source: Path) -> None:
    (source / "train.py").write_text("train")
    (source.parent / "code").rmdir()
    (source.parent / "code").write_text("no folder")
    with pytest.raises(subprocess.CalledProcessError):
        copied(COPY_FOLDER, source)
