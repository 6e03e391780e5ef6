"""Three hundred jobs, single ones and gangs, at once: seconds, CPU and requests are printed (`pytest -rP`)."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from typing import Any

import pytest

from tests.e2e.api_server import GPUPOOLS, NODES, ApiServer, AuditLog
from tests.e2e.cluster import eventually, remains
from tests.e2e.conftest import Fleet
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team, devices, pinned_nodes

# So many nodes, jobs and pods take long to go.
pytestmark = [pytest.mark.e2e, pytest.mark.last(2)]


def test_they_are_bound_to_two_hundred_nodes_without_a_double_promise_and_then_nothing_is_written(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, audit: AuditLog
) -> None:
    team.waits_for_the_end = False
    nodes = fleet(h100=100, **{"mi300x": 100})
    mark, cpu, began = audit.now(), operator.cpu_seconds(), time.monotonic()
    chance = random.Random(7)
    names, pods = [], 0
    for number in range(300):
        gang = number % 5 == 0
        shape: dict[str, Any] = (
            {"nodes": chance.randint(2, 4), "gpusPerNode": 4} if gang else {"gpusPerNode": chance.choice([1, 2, 4])}
        )
        names.append(f"job-{number}")
        pods += shape.get("nodes", 1)
        team.submit(names[-1], **shape)
    submitted = time.monotonic() - began
    eventually(lambda: len(bound(team)) == pods, 90, what=f"{pods} bound pods", every=1)
    took = time.monotonic() - began
    team.until_all(names, "Running")
    requests = [
        entry["verb"] for entry in audit.since(mark) if entry.get("objectRef", {}).get("namespace") == team.namespace
    ]
    figures = {
        "jobs": len(names),
        "pods": pods,
        "seconds to submit": round(submitted, 1),
        "seconds to all bound": round(took, 1),
        "operator CPU ms a job": round((operator.cpu_seconds() - cpu) / len(names) * 1000, 1),
        "status writes": audit.writes(mark, team.namespace, "job-")["gpujobs/status"],
        "requests a job": round(len(requests) / len(names), 2),
    }
    print(figures)  # shown by `pytest -rP`

    no_device_is_promised_twice(team, nodes)
    # Some of each kind that never ends, so that rest is not only the rest of the running.
    team.submit("impossible", gpuMemory="500G")
    team.submit("waits", nodes=100, gpusPerNode=8)
    team.submit("planned", suspend=True)
    for name, state in (("impossible", "Impossible"), ("waits", "Queued"), ("planned", "Suspended")):
        team.until(name, state)
    taken = sum(devices(pod) for pod in team.pods())
    eventually(lambda: free(api) == 1600 - taken, 60, what="pools that show what is taken", every=0.5)
    rest = audit.now()
    often = "twice what the operator does every 5 seconds: the renewal of the Lease, and the look at the runners"
    remains(lambda: audit.writes(rest) == {}, 12, because=often, every=2)
    assert any(entry.get("objectRef", {}).get("resource") == "leases" for entry in audit.since(rest))

    writes = audit.writes(mark, team.namespace, "job-")
    assert writes["jobs"] == 300
    assert writes["services"] == 60
    # Placed and Running are one write where a pod runs within 2 s, else two; on a machine where starting lasts, that is said too.
    assert 300 <= writes["gpujobs/status"] <= 600 or (took - submitted > 4 and writes["gpujobs/status"] <= 1200)
    assert writes["events"] == 300


def bound(team: Team) -> list[str]:
    """The nodes of the pods that have one."""
    return [pod["spec"]["nodeName"] for pod in team.pods() if pod["spec"].get("nodeName")]


def free(api: ApiServer) -> int:
    """Free devices as the published pools say."""
    return sum(pool.get("status", {}).get("gpus", {}).get("free", 0) for pool in api.items(GPUPOOLS))


def no_device_is_promised_twice(team: Team, nodes: list[str]) -> None:
    """Nothing ends in between, so what is promised only grows and its last sum is its largest."""
    reserved: dict[str, int] = defaultdict(int)
    for job in team.jobs():
        template = job["spec"]["template"]
        for node in pinned_nodes(template["spec"]):
            reserved[node] += devices(template)
    capacity = {}
    for each in team.api.items(NODES):
        allocatable = each["status"]["allocatable"]
        capacity[each["metadata"]["name"]] = sum(int(allocatable.get(f"{v}.com/gpu", 0)) for v in ("nvidia", "amd"))
    assert {node: count for node, count in reserved.items() if count > capacity[node]} == {}
    used: Counter[str] = Counter()
    for pod in team.pods():
        used[pod["spec"]["nodeName"]] += devices(pod)
    assert used == reserved
    assert set(used) <= set(nodes)
