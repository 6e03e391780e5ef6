"""Real programs report through the runner that the operator brought; what keeps the operator away is said with the remedy."""

from __future__ import annotations

import re
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, eventually
from tests.e2e.node import store
from tests.e2e.node.test_a_training_goes_on import checkpoints
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import NAMESPACE, OperatorProcess

__all__ = ["checkpoints"]
pytestmark = [pytest.mark.e2e, pytest.mark.node]

BATCH = 32
TRAIN = f"""
import os, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

gang = int(os.environ.get("WORLD_SIZE", "1")) > 1
if gang:
    dist.init_process_group("gloo")
model = torch.nn.Linear(16, 1)
model = DistributedDataParallel(model) if gang else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = DataLoader(TensorDataset(torch.randn(4096, 16), torch.randn(4096, 1)), batch_size={BATCH})
end = time.time() + float(os.environ["SECONDS"])
while True:
    for inputs, wanted in data:
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.05)
    over = torch.tensor(float(time.time() >= end))
    if gang:
        dist.all_reduce(over)
    if over > 0:
        break
"""

LISTEN = "import http.server; http.server.HTTPServer(('', 9466), http.server.BaseHTTPRequestHandler).serve_forever()"


WAITS = """
import os, pathlib, time
while not pathlib.Path(os.environ["GPUJOB_CHECKPOINT_DIR"], "over").exists():
    time.sleep(0.1)
"""
"""Ends when the file `over` is in its folder."""


def refused_readings(operator: OperatorProcess) -> int:
    """The readings at which nothing listened on a pod's port, as the operator's metrics count them."""
    address = f"http://127.0.0.1:{operator.settings['GPUJOB_METRICS_PORT']}/metrics"
    with urllib.request.urlopen(address, timeout=10) as answer:
        found = re.search(
            r'^gpujob_reporter_reads_total\{result="NoReporter"\} (\S+)', answer.read().decode(), re.MULTILINE
        )
    return int(float(found[1])) if found else 0


def measured(team: Trainers, name: str) -> dict[str, Any] | None:
    status = team.status(name)
    return status if status.get("throughput", {}).get("samplesPerSecond") else None


def test_a_gang_reports_the_samples_of_all_its_ranks_and_its_profile_remembers_them(
    operator: OperatorProcess, team: Trainers
) -> None:
    team.give_code("code", train=TRAIN)
    uid = team.run(
        "gang", "torchrun", "train.py",
        image=store.TORCH, code={"configMap": {"name": "code"}}, nodes=2, gpusPerNode=2, profile="linear",
        telemetry={}, env=[{"name": "SECONDS", "value": "25"}], resources={"cpu": "900m", "memory": "2Gi"},
    )  # fmt: skip
    state, printed = team.result("gang", uid, timeout=180)
    assert state == "Succeeded", printed

    status = measured(team, "gang") or {}
    assert status, team.status("gang")
    assert status["progress"]["step"] > 20
    speeds = {key: float(value) for key, value in status["throughput"].items()}
    assert speeds["samplesPerSecond"] / speeds["stepsPerSecond"] == pytest.approx(4 * BATCH, rel=0.1)
    assert team.condition("gang", "TelemetryReachable")["status"] == "True"
    found = team.api.get(f"/apis/gpujob.dev/v1alpha1/namespaces/{team.namespace}/gpujobprofiles", "linear")
    (measurement,) = found["status"]["measurements"]
    assert (measurement["shape"], measurement["unit"]) == ("2x2", "samples")


def test_a_program_without_torch_reports_nothing_and_its_last_status_says_so(
    operator: OperatorProcess, team: Trainers, cluster: Cluster, checkpoints: str
) -> None:
    volumes = [{"name": "runs", "persistentVolumeClaim": {"claimName": checkpoints}}]
    uid = team.run("plain", "python3", "-c", WAITS, telemetry={}, volumes=volumes, checkpoint={"volume": "runs"})
    team.until("plain", "Running")
    # Its silence counts from the fifth try on.
    enough = refused_readings(operator) + 6
    eventually(lambda: refused_readings(operator) >= enough, 120, what="six readings that no reporter answers")
    (cluster.dir / f"runs-of-{team.namespace}" / "over").touch()
    state, _ = team.result("plain", uid)
    found = team.condition("plain", "TelemetryReachable")
    assert (state, found["status"], found["reason"]) == ("Succeeded", "False", "NoReporter")
    (pod,) = team.pods(uid)
    assert found["message"].startswith(f"nothing listens on port 9466 of pod {pod['metadata']['name']}")


@pytest.fixture
def wall() -> Iterator[Any]:
    """Drops what this machine sends to a pod's port, as a NetworkPolicy of a default-deny namespace would."""
    table = "gpujob_test_wall"

    def build(address: str, port: int) -> None:
        rules = (
            f"table ip {table} {{\n chain output {{\n  type filter hook output priority 0;\n"
            f"  ip daddr {address} tcp dport {port} drop\n }}\n}}\n"
        )
        subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)

    yield build
    subprocess.run(["nft", "delete", "table", "ip", table], check=False, capture_output=True)


def test_a_blocked_path_is_a_condition_with_the_policy_to_add(
    operator: OperatorProcess, team: Trainers, wall: Any
) -> None:
    # It hears no SIGTERM, as first process of its container.
    uid = team.run("walled", "python3", "-c", LISTEN, telemetry={}, terminationGracePeriodSeconds=1)
    team.until("walled", "Running")
    (pod,) = team.pods(uid)
    wall(pod["status"]["podIP"], 9466)

    def told() -> dict[str, Any] | None:
        found = team.condition("walled", "TelemetryReachable")
        return found if found.get("reason") == "TelemetryBlocked" else None

    found = eventually(told, 60, what="that the path is blocked") or {}
    assert found["status"] == "False"
    assert found["message"] == (
        f"port 9466 of pod {pod['metadata']['name']} cannot be reached from namespace {NAMESPACE} (no connection within 1.5 "
        "seconds); if a NetworkPolicy or a mesh keeps it apart, add a NetworkPolicy with podSelector {gpujob.dev/job: "
        f"walled}} and ingress from namespaceSelector {{kubernetes.io/metadata.name: {NAMESPACE}}} to TCP port 9466"
    )
    assert team.state("walled") == "Running"
