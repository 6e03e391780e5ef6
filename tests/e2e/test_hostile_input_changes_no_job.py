"""Labels of nodes, replies of programs and pods that lie, on a real API server: what they say reaches no placement and no status.

Manifests of GPUJobs that ask for more are in tests/contract/attacks.yaml; a ConfigMap in the place of the runner's is in
test_a_preflight_before_the_program, a Job in the place of a child in test_children_belong_to_their_job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.e2e.api_server import GPUPOOLS, NODES, PODS, ApiServer
from tests.e2e.cluster import eventually, remains, simulated_nodes
from tests.e2e.conftest import MADE_BY, Fleet, Operators
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.reporter import Reporter, reach
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e

NVIDIA: Final = "nvidia.com"
PRICE: Final = "gpujob.dev/price-per-gpu-hour"

LIES: Final[dict[str, tuple[dict[str, str], str]]] = {
    "less memory than the model has": ({f"{NVIDIA}/gpu.memory": "16384"}, ""),
    "no known model and no memory": ({f"{NVIDIA}/gpu.product": "NVIDIA-H900-8TB", f"{NVIDIA}/gpu.memory": ""}, "DeviceUnknown"),
    "another architecture": ({f"{NVIDIA}/gpu.family": "turing", f"{NVIDIA}/gpu.compute.major": "7"}, "LabelsContradict"),
    "fewer devices than are offered": ({f"{NVIDIA}/gpu.count": "2"}, "LabelsContradict"),
    "shared devices": ({f"{NVIDIA}/gpu.sharing-strategy": "time-slicing", f"{NVIDIA}/gpu.replicas": "4"}, ""),
    "a product that is shared": ({f"{NVIDIA}/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"}, ""),
    "slices under the name of whole devices": (
        {f"{NVIDIA}/mig.strategy": "single", f"{NVIDIA}/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}, ""),
    "another model for the cloud": ({"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, ""),
    "a driver of twenty years ago": (
        {f"{NVIDIA}/cuda.driver.major": "1", f"{NVIDIA}/cuda.driver-version.major": "1",
         f"{NVIDIA}/cuda.driver-version.full": "1.0"}, ""),
}  # fmt: skip
"""Labels of a node that is an H100 otherwise and costs a cent, and the problem of its GPUPool; empty: a job that asks for whole devices
of 30G passes it by without one."""
PRICES: Final = ("-1", "NaN", "1e309", "0.01; free", "٣", "0x1", "1_000")
"""Annotations of nodes that are invalid prices."""


def hostile(team: Team, number: int, labels: dict[str, str], price: str) -> dict[str, Any]:
    """A node with 8 H100 and a pool of its own, whose labels say something else too."""
    (node,) = simulated_nodes({"h100": 1})
    name = f"{team.namespace}-hostile-{number}"
    node["metadata"]["name"] = name
    own = {"kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": f"hostile-{number}", MADE_BY: "hostile"}
    held = {**node["metadata"]["labels"], **own, **labels}
    node["metadata"]["labels"] = {key: value for key, value in held.items() if value}
    node["metadata"]["annotations"][PRICE] = price
    return node


@pytest.fixture
def hostile_nodes(api: ApiServer, team: Team) -> Iterator[dict[str, str]]:
    """A node for each lie, and one for each invalid price; their instance types by the lie."""
    nodes = [hostile(team, number, labels, "0.01") for number, (labels, _) in enumerate(LIES.values())]
    nodes += [hostile(team, len(LIES) + number, {}, price) for number, price in enumerate(PRICES)]
    for node in nodes:
        api.create(NODES, node)
    yield {lie: f"hostile-{number}" for number, lie in enumerate((*LIES, *PRICES))}
    team.clear()
    api.delete(f"{NODES}?labelSelector={MADE_BY}=hostile")


def test_labels_that_lie_bring_no_job_to_their_node(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, hostile_nodes: dict[str, str]
) -> None:
    (good,) = fleet(a100=1)

    def pools() -> dict[str, dict[str, Any]]:
        statuses = [each.get("status", {}) for each in api.items(GPUPOOLS)]
        found = {status.get("instanceType", ""): status for status in statuses}
        return found if set(hostile_nodes.values()) <= found.keys() else {}

    told = eventually(pools, 90, what="a GPUPool of each node")
    for lie, (_, problem) in LIES.items():
        if problem:
            assert told[hostile_nodes[lie]].get("problem") == problem, lie
    for price in PRICES:
        assert told[hostile_nodes[price]].get("priceSource") != f"node annotation {PRICE}", price
    # No price of a list is as low as a cent: only a node that lies would be chosen by it.
    placement = {"maxPricePerHour": "1.00"}
    for number in range(2):
        team.submit(f"cheap-{number}", gpusPerNode=4, gpuMemory="30G", placement=placement)
        state = team.until(f"cheap-{number}", "Queued", "Impossible", "Misconfigured", "Placed", "Starting", "Running")
        assert state.get("jobName") is None, state.get("placement")
    accelerators = {"accelerators": {"allow": ["H100-SXM", "A100-80GB"]}, "maxPricePerHour": "15.00"}
    team.submit("fair", gpusPerNode=4, gpuMemory="30G", placement=accelerators)
    assert team.until("fair", "Running")["placement"]["nodeNames"] == [good]


@pytest.fixture
def attentive(no_operator: None, operators: Operators) -> Iterator[OperatorProcess]:
    """An operator that reads every second."""
    made = operators("reads-liars")
    made.settings["GPUJOB_SCRAPE_SECONDS"] = "1"
    made.start_without_waiting_for_the_lease()
    yield made
    made.stop()
    assert made.errors() == []


@pytest.fixture
def reporter() -> Iterator[Reporter]:
    made = Reporter()
    yield made
    made.close()


UP: Final = b"gpujob_up 1\ngpujob_world_size 1\ngpujob_ranks_reporting 1\n"
REPLIES: Final[dict[str, bytes]] = {
    "eight megabytes of one line": b"x" * 8_000_000,
    "a million series": UP + b"".join(b'gpujob_steps_total{rank="%d"} 1\n' % number for number in range(200_000)),
    "no text": bytes(range(256)) * 100,
    "figures below nothing": UP + b'gpujob_steps_total{rank="0"} -5\ngpujob_progress_ratio{rank="0"} -3\n',
    "figures beyond all": UP + b'gpujob_steps_total{rank="0"} 1e308\ngpujob_tokens_total{rank="0"} 1e999\n'
    b'gpujob_progress_ratio{rank="0"} 7\ngpujob_remaining_seconds{rank="0"} 1e300\n',
    "no numbers": UP + b'gpujob_steps_total{rank="0"} NaN\ngpujob_progress_ratio{rank="0"} \xd9\xa3\n',
    "a rank that is none": UP + b'gpujob_steps_total{rank="../../0"} 5\ngpujob_steps_total{rank="99999999999"} 5\n',
    "colours and lines in a label": UP + b'gpujob_device_info{rank="0",name="\x1b[31m\\nReady True"} 1\n',
    "another's job": UP
    + b'gpujob_attempt_info{job_uid="of-others",attempt="1"} 1\ngpujob_progress_ratio{rank="0"} 0.9\n',
    "nothing at all": b"\n",
}
"""What a program answers in the reporter's place."""


