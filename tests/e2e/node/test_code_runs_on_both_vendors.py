"""The same code, with no word of a vendor in it, runs on AMD's and on NVIDIA's nodes from wherever it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api_server import CLAIMS, VOLUMES, ApiServer
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.node import store
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]

TRAIN = """
import os, pathlib
from lines import join
pathlib.Path("result.txt").write_text("written")
print(join(os.getcwd(), os.environ["GPUJOB_BACKEND"], pathlib.Path("result.txt").read_text(), str(os.getuid())))
"""
LINES = """
def join(*words):
    return " ".join(words)
"""
VENDORS = {"AMD": "ROCm", "NVIDIA": "CUDA"}


def run_on_both(team: Trainers, code: dict[str, object]) -> dict[str, str]:
    """What train.py printed, by vendor; both jobs run at once."""
    uids = {
        vendor: team.run(vendor.lower(), "python3", "train.py", code=code, placement={"vendors": [vendor]})
        for vendor in VENDORS
    }
    printed = {}
    for vendor, uid in uids.items():
        state, (printed[vendor],) = team.result(vendor.lower(), uid)
        assert state == "Succeeded", printed
    return printed


EXPECTED = {vendor: f"/gpujob/code {backend} written 1000\n" for vendor, backend in VENDORS.items()}


def test_code_of_a_config_map_runs_under_both_backends(operator: OperatorProcess, team: Trainers) -> None:
    team.give_code("code", train=TRAIN, lines=LINES)
    assert run_on_both(team, {"configMap": {"name": "code"}}) == EXPECTED


def test_code_of_an_image_runs_under_both_backends(operator: OperatorProcess, team: Trainers) -> None:
    assert run_on_both(team, {"image": {"reference": store.CODE, "pullPolicy": "Never"}}) == EXPECTED


def test_an_image_is_mounted_beside_the_code(operator: OperatorProcess, team: Trainers) -> None:
    volumes: dict[str, Any] = {
        "volumes": [{"name": "more", "image": {"reference": store.CODE, "pullPolicy": "Never"}}],
        "volumeMounts": [{"name": "more", "mountPath": "/more", "readOnly": True}],
    }
    uid = team.run("mounted", "python3", "-c", "print(open('/more/package/lines.py').read(), end='')", **volumes)
    assert team.result("mounted", uid) == ("Succeeded", ["def join(*words):\n    return ' '.join(words)\n"])


@pytest.fixture
def claim(cluster: Cluster, api: ApiServer, team: Trainers) -> Iterator[Callable[[dict[str, str]], str]]:
    """Makes a claim on a volume with files, which every node has, for they share this machine's disk."""
    folder = cluster.dir / f"volume-of-{team.namespace}"
    name = folder.name

    def make(files: dict[str, str]) -> str:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        readable(folder)
        common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        size = {"storage": "1Mi"}
        volume = {**common, "capacity": size, "hostPath": {"path": str(folder)}}
        api.create(
            VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume}
        )
        spec = {**common, "volumeName": name, "resources": {"requests": size}}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "code"}, "spec": spec}
        api.create(CLAIMS.format(team.namespace), body)
        path = CLAIMS.format(team.namespace)
        eventually(lambda: api.get(path, "code")["status"].get("phase") == "Bound", 30, what="a claim that is bound")
        return "code"

    yield make
    team.clear()
    api.delete(CLAIMS.format(team.namespace), "code")
    api.delete(VOLUMES, name)


def readable(folder: Path) -> None:
    """Everybody may read the files, as on a shared volume; the job is not their owner."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_code_of_a_folder_in_a_volume_runs_under_both_backends(
    operator: OperatorProcess, team: Trainers, claim: Callable[[dict[str, str]], str]
) -> None:
    name = claim({"project/train.py": TRAIN, "project/lines.py": LINES, "other/train.py": "raise SystemExit(1)"})
    assert run_on_both(team, {"persistentVolumeClaim": {"claimName": name, "subPath": "project"}}) == EXPECTED
