"""The archive for krew: krew installs it, kubectl runs it without the project's Python, and it decides as the checkout does."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpujob import __version__
from release import plugin
from release.plugin import PROGRAM, Archive, manifest, packed, read_archive
from tests.contract.test_chart_rendering import client_program
from tests.e2e.cluster.binaries import RELEASE_MODULE, RELEASE_TOOLS, build, cache
from tests.e2e.cluster.locks import locked
from tests.e2e.cluster.state import REPOSITORY

JOB = REPOSITORY / "examples" / "01-hello-gpu.yaml"
CLUSTER = REPOSITORY / "examples" / "clusters" / "mixed.yaml"


def sources() -> str:
    """A hash of what the archive is made of."""
    found = hashlib.sha256()
    files = [
        path for path in (REPOSITORY / "operator").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    made_by = [REPOSITORY / "release" / name for name in ("plugin.py", "plugin_entry.py")]
    locked_by = [REPOSITORY / "requirements" / name for name in ("cli.txt", "release.txt")]
    for path in sorted([*files, *made_by, *locked_by, REPOSITORY / "LICENSE"]):
        found.update(f"{path.relative_to(REPOSITORY)} {sys.version}".encode() + path.read_bytes())
    return found.hexdigest()[:12]


def made(command: list[str]) -> None:
    paths = f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'operator'}"
    done = subprocess.run(
        command, cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def archive() -> Path:
    """What `make plugin` packs; of equal sources once, for it takes a minute."""
    folder = cache() / f"plugin-{sources()}"
    with locked(cache() / "plugin.lock"):
        if not folder.exists():
            # As `make plugin` does, but not into the checkout's dist/.
            made(["make", "--no-print-directory", ".release/venv/ready"])
            unfinished = folder.with_suffix(".unfinished")
            unfinished.mkdir(exist_ok=True)
            made([str(REPOSITORY / ".release" / "venv" / "bin" / "python"), "-m", "release", "plugin", str(unfinished)])
            unfinished.rename(folder)
    (found,) = folder.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def written(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest as `make krew` writes it."""
    path = tmp_path_factory.mktemp("krew") / "gpujob.yaml"
    command = [
        sys.executable,
        "-m",
        "release",
        "krew",
        str(path),
        "--address",
        "https://releases.example.com/v1",
        str(archive),
    ]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    return path


