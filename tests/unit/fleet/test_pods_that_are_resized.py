"""What a pod counts on its node while its containers are resized in place: as kube-scheduler counts it."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, Object, decision, node, pod

from gpujob.fleet.kubernetes.parse import read_pod
from gpujob.values.vocabulary import Verdict

INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
RUNS = {"type": "PodResizeInProgress", "status": "True"}


def resized(
    spec: str, held: str | None = None, allocated: str | None = None, *conditions: Object, **more: Any
) -> Object:
    """A pod whose spec requests so much CPU, with what its kubelet has set and allocated."""
    one = pod("p", "a", {"nvidia.com/gpu": "1"}, cpu=spec, memory="2Gi")
    status: Object = {"name": "main"}
    if held is not None:
        status["resources"] = {"requests": {"cpu": held, "memory": "1Gi"}}
    if allocated is not None:
        status["allocatedResources"] = {"cpu": allocated, "memory": "1Gi"}
    one["status"] |= {"containerStatuses": [status], "conditions": list(conditions), **more}
    return one


@pytest.mark.parametrize(("one", "cores", "gib"), [
    (resized("10"), 10, 2),
    (resized("10", "50", "50"), 50, 2),
    (resized("10", "10", "50", RUNS), 50, 2),
    (resized("50", "10", "10", DEFERRED), 50, 2),
    (resized("900", "10", "10", INFEASIBLE), 10, 1),
    (resized("900", "10", "20", INFEASIBLE), 20, 1),
    (resized("10", "10000m", "10"), 10, 2),
    # Without `resources` in the status a kubelet resizes nothing.
    (resized("10", None, "50"), 10, 2),
])  # fmt: skip
def test_the_larger_of_spec_and_kubelet_counts_until_a_resize_is_done(one: Object, cores: int, gib: int) -> None:
    read = read_pod(one)
    assert (read.needs.millicores, read.needs.memory) == (cores * 1000, gib * 2**30)
    assert (read.needs.pods, dict(read.devices), read.unread) == (1, {"nvidia.com/gpu": 1}, ())


def test_a_sidecar_is_resized_too_and_other_containers_are_not() -> None:
    one = resized("10", "20", "20")
    side = {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    one["spec"]["initContainers"] = [side]
    one["spec"]["containers"].append({"name": "other", "resources": {"requests": {"cpu": "2"}}})
    one["status"]["initContainerStatuses"] = [{"name": "side", "resources": {"requests": {"cpu": "5"}}}]
    assert read_pod(one).needs.millicores == (20 + 5 + 2) * 1000


@pytest.mark.parametrize("status", [
    {"containerStatuses": [{"name": ["main"], "resources": {"requests": {"cpu": "50"}}}]},
    {"containerStatuses": {"name": "main"}},
    {"containerStatuses": [{"name": "main", "resources": 7, "allocatedResources": ["50"]}]},
    {"containerStatuses": [{"name": "main", "resources": None}], "conditions": 3},
])  # fmt: skip
def test_a_status_that_cannot_be_read_changes_nothing(status: Object) -> None:
    one = resized("10")
    one["status"] |= status
    assert read_pod(one).needs.millicores == 10_000


def test_a_job_takes_only_what_a_resize_leaves() -> None:
    there = node("a", H100, 8, price="1", allocatable={"cpu": "96"})
    job = {"gpusPerNode": 2, "resources": {"cpu": "80"}}
    assert decision(there, resized("10", "10", "10"), **job).verdict is Verdict.PLACED
    assert decision(there, resized("10", "50", "50"), **job).verdict is Verdict.WAITING
    assert decision(there, resized("900", "10", "10", INFEASIBLE), **job).verdict is Verdict.PLACED
