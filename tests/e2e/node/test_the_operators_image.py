"""The operator's image: small, without a shell, for any user, and with a bill of materials that names what is in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpujob
from tests.e2e.cluster.state import REPOSITORY
from tests.e2e.node import needs, operator_image

pytestmark = [pytest.mark.e2e, pytest.mark.node]

MEBIBYTES = 96
"""The most that all files of the image may have; images/README.md states the measured size."""


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """The image's files."""
    if why := needs.missing():
        assert os.environ.get("REAL_NODES") != "required", why
        pytest.skip(why)
    operator_image.build()
    with operator_image.mounted() as folder:
        yield folder


def run(root: Path, *command: str, user: int = 65532) -> subprocess.CompletedProcess[str]:
    """A command in the image, as a user, without any file system but its own."""
    enter = ["/usr/sbin/chroot", f"--userspec={user}:{user}", str(root)]
    # Nothing of this machine's environment but what the image itself sets.
    environment = dict(each.split("=", 1) for each in operator_image.configuration()["Env"])
    return subprocess.run([*enter, *command], capture_output=True, text=True, check=False, env=environment)


def test_it_runs_as_a_number_that_is_not_root(root: Path) -> None:
    configuration = operator_image.configuration()
    assert configuration["User"] == "65532:65532"
    assert configuration["Entrypoint"] == ["python", "-m", "gpujob.cluster"]


def test_it_has_a_python_of_its_own_and_no_shell(root: Path) -> None:
    # The programs of this machine are not on its PATH: what is found is in the image.
    shown = run(root, "/usr/bin/python", "-c", "import sys; print(sys.version_info >= (3, 12))")
    assert shown.stdout == "True\n", shown.stderr
    programs = {path.name for folder in ("usr/bin", "usr/sbin", "usr/local/bin") for path in (root / folder).glob("*")}
    assert programs == {"python", "python3", "python3.13"}


def test_no_file_can_be_changed_by_its_user_nor_gives_rights_away(root: Path) -> None:
    files = [path for path in root.rglob("*") if not path.is_symlink() and not path.is_relative_to(root / "tmp")]
    assert [path for path in files if path.stat().st_uid or path.stat().st_gid not in (0, 8, 43, 50)] == []
    assert [path for path in files if path.is_file() and path.stat().st_mode & 0o6022] == []
    assert sum(path.stat().st_size for path in files if path.is_file()) < MEBIBYTES << 20


@pytest.mark.parametrize("user", [65532, 1000700000], ids=["its own user", "a user that a platform assigns"])
def test_it_starts_for_any_user(root: Path, user: int) -> None:
    shown = run(root, "/usr/bin/python", "-m", "gpujob.cluster", "--help", user=user)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("usage: python -m gpujob.cluster\n")


def test_all_modules_are_compiled(root: Path) -> None:
    compiled = "import sys, gpujob.cluster.__main__ as m; print(m.__cached__, m.__spec__.loader.get_code(m.__name__) is not None)"
    assert run(root, "/usr/bin/python", "-c", compiled).stdout.endswith("__main__.cpython-313.pyc True\n")
    packages = root / "usr/local/lib/python3.13/dist-packages"
    sources = {path for path in packages.rglob("*.py") if path.parent.name != "onpath"}
    missing = [path for path in sources if not (path.parent / "__pycache__" / f"{path.stem}.cpython-313.pyc").exists()]
    assert missing == []


def test_the_bill_of_materials_names_the_locked_versions_and_debians_packages(root: Path) -> None:
    bill = json.loads((root / "usr/share/sbom/gpujob-operator.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/gpujob-operator@{gpujob.__version__}"
    named = {each["purl"] for each in bill["components"]}
    locked = re.findall(r"^([a-z0-9-]+)==(\S+)", (REPOSITORY / "requirements/operator.txt").read_text(), re.MULTILINE)
    assert locked
    assert {url for url in named if url.startswith("pkg:pypi/")} == {
        f"pkg:pypi/{name}@{version}" for name, version in locked
    }
    debian = {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}
    assert debian >= {"libc6", "libssl3t64", "libpython3.13-stdlib"}
    assert {url.split("/")[2].split("@")[0] for url in named if url.startswith("pkg:deb/")} == {
        name.replace("+", "%2B") for name in debian
    }
    references = [each["bom-ref"] for each in bill["components"]]
    assert len(references) == len(set(references))
