"""A training of two pods is interrupted and goes on from its checkpoint: on the same nodes, and at the other vendor."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.api_server import CLAIMS, NODES, PODS, VOLUMES, ApiServer
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.node import store
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]

TRAIN = """
import os, time
from pathlib import Path
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from gpujob_report import saving

folder, attempt = Path(os.environ["GPUJOB_CHECKPOINT_DIR"]), int(os.environ["GPUJOB_ATTEMPT"])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
first, last = 0, folder / "last.pt"
if attempt > 1 and last.exists():
    saved = torch.load(last)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]
print(f"{os.environ['GPUJOB_BACKEND']} attempt {attempt} begins after step {first}", flush=True)
# The first attempt never ends by itself, the second one after three readings.
for step in range(first + 1, first + 61 if attempt > 1 else 100_000):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.1)
    if step % 10 == 0:
        if rank == 0:
            with saving(step):
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, folder / "new.pt")
                (folder / "new.pt").rename(last)
        dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def checkpoints(cluster: Cluster, api: ApiServer, team: Trainers) -> Iterator[str]:
    """The name of a claim that every node can mount, with a folder of this machine behind it."""
    folder = cluster.dir / f"runs-of-{team.namespace}"
    folder.mkdir()
    folder.chmod(0o777)
    modes, size = ["ReadWriteMany"], {"storage": "1Gi"}
    volume = {"accessModes": modes, "storageClassName": "", "capacity": size, "hostPath": {"path": str(folder)}}
    api.create(
        VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": folder.name}, "spec": volume}
    )
    claim = {"accessModes": modes, "storageClassName": "", "volumeName": folder.name, "resources": {"requests": size}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "runs"}, "spec": claim}
    api.create(CLAIMS.format(team.namespace), body)
    yield "runs"
    team.clear()
    api.delete(CLAIMS.format(team.namespace), "runs")
    api.delete(VOLUMES, folder.name)


def start(team: Trainers, claim: str, **spec: Any) -> str:
    """Submits the training and waits for its first checkpoint; gives its uid."""
    team.give_code("code", train=TRAIN)
    uid = team.run(
        "run", "torchrun", "train.py", image=store.TORCH, code={"configMap": {"name": "code"}},
        resources={"cpu": "900m", "memory": "1500Mi"}, telemetry={},
        volumes=[{"name": "runs", "persistentVolumeClaim": {"claimName": claim}}], **spec,
    )  # fmt: skip
    eventually(lambda: team.status("run").get("checkpoint", {}).get("step", 0) >= 10, 240, what="a checkpoint")
    return uid


def gpujob(team: Trainers, *arguments: str) -> str:
    command = [sys.executable, "-m", "gpujob.cli.main", *arguments, "-n", team.namespace]
    done = subprocess.run(command, env=team.api.cluster.environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def of_attempt(team: Trainers, uid: str, attempt: int) -> list[dict[str, Any]]:
    return [pod for pod in team.pods(uid) if pod["metadata"]["labels"]["gpujob.dev/attempt"] == str(attempt)]


def begins(team: Trainers, uid: str) -> set[str]:
    """What the ranks of the second attempt printed first."""
    printed = [team.printed(pod) for pod in of_attempt(team, uid, 2)]
    return {line for text in printed for line in text.splitlines() if " begins after " in line}


def test_a_pod_that_is_killed_makes_a_new_attempt_of_the_gang_that_goes_on(
    operator: OperatorProcess, team: Trainers, checkpoints: str
) -> None:
    uid = start(team, checkpoints, nodes=2, placement={"vendors": ["AMD"]}, checkpoint={"volume": "runs"})
    killed, other = of_attempt(team, uid, 1)
    team.api.delete(PODS.format(team.namespace), killed["metadata"]["name"])
    status = team.until("run", "Succeeded", "Failed", timeout=300)
    assert status["state"] == "Succeeded", status
    (said,) = begins(team, uid)
    backend, _, number = said.partition(" attempt 2 begins after step ")
    assert backend == "ROCm"
    assert int(number) >= 10
    first, second = status["attempts"]
    assert (first["reason"], first["blame"], first["vendor"]) == ("PodDeleted", "Infrastructure", "AMD")
    assert set(first["nodes"]) == {"amd-0", "amd-1"}
    assert first["from"] < first["to"] <= second["from"] < second["to"]
    assert (second["attempt"], second["reason"]) == (2, "Succeeded")
    assert status["failures"] == {"infrastructure": 1}
    shown = gpujob(team, "logs", "run")
    assert {line for line in shown.splitlines() if "attempt 2 begins" in line} == {
        f"[{rank}] {said}" for rank in (0, 1)
    }
    assert said in gpujob(team, "logs", "run", "--rank", "1", "--follow").splitlines()
    # The last one is saved right before the end, which no reading may have seen.
    assert int(number) < status["checkpoint"]["step"] <= int(number) + 60
    grace = {pod["spec"]["terminationGracePeriodSeconds"] for pod in of_attempt(team, uid, 2)}
    assert max(grace) < 120 == other["spec"]["terminationGracePeriodSeconds"]


def test_a_drained_vendors_training_goes_on_at_the_other_from_the_saved_step(
    operator: OperatorProcess, team: Trainers, api: ApiServer, checkpoints: str
) -> None:
    # Two AMD nodes, or two GPUs of the one NVIDIA node.
    shapes = [{"accelerator": "MI210", "nodes": 2}, {"accelerator": "L4", "gpusPerNode": 2}]
    uid = start(team, checkpoints, shapes=shapes, checkpoint={"volume": "runs", "resumeOn": "AnyVendor"})
    before = team.status("run")["placement"]
    nodes = [node["metadata"]["name"] for node in api.items(NODES)]
    leaving = [name for name in nodes if name.startswith(before["vendor"].lower())]
    try:
        for name in leaving:
            assert api.kubectl("cordon", name).returncode == 0
        selector = f"--pod-selector=gpujob.dev/job-uid={uid}"
        for name in leaving:
            done = api.kubectl(
                "drain", name, selector, "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=200s"
            )
            assert done.returncode == 0, done.stderr
        status = team.until("run", "Succeeded", "Failed", timeout=300)
    finally:
        for name in leaving:
            api.kubectl("uncordon", name)
    assert status["state"] == "Succeeded", status
    after = status["placement"]
    assert {before["vendor"], after["vendor"]} == {"AMD", "NVIDIA"}
    (said,) = begins(team, uid)
    backend, _, number = said.partition(" attempt 2 begins after step ")
    assert backend == {"AMD": "ROCm", "NVIDIA": "CUDA"}[after["vendor"]]
    assert int(number) >= 10
    first, second = status["attempts"]
    assert (first["vendor"], first["reason"], second["vendor"]) == (before["vendor"], "Evicted", after["vendor"])
    assert set(first["nodes"]) <= set(leaving)
    assert not set(second["nodes"]) & set(leaving)
