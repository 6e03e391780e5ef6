"""`catalog pin` against a real registry with TLS, a token login, an index of several CPUs and a missing tag."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpujob.catalog.files.extending import Extending
from gpujob.catalog.files.load import load_catalog
from tests.contract.image_registry import PASSWORD, REFRESH, USER, Registry

PROGRAM = Path(sys.executable).parent / "kubectl-gpujob"
ROW = "pytorch-2.14.1-cuda13.2"
TAG = "2.14.1-cuda13.2-cudnn9-runtime"
UNKNOWN = "sha256:" + "0" * 64


@dataclass
class Pin:
    """Runs `catalog pin` with a catalog of its own, as a user with these logins."""

    registry: Registry
    folder: Path
    logins: dict[str, Any]

    def row(self, image: str, cpus: tuple[str, ...] = ("amd64",), name: str = "ours") -> dict[str, Any]:
        return {
            "name": name, "image": image, "backend": "CUDA", "backendVersion": "13.0", "source": "tests", "checkedOn": "2026-11-29",
            "framework": {"name": "pytorch", "version": "2.14.1"}, "architectures": ["9.0"], "cpuArchitectures": [*cpus],
        }  # fmt: skip

    def __call__(
        self, *words: str, rows: list[dict[str, Any]] | None = None, trusted: bool = True
    ) -> subprocess.CompletedProcess[str]:
        (self.folder / "config.json").write_text(json.dumps(self.logins))
        command = [str(PROGRAM), "catalog", "pin", *words]
        if rows is not None:
            (self.folder / "catalog.yaml").write_text(yaml.safe_dump({"runtimes": rows}))
            command.append(f"--catalog={self.folder / 'catalog.yaml'}")
        if trusted:
            command.append(f"--registry-ca={self.registry.certificate}")
        environment = {**os.environ, "DOCKER_CONFIG": str(self.folder)}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)


@pytest.fixture
def pin(registry: Registry, tmp_path: Path) -> Pin:
    return Pin(registry, tmp_path, {})


def runtimes(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def test_a_row_of_the_catalog_gets_the_digest_of_its_mirrors_index(registry: Registry, pin: Pin) -> None:
    digest = registry.push_index("open/pytorch/pytorch", TAG, "amd64", "arm64")
    done = pin(ROW, f"--image-mirror=docker.io/pytorch={registry.name}/open/pytorch")
    assert (done.returncode, done.stderr) == (0, "")
    (made,) = runtimes(done)
    assert made["spec"] == {"extends": ROW, "image": f"pytorch/pytorch:{TAG}@{digest}"}
    (row,) = Extending(made).runtimes(load_catalog().runtimes)
    assert (row.unreadable, row.name) == ("", ROW)


def test_json_is_a_list_that_kubectl_applies(registry: Registry, pin: Pin) -> None:
    registry.push("open/a", "1")
    done = pin("-o", "json", rows=[pin.row(f"{registry.name}/open/a:1")])
    made = json.loads(done.stdout)
    assert (made["kind"], [each["kind"] for each in made["items"]]) == ("List", ["GPURuntime"])


def test_a_single_image_says_its_cpu_in_its_configuration(registry: Registry, pin: Pin) -> None:
    digest = registry.push("open/single", "1", "arm64")
    image = f"{registry.name}/open/single:1"
    done = pin(rows=[pin.row(image, ("arm64",), "fits"), pin.row(image, ("amd64",), "not")])
    assert done.returncode == 5
    assert [each["spec"]["image"] for each in runtimes(done)] == [f"{image}@{digest}"]
    assert (
        done.stderr == f"without a digest: not: {image} is for arm64, and the row for amd64: copy the image of amd64\n"
    )


def test_an_index_without_a_cpu_of_the_row_limits_the_runtime(registry: Registry, pin: Pin) -> None:
    digest = registry.push_index("open/some", "1", "amd64", "s390x")
    image = f"{registry.name}/open/some:1"
    done = pin(rows=[pin.row(image, ("amd64", "arm64"))])
    assert done.returncode == 0
    assert runtimes(done)[0]["spec"] == {"extends": "ours", "image": f"{image}@{digest}", "cpuArchitectures": ["amd64"]}
    assert done.stderr == f"note: ours: {image} has nothing for arm64, so nodes of it do not get this image\n"


def test_a_missing_tag_and_a_missing_digest_are_said_and_stop_no_other_row(registry: Registry, pin: Pin) -> None:
    digest = registry.push("open/there", "1")
    place = f"{registry.name}/open/there"
    rows = [
        pin.row(f"{place}:{tag}", name=name) for tag, name in (("2", "gone"), ("1", "there"), (f"1@{UNKNOWN}", "older"))
    ]
    done = pin(rows=rows)
    assert done.returncode == 5
    assert [each["spec"]["image"] for each in runtimes(done)] == [f"{place}:1@{digest}"]
    said = f"repository open/there of registry {registry.name} has no"
    assert sorted(done.stderr.splitlines()) == [
        f"without a digest: gone: {said} 2: choose another row, or copy the image to that registry",
        f"without a digest: older: {said} {UNKNOWN}: choose another row, or copy the image to that registry",
    ]


def test_a_digest_that_is_there_already_is_held_against_the_registry(registry: Registry, pin: Pin) -> None:
    image = f"{registry.name}/open/fixed:1@{registry.push('open/fixed', '1')}"
    done = pin(rows=[pin.row(image)])
    assert (done.returncode, runtimes(done)[0]["spec"]["image"]) == (0, image)


LOGINS = {
    "a password": {"auth": base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()},
    "a refresh token": {"identitytoken": REFRESH},
}


@pytest.mark.parametrize("login", LOGINS)
def test_a_login_is_that_of_docker(registry: Registry, pin: Pin, login: str) -> None:
    digest = registry.push("team/private", "1")
    image = f"{registry.name}/team/private:1"
    pin.logins = {"auths": {registry.name: LOGINS[login]}}
    done = pin(rows=[pin.row(image)])
    assert (done.returncode, done.stderr) == (0, "")
    assert runtimes(done)[0]["spec"]["image"] == f"{image}@{digest}"


def test_without_a_login_or_with_a_wrong_one_the_remedy_is_to_log_in(registry: Registry, pin: Pin) -> None:
    registry.push("team/closed", "1")
    rows = [pin.row(f"{registry.name}/team/closed:1")]
    there = f"without a digest: ours: repository team/closed of registry {registry.name}"
    log_in = f"log in with `docker login {registry.name}`\n"
    done = pin(rows=rows)
    assert (done.returncode, done.stderr) == (
        5,
        f"{there}: a login is needed, or there is no such repository; {log_in}",
    )
    pin.logins = {"auths": {registry.name: {"auth": base64.b64encode(b"puller:wrong").decode()}}}
    done = pin(rows=rows)
    assert (done.returncode, done.stderr) == (5, f"{there}: the login is refused; {log_in}")


def test_a_certificate_that_is_not_trusted_and_a_registry_that_is_not_there(registry: Registry, pin: Pin) -> None:
    done = pin(rows=[pin.row(f"{registry.name}/open/a:1")], trusted=False)
    assert done.returncode == 5
    assert done.stderr == (
        f"without a digest: ours: the certificate of registry {registry.name} is not trusted: "
        "name its authority with --registry-ca FILE\n"
    )
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        name = f"localhost:{closed.getsockname()[1]}"
        done = pin(rows=[pin.row(f"{name}/a:1")])
    assert done.returncode == 5
    assert done.stderr.startswith(f"without a digest: ours: no answer from registry {name} (")
    assert done.stderr.endswith("): name the registry that your network has with --image-mirror\n")


def test_certificates_that_cannot_be_read_are_bad_input(pin: Pin, tmp_path: Path) -> None:
    (tmp_path / "not.pem").write_text("no certificate")
    done = pin(f"--registry-ca={tmp_path / 'not.pem'}", trusted=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --registry-ca {tmp_path / 'not.pem'}: no certificates in PEM can be read: ")