def test_replies_that_lie_leave_the_job_and_its_status_as_they_are(
    attentive: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, reporter: Reporter
) -> None:
    fleet(l4=1)
    reporter.body = b"<html>"
    uid = team.submit("liar", telemetry={"port": reporter.port})
    team.until("liar", "Running")
    reach(team, uid)
    eventually(lambda: team.condition("liar", "TelemetryReachable"), 90, what="the port read")
    for what, body in REPLIES.items():
        reporter.body = body
        remains(lambda: team.state("liar") == "Running", 3, because=what)
        status = team.status("liar")
        assert len(json.dumps(status)) < 2048, what
        progress = status.get("progress") or {}
        assert not any(word in json.dumps(status) for word in ("\\u001b", "NaN", "Infinity", "e+")), what
        assert 0 <= float(progress.get("ratio") or progress.get("percent") or 0) <= 100, (what, progress)
        assert status.get("stalled") is None
    # And the operator still reads a true report.
    reporter.body = b""
    eventually(
        lambda: team.condition("liar", "TelemetryReachable").get("reason") == "ReporterRead", 120, what="a true report read"
    )  # fmt: skip


FORGED: Final[dict[str, dict[str, Any]]] = {
    "failed": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource"},
    "succeeded": {"phase": "Succeeded"},
    "ran out of memory": {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "train", "image": "none", "imageID": "", "ready": False, "restartCount": 0,
                "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            }
        ],
    },
}  # fmt: skip
"""Statuses of pods that say they are of a job's attempt."""


@pytest.mark.parametrize("what", FORGED)
def test_a_pod_that_says_it_is_of_a_job_tells_nothing_of_it(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, what: str
) -> None:
    fleet(h100=1)
    uid = team.submit("mine", gpusPerNode=4)
    team.until("mine", "Running")
    before = team.status("mine")
    (real,) = team.pods(uid)
    template = {
        "restartPolicy": "Never",
        "containers": [{"name": "train", "image": "none"}],
        "schedulerName": "of-no-scheduler",
    }
    labels = {key: value for key, value in real["metadata"]["labels"].items() if "controller-uid" not in key}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "forged", "labels": labels}, "spec": template}
    api.create(PODS.format(team.namespace), body)
    api.patch(PODS.format(team.namespace), "forged", {"status": FORGED[what]}, "status")
    remains(lambda: team.status("mine") == before, 5, because="a pod of no child is not the job's")
    # It holds no GPUs either: another job gets the other four.
    team.submit("next", gpusPerNode=4, runs_for="0s")
    team.until("next", "Succeeded")
    api.delete(PODS.format(team.namespace), "forged")
