"""The launchers of PyTorch meet across pods by the environment alone, early or late; pods that do not meet say so."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest

from tests.e2e.api_server import JOBS, PODS, SERVICES, Object
from tests.e2e.cluster import Cluster, eventually, remains
from tests.e2e.node import store
from tests.e2e.node.machine import pid_of
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]

MEET = """
import json, os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
print(json.dumps({"rank": dist.get_rank(), "world": dist.get_world_size(), "local": int(os.environ["LOCAL_RANK"]),
                  "sum": total.item()}) + "\\n", end="")
dist.destroy_process_group()
"""
ACCELERATE = """
import json
import torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model = accelerator.prepare(torch.nn.Linear(4, 1))
total = accelerator.reduce(torch.tensor([float(accelerator.process_index)]), reduction="sum")
print(json.dumps({"rank": accelerator.process_index, "world": accelerator.num_processes,
                  "local": accelerator.local_process_index, "sum": total.item()}) + "\\n", end="")
accelerator.end_training()
"""
BOTH = [[{"rank": rank, "world": 2, "local": 0, "sum": 1.0}] for rank in (0, 1)]
"""What two pods of one rank print."""

SMALL = {"cpu": "700m", "memory": "2Gi"}
ONCE = {"infrastructure": 0}
"""Retries of a job that is to show its first failure."""


def ranks(printed: list[str]) -> list[list[dict[str, float]]]:
    """What the ranks of each pod printed, in their order."""
    found = [[json.loads(line) for line in text.splitlines() if line.startswith("{")] for text in printed]
    return [sorted(pod, key=lambda each: each["rank"]) for pod in found]


def test_accelerate_launch_finds_its_peers_in_the_variables_of_torchrun(
    operator: OperatorProcess, team: Trainers
) -> None:
    team.give_code("code", train=ACCELERATE)
    # Without a GPU it needs the number that it else counts; a job with GPUs runs `accelerate launch train.py`.
    command = ("accelerate", "launch", "--multi_gpu", "--num_processes=2", "train.py")
    uid = team.run(
        "gang",
        *command,
        image=store.TORCH,
        code={"configMap": {"name": "code"}},
        nodes=2,
        gpusPerNode=2,
        resources=SMALL,
    )
    state, printed = team.result("gang", uid, timeout=180)
    assert state == "Succeeded", printed
    assert ranks(printed) == [
        [{"rank": 0, "world": 4, "local": 0, "sum": 6.0}, {"rank": 1, "world": 4, "local": 1, "sum": 6.0}],
        [{"rank": 2, "world": 4, "local": 0, "sum": 6.0}, {"rank": 3, "world": 4, "local": 1, "sum": 6.0}],
    ]


def test_a_service_that_comes_late_does_no_harm(operator: OperatorProcess, team: Trainers) -> None:
    team.give_code("code", train=MEET)
    settings: dict[str, Any] = {
        "image": store.TORCH,
        "code": {"configMap": {"name": "code"}},
        "nodes": 2,
        "resources": SMALL,
    }
    uids = {
        "elastic": team.run("elastic", "torchrun", "train.py", **settings),
        "plain": team.run("plain", "python3", "train.py", **settings),
    }
    for name in uids:
        state, printed = team.result(name, uids[name], timeout=180)
        assert (state, ranks(printed)) == ("Succeeded", BOTH), printed
    # The same children once more, but the Jobs come first.
    jobs = [again("batch/v1", "Job", team.jobs(uid)[0], uid, name) for name, uid in uids.items()]
    services = [again("v1", "Service", team.services(uid)[0], uid, name) for name, uid in uids.items()]
    for job in jobs:
        team.api.create(JOBS.format(team.namespace), job)
    eventually(lambda: len(running(team)) == 4, 60, what="four pods that run")
    remains(lambda: len(running(team)) == 4, 12, because="by then both launchers have begun to look for their peers")
    for service in services:
        team.api.create(SERVICES.format(team.namespace), service)
    for name in uids:
        pods = f"batch.kubernetes.io/job-name=again-{name}"
        eventually(lambda pods=pods: ended(team, pods) == 2, 120, what=f"{name} ended")  # type: ignore[misc]
        found = sorted(team.api.items(PODS.format(team.namespace), pods), key=lambda pod: str(pod["metadata"]["name"]))
        assert ranks([team.printed(pod) for pod in found]) == BOTH


def again(version: str, kind: str, child: Object, uid: str, name: str) -> Object:
    """A child as it was made, under another name and of no GPUJob."""
    text = json.dumps({"apiVersion": version, "kind": kind, "spec": child["spec"]})
    made: Object = json.loads(
        text.replace(child["metadata"]["name"], f"again-{name}").replace(uid, str(uuid5(NAMESPACE_OID, uid)))
    )
    made["metadata"] = {"name": f"again-{name}"}
    made["spec"].pop("clusterIPs", None)
    if kind == "Job":
        del made["spec"]["selector"]
        labels = made["spec"]["template"]["metadata"]["labels"]
        for key in [key for key in labels if key.endswith(("controller-uid", "job-name"))]:
            del labels[key]
    return made


def running(team: Trainers) -> list[Object]:
    return [pod for pod in team.pods() if pod["status"].get("phase") == "Running"]


def ended(team: Trainers, pods: str) -> int:
    """How many of these pods ended well."""
    return sum(pod["status"].get("phase") == "Succeeded" for pod in team.api.items(PODS.format(team.namespace), pods))


@pytest.fixture
def deaf_node(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """The kubelet of amd-1 starts nothing any more, until what is given here is called."""
    pid = pid_of(cluster, "amd-1", "kubelet")
    os.kill(pid, signal.SIGSTOP)
    yield lambda: os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGCONT)


def test_a_pod_that_never_comes_ends_the_job_with_a_reason_of_its_own(
    operator: OperatorProcess, team: Trainers, deaf_node: Callable[[], None]
) -> None:
    team.give_code("code", train=MEET)
    command = ("torchrun", "--rdzv-conf=timeout=8", "train.py")
    uid = team.run(
        "gang",
        *command,
        image=store.TORCH,
        code={"configMap": {"name": "code"}},
        nodes=2,
        resources=SMALL,
        retries=ONCE,
    )
    eventually(
        lambda: any(pod["status"].get("phase") == "Failed" for pod in team.pods(uid)), 120, what="a pod that gave up"
    )
    deaf_node()
    team.until("gang", "Failed", timeout=90)
    failed = team.condition("gang", "Failed")
    assert (failed["status"], failed["reason"]) == ("True", "RendezvousTimeout")
    # Which of the pods comes is the scheduler's choice: the first one waits for the other, the other looks for the first.
    pod = r"the pods did not meet: pod gang-\w+-1-{}-\w+ on node amd-0 {}; of pod {} nothing is left that ran: the namespace's .*"
    said = [
        pod.format(0, r"waited for \d+ s and 1 of 2 joined", 1),
        pod.format(1, "looked for 8 s for pod 0 and got no answer", 0),
    ]
    assert any(re.fullmatch(each, failed["message"]) for each in said), failed["message"]


def test_a_pod_that_finds_nobody_says_so(operator: OperatorProcess, team: Trainers) -> None:
    # Pod 0 does not join for longer than the other one waits.
    script = (
        "import os, time\nif os.environ['NODE_RANK'] == '0':\n    time.sleep(300)\n"
        "import datetime\nimport torch.distributed as dist\n"
        "dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=5))\n"
    )
    team.run(
        "alone",
        "python3",
        "-c",
        script,
        image=store.TORCH,
        nodes=2,
        resources=SMALL,
        terminationGracePeriodSeconds=1,
        retries=ONCE,
    )
    team.until("alone", "Failed", timeout=180)
    failed = team.condition("alone", "Failed")
    assert failed["reason"] == "RendezvousTimeout"
    assert re.match(
        r"the pods did not meet: pod alone-\w+-1-1-\w+ on node amd-. looked for 5 s for pod 0 and got no answer; all pods ran: "
        r"check that a NetworkPolicy or a mesh lets them reach each other, .* and that every program joins$",
        failed["message"],
    )
