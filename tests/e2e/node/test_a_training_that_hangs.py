"""What keeps a training of real pods from its steps: a rank that hangs, a node that is lost, and a device that breaks. Each goes on
from its checkpoint, and its attempts say where they ran, for how long and what they cost."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.e2e.api_server import EVENTS, NODES, PODS, ApiServer
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.node import store
from tests.e2e.node.machine import pid_of
from tests.e2e.node.test_a_training_goes_on import TRAIN, begins, checkpoints, of_attempt, start
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

__all__ = ["checkpoints"]
pytestmark = [pytest.mark.e2e, pytest.mark.node]

HANGS = TRAIN.replace(
    "    loss = model", "    if attempt == 1 and rank == 1 and step == 25:\n        read_shard()\n    loss = model"
).replace("dist.init_process_group", "def read_shard():\n    time.sleep(3600)\n\ndist.init_process_group", 1)


SAVES_AND_ENDS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("attempt", os.environ["GPUJOB_ATTEMPT"], flush=True)
if os.environ["GPUJOB_ATTEMPT"] == "1":
    time.sleep(600)
"""


def test_a_program_that_ends_with_0_because_it_is_evicted_goes_on(
    operator: OperatorProcess, team: Trainers, api: ApiServer
) -> None:
    uid = team.run("run", "python3", "-c", SAVES_AND_ENDS)
    team.until("run", "Running", timeout=90)
    (pod,) = team.pods(uid)
    name = pod["metadata"]["name"]
    eventually(lambda: "attempt 1" in team.printed(pod), 30, what="a program that handles SIGTERM")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": team.namespace}}
    api.create(f"{PODS.format(team.namespace)}/{name}/eviction", eviction)
    status = team.until("run", "Succeeded", "Failed", timeout=120)
    first, second = status["attempts"]
    assert (first["reason"], first["blame"], second["reason"]) == ("Evicted", "Infrastructure", "Succeeded")
    assert first["message"].startswith(f"pod {name} on node ")
    assert first["message"].endswith(
        "its program ended with exit code 0 when it was asked to, which is no end of the job"
    )
    (again,) = of_attempt(team, uid, 2)
    assert team.printed(again) == "attempt 2\n"
    # Kubernetes itself takes the first attempt for complete.
    ends = {
        job["metadata"]["labels"]["gpujob.dev/attempt"]: job["status"]["conditions"][-1]["type"]
        for job in team.jobs(uid)
    }
    assert ends == {"1": "Complete", "2": "Complete"}


def test_a_rank_that_hangs_is_found_named_and_restarted(
    operator: OperatorProcess, team: Trainers, api: ApiServer, checkpoints: str
) -> None:
    team.give_code("code", train=HANGS)
    volumes = [{"name": "runs", "persistentVolumeClaim": {"claimName": checkpoints}}]
    uid = team.run(
        "run", "torchrun", "train.py", image=store.TORCH, code={"configMap": {"name": "code"}}, nodes=2, volumes=volumes,
        resources={"cpu": "900m", "memory": "1500Mi"}, placement={"vendors": ["AMD"]}, checkpoint={"volume": "runs"},
        telemetry={}, stall={"afterSeconds": 20, "action": "Restart"},
    )  # fmt: skip
    status = team.until("run", "Succeeded", "Failed", timeout=420)
    assert status["state"] == "Succeeded", status
    first, second = status["attempts"]
    assert (first["reason"], first["blame"], second["reason"]) == ("Stalled", "Infrastructure", "Succeeded")
    assert set(first["nodes"]) == set(second["nodes"]) == {"amd-0", "amd-1"}
    assert "excludedNodes" not in status
    named = (
        r"no step for \d\d seconds after step 24; the bound is 20 seconds \(spec\.stall\.afterSeconds\); "
        r"rank 1 \(pod run-\w+-1-1-\w+ on node amd-\d\) is at step 24 in read_shard \(\S*train\.py:\d+\)"
    )
    assert re.match(named, first["message"]), first["message"]
    notes = [each["note"] for each in api.items(EVENTS.format(team.namespace)) if each["reason"] == "Stalled"]
    waits = (
        r"; rank 0 waits at step 24 in _engine_run_backward \(torch/autograd/graph\.py:\d+\), "
        r"called from <module> \(\S*train\.py:\d+\)"
    )
    assert len(notes) == 1
    assert re.search(waits, notes[0]), notes
    (said,) = begins(team, uid)
    assert said == "ROCm attempt 2 begins after step 20"


