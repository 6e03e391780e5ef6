"""A volume that no node can attach, on real nodes: the job says what Kubernetes says of it."""

from __future__ import annotations

import pytest

from tests.e2e.api_server import CLAIMS, VOLUMES, ApiServer
from tests.e2e.cluster import eventually
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]


def test_a_volume_whose_driver_no_node_has_is_told(operator: OperatorProcess, team: Trainers, api: ApiServer) -> None:
    modes, size, name = ["ReadWriteMany"], {"storage": "1Gi"}, f"nowhere-of-{team.namespace}"
    source = {"driver": "nowhere.example.com", "volumeHandle": "v"}
    volume = {"accessModes": modes, "storageClassName": "", "capacity": size, "csi": source}
    api.create(VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume})
    claim = {"accessModes": modes, "storageClassName": "", "volumeName": name, "resources": {"requests": size}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim}
    api.create(CLAIMS.format(team.namespace), body)
    try:
        mounts = [{"name": "data", "mountPath": "/data"}]
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        team.run("unmounted", "python3", "-c", "pass", volumes=volumes, volumeMounts=mounts)
        told = said(team, "unmounted", "nowhere.example.com", timeout=260)
        assert "attach" in told.lower() or "mount" in told.lower()
    finally:
        team.clear()
        api.delete(CLAIMS.format(team.namespace), "data")
        api.delete(VOLUMES, name)


def said(team: Trainers, job: str, words: str, timeout: float = 120) -> str:
    """The sentence of condition Running once it has these words."""

    def there() -> str | None:
        message = str(team.condition(job, "Running").get("message"))
        return message if words in message else None

    return str(eventually(there, timeout, what=f"{words!r} in what is said of {job}"))
