"""Claims in the file of a job count as if they were applied, in a live cluster's answers and in a description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_room import CATALOG, MIXED, Command, manifest

FOREIGN = {"apiVersion": "v1", "kind": "PersistentVolumeClaimList", "items": []}
"""All claims of a cluster, as its API server lists them: there is none."""
FAST = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "x"}


def claim(mode: str, name: str = "data", **metadata: str) -> str:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, **metadata}, "spec": spec},
        explicit_start=True,
    )


def job(*claims: str, **spec: Any) -> str:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return manifest(volumes=volumes, **spec)


@pytest.fixture
def asked(gpujob: Command, tmp_path: Path) -> Any:
    def ask(text: str, *objects: dict[str, Any] | str, verb: str = "plan") -> str:
        path = tmp_path / "cluster.yaml"
        more = [each if isinstance(each, str) else yaml.safe_dump(each, explicit_start=True) for each in objects]
        path.write_text("\n".join([MIXED.read_text(), *more]))
        answer = gpujob(verb, "-f", "-", "--cluster", path, "--catalog", CATALOG, stdin=text)
        return answer.out.splitlines()[0]

    return ask


@pytest.mark.parametrize("verb", ["plan", "explain"])
@pytest.mark.parametrize("known", [(), (FOREIGN,)])
def test_a_claim_of_the_file_is_there(asked: Any, known: tuple[dict[str, Any], ...], verb: str) -> None:
    text = claim("ReadWriteMany") + job("data", nodes=2, gpusPerNode=1)
    assert asked(text, *known, verb=verb).startswith("Placed  train: ")


@pytest.mark.parametrize("known", [(), (FOREIGN,)])
def test_a_claim_of_the_file_is_of_one_node(asked: Any, known: tuple[dict[str, Any], ...]) -> None:
    text = claim("ReadWriteOnce") + job("data", nodes=2, gpusPerNode=1)
    assert "PersistentVolumeClaim data can be mounted on one node at a time; use ReadWriteMany or one node" in asked(
        text, *known
    )


def test_a_claim_that_exists_stays_as_it_is(asked: Any) -> None:
    text = claim("ReadWriteMany") + job("data", nodes=2, gpusPerNode=1)
    held = yaml.safe_load(claim("ReadWriteOnce", namespace="default"))
    held["spec"]["volumeName"], held["status"] = "pv-1", {"phase": "Bound"}
    assert "can be mounted on one node at a time" in asked(text, held)


def test_a_claim_of_the_file_needs_a_storage_class_where_none_is_the_default(asked: Any) -> None:
    text = claim("ReadWriteMany") + job("data", gpusPerNode=1)
    assert "PersistentVolumeClaim data is not bound and names no StorageClass" in asked(text, FAST)
    by_default = {
        **FAST,
        "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    }
    assert asked(text, by_default).startswith("Placed")


def test_a_claim_of_the_file_says_nothing_of_others(asked: Any) -> None:
    text = claim("ReadWriteMany") + job("data", "other", gpusPerNode=1)
    assert asked(text).startswith("Placed")
    assert "there is no PersistentVolumeClaim other in the job's namespace" in asked(text, FOREIGN)
    elsewhere = claim("ReadWriteMany", namespace="elsewhere") + job("data", gpusPerNode=1)
    assert "there is no PersistentVolumeClaim data in the job's namespace" in asked(elsewhere, FOREIGN)