@pytest.fixture
def lost(cluster: Cluster, api: ApiServer) -> Iterator[Callable[[str], None]]:
    """Stops the kubelet of a node, until the test is over."""
    stopped: dict[str, int] = {}

    def stop(node: str) -> None:
        stopped[node] = pid_of(cluster, node, "kubelet")
        os.kill(stopped[node], signal.SIGSTOP)

    def is_ready(node: str) -> bool:
        conditions = api.get(NODES, node)["status"]["conditions"]
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    yield stop
    for node, pid in stopped.items():
        os.kill(pid, signal.SIGCONT)
        eventually(lambda node=node: is_ready(node), 60, what=f"{node} ready again")  # type: ignore[misc]


def test_a_training_goes_on_when_a_node_stops_to_answer(
    operator: OperatorProcess,
    team: Trainers,
    checkpoints: str,
    pools: Callable[..., None],
    lost: Callable[[str], None],
) -> None:
    # The cheaper two AMD nodes, then two GPUs of the one NVIDIA node.
    pools("amd", price={"perGPUHour": "0.10"})
    shapes = [{"accelerator": "MI210", "nodes": 2}, {"accelerator": "L4", "gpusPerNode": 2}]
    uid = start(team, checkpoints, shapes=shapes, checkpoint={"volume": "runs", "resumeOn": "AnyVendor"})
    (name,) = (pod["metadata"]["name"] for pod in of_attempt(team, uid, 1) if pod["spec"]["nodeName"] == "amd-1")
    lost("amd-1")
    status = team.until("run", "Succeeded", "Failed", timeout=420)
    assert status["state"] == "Succeeded", status
    first, second = status["attempts"]
    assert (first["reason"], first["blame"], second["reason"]) == ("NodeLost", "Infrastructure", "Succeeded")
    assert f"pod {name} on node amd-1 was taken away (DeletionByTaintManager)" in first["message"]
    assert (set(first["nodes"]), second["nodes"]) == ({"amd-0", "amd-1"}, ["nvidia-0"])
    assert (first["vendor"], second["vendor"]) == ("AMD", "NVIDIA")
    (said,) = begins(team, uid)
    assert said.startswith("CUDA attempt 2 begins after step ")
    assert int(said.rpartition(" ")[2]) >= 10
    # No kubelet has ended that pod: the next attempt did not wait for it.
    assert name in {pod["metadata"]["name"] for pod in team.pods(uid)}


@pytest.fixture
def sick(api: ApiServer) -> Iterator[Callable[[str], None]]:
    """Says of a node that a device of it is broken, as a node problem detector does, until the test is over."""
    patched = []

    def say(node: str) -> None:
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        told = {"type": "XIDErrors", "status": "True", "reason": "Xid79", "message": "the GPU fell off the bus",
                "lastTransitionTime": now, "lastHeartbeatTime": now}  # fmt: skip
        patch(node, told)
        patched.append(node)

    def patch(node: str, condition: dict[str, str]) -> None:
        body = json.dumps({"status": {"conditions": [condition]}})
        done = api.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", body)
        assert done.returncode == 0, done.stderr

    yield say
    for node in patched:
        patch(node, {"type": "XIDErrors", "$patch": "delete"})


def test_a_condition_of_a_broken_device_moves_the_job(
    operator: OperatorProcess, team: Trainers, checkpoints: str, sick: Callable[[str], None], pools: Callable[..., None]
) -> None:
    pools("amd", price={"perGPUHour": "360.00"})
    uid = start(team, checkpoints, checkpoint={"volume": "runs"}, placement={"pools": {"allow": ["all-amd"]}})
    (before,) = team.status("run")["placement"]["nodeNames"]
    sick(before)
    status = team.until("run", "Succeeded", "Failed", timeout=300)
    assert status["state"] == "Succeeded", status
    (said,) = begins(team, uid)
    assert int(said.partition(" attempt 2 begins after step ")[2]) >= 10
    first, second = status["attempts"]
    assert (first["reason"], first["blame"], second["reason"]) == ("DeviceFault", "Infrastructure", "Succeeded")
    assert f"node {before} reports a device fault since " in first["message"]
    assert (first["nodes"], second["nodes"]) == ([before], ["amd-1" if before == "amd-0" else "amd-0"])
    for entry in (first, second):
        began, ended = (datetime.fromisoformat(entry[key]) for key in ("from", "to"))
        assert Decimal(entry["cost"]) == Decimal(360) * Decimal((ended - began).total_seconds()) / 3600
    assert Decimal(status["cost"]["accrued"]) == Decimal(first["cost"]) + Decimal(second["cost"])