@pytest.fixture(scope="module")
def home(archive: Path, written: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder where krew has installed the plugin."""
    home = tmp_path_factory.mktemp("home")
    environment = {"HOME": str(home), "KREW_ROOT": str(home / ".krew"), "PATH": "/usr/bin:/bin"}
    command = [
        build(RELEASE_TOOLS, RELEASE_MODULE) / "krew",
        "install",
        f"--manifest={written}",
        f"--archive={archive}",
    ]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    assert "Installed plugin: gpujob" in done.stderr
    return home


WIDTH = "100"
"""Columns of the terminal, by which help breaks its lines."""


def kubectl(home: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """kubectl with the plugin on its PATH and nothing of this checkout."""
    environment = {"HOME": str(home), "PATH": f"{home}/.krew/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "COLUMNS": WIDTH}
    return subprocess.run(
        [client_program("kubectl"), *map(str, words)],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def here(*words: str | Path) -> str:
    program = Path(sys.executable).parent / "kubectl-gpujob"
    return subprocess.run(
        [program, *map(str, words)],
        env=os.environ | {"COLUMNS": WIDTH},
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    ).stdout


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("plan", "-f", JOB, "--cluster", CLUSTER),
        ("plan", "-f", JOB, "--cluster", CLUSTER, "-o", "json"),
        ("render", "-f", JOB, "--cluster", CLUSTER),
        ("pools", "--cluster", CLUSTER),
        ("catalog", "-o", "json"),
        ("capture", "--cluster", CLUSTER),
        ("catalog", "pin", "--help"),
        ("doctor", "--help"),
    ],
    ids=lambda words: " ".join(str(getattr(word, "name", word)) for word in words),
)
def test_the_installed_plugin_answers_as_the_checkout(home: Path, words: tuple[str | Path, ...]) -> None:
    done = kubectl(home, "gpujob", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout == here(*words)


def test_it_asks_the_cluster_of_a_kubeconfig(home: Path) -> None:
    done = kubectl(home, "gpujob", "pools", "--kubeconfig", "none.yaml")
    assert done.returncode == 2
    assert "none.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_kubectl_lists_it(home: Path) -> None:
    assert str(home / ".krew" / "bin" / "kubectl-gpujob") in kubectl(home, "plugin", "list").stdout


def test_krew_uninstalls_it_whole(home: Path, archive: Path, written: Path) -> None:
    with tarfile.open(archive) as packed_files:
        names = {each.name for each in packed_files.getmembers()}
    assert {"kubectl-gpujob", "LICENSE"} <= names
    assert {name.split("/")[1] for name in names if name.startswith("LICENSES/")} >= {
        "pydantic",
        "rich",
        "kubernetes",
        "pyyaml",
    }
    store = home / ".krew" / "store" / "gpujob" / f"v{__version__}"
    assert (store / "LICENSE").read_bytes() == (REPOSITORY / "LICENSE").read_bytes()
    assert (home / ".krew" / "bin" / "kubectl-gpujob").resolve() == store / "kubectl-gpujob"


def validated(path: Path) -> str:
    """What krew's index says of a manifest; empty where it is taken."""
    command = [build(RELEASE_TOOLS, RELEASE_MODULE) / "validate-krew-manifest", "-manifest", path, "-skip-install"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return "" if done.returncode == 0 else done.stderr


def test_krews_index_takes_the_manifest(written: Path, archive: Path) -> None:
    assert validated(written) == ""
    (platform,) = yaml.safe_load(written.read_text())["spec"]["platforms"]
    assert platform["uri"] == f"https://releases.example.com/v1/{archive.name}"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("member", "value"),
    [("version", "0.1.0"), ("shortDescription", ""), ("platforms", []), ("version", None)],
)
def test_krews_index_refuses_what_is_wrong(written: Path, tmp_path: Path, member: str, value: Any) -> None:
    made = yaml.safe_load(written.read_text())
    made["spec"][member] = value
    (tmp_path / "gpujob.yaml").write_text(yaml.safe_dump(made))
    assert validated(tmp_path / "gpujob.yaml") != ""


def test_a_manifest_has_one_platform_for_each_archive(tmp_path: Path) -> None:
    names = [f"kubectl-gpujob-v{__version__}-{each}.tar.gz" for each in ("linux-arm64", "darwin-arm64", "linux-amd64")]
    for name in names:
        (tmp_path / name).write_text(name)
    found = [read_archive(tmp_path / name) for name in names]
    assert found[0] == Archive(names[0], "linux", "arm64", hashlib.sha256(names[0].encode()).hexdigest())
    made = manifest("9.9.9", "https://x", found)
    (tmp_path / "gpujob.yaml").write_text(json.dumps(made))
    assert validated(tmp_path / "gpujob.yaml") == ""
    assert [each["selector"]["matchLabels"]["os"] for each in made["spec"]["platforms"]] == ["darwin", "linux", "linux"]


def test_the_bytes_of_an_archive_depend_on_its_files_alone(tmp_path: Path) -> None:
    archives = []
    for folder, moment in (("a", 1), ("b", 10**9)):
        tree = tmp_path / folder
        (tree / "lib").mkdir(parents=True)
        (tree / "lib" / "data").write_text("data")
        (tree / "program").write_text("#!/bin/sh\n")
        (tree / "program").chmod(0o755 if folder == "a" else 0o700)
        (tree / "link").symlink_to("lib/data")
        os.link(tree / "lib" / "data", tree / "twin")
        for path in tree.rglob("*"):
            os.utime(path, (moment, moment), follow_symlinks=False)
        archives.append(packed(tree))
    assert archives[0] == archives[1]
    (tmp_path / "a.tar.gz").write_bytes(archives[0])
    with tarfile.open(tmp_path / "a.tar.gz") as opened:
        found = {each.name: (each.type, each.mode) for each in opened.getmembers()}
    assert found == {
        "lib/data": (tarfile.REGTYPE, 0o644), "link": (tarfile.SYMTYPE, 0o755),
        "program": (tarfile.REGTYPE, 0o755), "twin": (tarfile.REGTYPE, 0o644),
    }  # fmt: skip


@dataclass(frozen=True)
class Runner:
    """A runner of the release workflow: what uv calls its platform, PyInstaller's folder for it, and a form of its programs."""

    platform: str
    bootloader: str
    is_code: Callable[[bytes], bool]


def elf(machine: int) -> Callable[[bytes], bool]:
    """Whether the first bytes of a file are those of 64-bit ELF of a machine (https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html)."""
    return lambda head: head[:5] == b"\x7fELF\x02" and int.from_bytes(head[18:20], "little") == machine


ARM64 = 0x0100000C


def of_apple_silicon(head: bytes) -> bool:
    """Whether a Mach-O file is of arm64, alone or among others (mach-o/loader.h and fat.h)."""
    if head[:4] == b"\xcf\xfa\xed\xfe":
        return int.from_bytes(head[4:8], "little") == ARM64
    count = int.from_bytes(head[4:8], "big")
    return head[:4] == b"\xca\xfe\xba\xbe" and any(
        int.from_bytes(head[start : start + 4], "big") == ARM64 for start in range(8, 8 + 20 * count, 20)
    )


RUNNERS = {
    "ubuntu-24.04": Runner("x86_64-unknown-linux-gnu", "Linux-64bit-intel", elf(62)),
    "ubuntu-24.04-arm": Runner("aarch64-unknown-linux-gnu", "Linux-64bit-arm", elf(183)),
    "macos-15": Runner("aarch64-apple-darwin", "Darwin-64bit", of_apple_silicon),
}
"""Those machines are not here, but for the first."""


def test_the_workflow_packs_on_these_runners() -> None:
    workflow = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "release.yml").read_text())
    assert workflow["jobs"]["plugin"]["strategy"]["matrix"]["os"] == list(RUNNERS)


