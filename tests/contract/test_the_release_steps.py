"""The scripts of the release workflow, as its steps call them: Helm and the registry are real, what signs and publishes is recorded."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gpujob import __version__
from tests.contract.image_registry import PASSWORD, USER, Registry
from tests.contract.test_chart_rendering import client_program
from tests.e2e.cluster.state import REPOSITORY

DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGE = f"registry.example.com/team/gpujob-operator@{DIGEST}"
RECORD = """#!/bin/sh
printf '%s' "$(basename "$0")" >> "$RECORD"; printf ' %s' "$@" >> "$RECORD"; echo >> "$RECORD"
"""
DOCKER = (
    RECORD
    + """
case $1 in
  create) echo container-1 ;;
  cp) echo '{"bomFormat": "CycloneDX"}' > "$3" ;;
esac
"""
)


@dataclass
class Steps:
    """A checkout whose dist/ is its own, and programs that record how they are called."""

    checkout: Path
    folder: Path

    def run(self, script: str, *words: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "HOME": str(self.folder),
            "RECORD": str(self.folder / "record"), **more,
        }  # fmt: skip
        command = [f"release/steps/{script}", *words]
        return subprocess.run(
            command,
            cwd=self.checkout,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    @property
    def recorded(self) -> list[str]:
        path = self.folder / "record"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def dist(self) -> Path:
        return self.checkout / "dist"


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    checkout, folder = tmp_path / "checkout", tmp_path / "home"
    checkout.mkdir()
    (folder / "bin").mkdir(parents=True)
    for path in REPOSITORY.iterdir():
        if path.name not in ("dist", ".git"):
            (checkout / path.name).symlink_to(path)
    for name, text in (("docker", DOCKER), ("cosign", RECORD), ("gh", RECORD)):
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    (folder / "bin" / "helm").symlink_to(client_program("helm"))
    return Steps(checkout, folder)


def test_a_tag_of_another_version_ends_the_release(steps: Steps) -> None:
    done = steps.run("version.sh", f"v{__version__}")
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n")
    for tag in (f"v{__version__}9", f"v{__version__}-rc.1", "v", "main"):
        assert steps.run("version.sh", tag).returncode != 0


def test_the_image_is_signed_and_has_two_attestations(steps: Steps) -> None:
    done = steps.run("image.sh", IMAGE)
    assert done.returncode == 0, done.stderr
    assert steps.recorded == [
        f"docker create {IMAGE}",
        "docker cp container-1:/usr/share/sbom/gpujob-operator.cdx.json dist/gpujob-operator.cdx.json",
        "docker rm container-1",
        f"cosign sign --yes {IMAGE}",
        f"cosign attest --yes --type cyclonedx --predicate dist/gpujob-operator.cdx.json {IMAGE}",
        f"cosign attest --yes --type openvex --predicate dist/gpujob-operator.openvex.json {IMAGE}",
    ]
    assert json.loads((steps.dist / "gpujob-operator.openvex.json").read_text())["statements"]
    assert json.loads((steps.dist / "gpujob-operator.cdx.json").read_text())["bomFormat"] == "CycloneDX"


def test_the_chart_is_pushed_and_signed_by_the_digest_that_the_registry_has(steps: Steps, registry: Registry) -> None:
    trusted = {"SSL_CERT_FILE": str(registry.certificate)}
    charts = f"{registry.name}/team/charts"
    done = steps.run("chart.sh", IMAGE, __version__, charts, stdin=PASSWORD, REGISTRY_USER=USER, **trusted)
    assert done.returncode == 0, done.stdout + done.stderr
    # What a user gets: the same file, with the image of the release.
    shown = subprocess.run(
        [client_program("helm"), "show", "all", f"oci://{charts}/gpujob-operator", f"--version={__version__}"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(steps.folder), **trusted}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert f"digest: {DIGEST}" in shown.stdout
    (annotations,) = [
        each["annotations"] for each in yaml.safe_load_all(shown.stdout.split("\n# Defaults of the chart.")[0]) if each
    ]
    assert yaml.safe_load(annotations["artifacthub.io/images"])[0]["image"] == IMAGE
    (signed,) = steps.recorded
    digest = signed.rpartition("@")[2]
    assert signed == f"cosign sign --yes {charts}/gpujob-operator@{digest}"
    assert registry.has("team/charts/gpujob-operator", digest)
    assert not (steps.dist / "pushed").exists()


def test_a_chart_that_is_refused_is_not_signed(steps: Steps, registry: Registry) -> None:
    trusted = {"SSL_CERT_FILE": str(registry.certificate)}
    done = steps.run(
        "chart.sh", IMAGE, __version__, f"{registry.name}/team/charts", stdin="wrong", REGISTRY_USER=USER, **trusted
    )
    assert done.returncode != 0
    assert steps.recorded == []


def test_the_page_has_every_file_and_their_signed_hashes(steps: Steps) -> None:
    steps.dist.mkdir()
    # What other jobs made and this one downloaded.
    brought = ["gpujob-operator.cdx.json", "gpujob-operator.openvex.json", f"gpujob-operator-{__version__}.tgz"]
    archives = [
        f"kubectl-gpujob-v{__version__}-{each}.tar.gz" for each in ("darwin-arm64", "linux-amd64", "linux-arm64")
    ]
    for name in [*brought, *archives]:
        (steps.dist / name).write_text(name)
    done = steps.run("page.sh", IMAGE, f"v{__version__}", "https://host.example/v")
    assert done.returncode == 0, done.stdout + done.stderr
    bundle, package = f"gpujob-operator-bundle-{__version__}.tar.gz", f"gpujob_operator-{__version__}"
    files = {*brought, *archives, bundle, "gpujob.yaml", f"{package}-py3-none-any.whl", f"{package}.tar.gz"}
    hashes = dict(line.split()[::-1] for line in (steps.dist / "SHA256SUMS").read_text().splitlines())
    assert hashes == {name: hashlib.sha256((steps.dist / name).read_bytes()).hexdigest() for name in files}
    signed, created = steps.recorded
    assert signed == "cosign sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS"
    words = created.split()
    assert words[:8] == [
        "gh",
        "release",
        "create",
        f"v{__version__}",
        "--verify-tag",
        "--title",
        f"v{__version__}",
        "--notes-file",
    ]
    assert set(words[9:]) == {*files, "SHA256SUMS", "SHA256SUMS.sigstore.json"}
    assert "### Added\n- " in (steps.dist / "notes.md").read_text()
    platforms = yaml.safe_load((steps.dist / "gpujob.yaml").read_text())["spec"]["platforms"]
    assert [each["uri"] for each in platforms] == [f"https://host.example/v/{name}" for name in archives]
    with tarfile.open(steps.dist / bundle) as packed:
        assert {"bundle/admission.yaml", "bundle/metadata/annotations.yaml"} <= set(packed.getnames())


def test_a_failure_on_the_way_publishes_nothing(steps: Steps) -> None:
    """Without the archives of the plugin there is no page."""
    shutil.rmtree(steps.dist, ignore_errors=True)
    assert steps.run("page.sh", IMAGE, f"v{__version__}", "https://host.example/v").returncode != 0
    assert not [line for line in steps.recorded if line.startswith("gh ")]