@pytest.mark.parametrize("python", ["3.12", "3.14"])
@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS)
def test_every_locked_dependency_of_the_archive_has_a_wheel_for_its_platform(
    runner: Runner, python: str, tmp_path: Path
) -> None:
    """A dependency that must be compiled would fail the release, or take another code into it."""
    uv = shutil.which("uv") or REPOSITORY / ".uv" / "bin" / "uv"
    locked_by = [f"--requirements={REPOSITORY / 'requirements' / name}" for name in ("cli.txt", "release.txt")]
    done = subprocess.run(
        [uv, "pip", "install", "--quiet", f"--target={tmp_path}", f"--python-platform={runner.platform}",
         f"--python-version={python}", "--only-binary=:all:", "--require-hashes", *locked_by],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    loader = tmp_path / "PyInstaller" / "bootloader" / runner.bootloader / "run"
    compiled = [path for path in tmp_path.rglob("*") if path.suffix in (".so", ".dylib")]
    assert {path.relative_to(tmp_path).parts[0] for path in compiled} >= {"orjson", "pydantic_core"}
    for path in (loader, *compiled):
        with path.open("rb") as code:
            assert runner.is_code(code.read(512)), path.name


def test_the_plugin_is_packed_without_the_tools_of_the_tests(tmp_path: Path) -> None:
    """Tools that have no wheel for a runner's platform would fail its release for nothing."""
    for name in ("Makefile", "requirements", "pyproject.toml"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    done = subprocess.run(["make", "--dry-run", "plugin"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "requirements/cli.txt requirements/release.txt" in done.stdout
    assert "requirements/dev.txt" not in done.stdout


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [("Linux", "x86_64", "linux-amd64"), ("Linux", "aarch64", "linux-arm64"), ("Darwin", "arm64", "darwin-arm64")],
)
def test_an_archive_is_named_after_the_machine_that_packs_it(
    system: str, machine: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pretend(command: list[str], *, check: bool) -> None:
        """What PyInstaller leaves: a folder with the program, and one of its work."""
        (tmp_path / PROGRAM).mkdir()
        (tmp_path / PROGRAM / PROGRAM).touch(mode=0o755)
        (tmp_path / "build").mkdir()

    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(subprocess, "run", pretend)
    path = plugin.build(tmp_path, "1.2.3")
    assert path.name == f"kubectl-gpujob-v1.2.3-{name}.tar.gz"
    found = read_archive(path)
    assert f"{found.system}-{found.cpu}" == name
    with tarfile.open(path) as archive:
        names = archive.getnames()
        assert archive.getmember(PROGRAM).mode == 0o755
    assert {"LICENSE", "LICENSES/python/LICENSE.txt"} <= set(names)
    assert any(each.startswith("LICENSES/orjson/") for each in names)


def test_a_python_without_a_licence_packs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin.shutil, "__file__", str(tmp_path / "shutil.py"))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="this Python has no licence to pack at "):
        plugin._copy_licences(tmp_path / "LICENSES")
