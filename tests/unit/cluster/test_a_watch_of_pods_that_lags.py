"""A job that has ended before the watch showed its pods: the API server is asked for them once, so that nothing of it is lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from builders import H100, fleet, node

from gpujob.catalog.files.load import load_catalog
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored
from gpujob.cluster.controller.actions import JobActions
from gpujob.cluster.controller.job_reconciler import JobReconciler
from gpujob.cluster.controller.profiles import ProfileUpdates
from gpujob.cluster.controller.runner_configmaps import RunnerConfigMaps
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.cluster.queue.work_queue import ControllerState
from gpujob.cluster.writer.writes import Writer
from gpujob.render.runner import Runner
from gpujob.schedule.answers import Answer
from gpujob.values.names import child_name
from gpujob.values.vocabulary import Label

RUNNER = Runner({"gpujob_runner/__init__.py": "x = 1"})
BEGAN, ENDED = "2026-01-01T12:00:10Z", "2026-01-01T13:00:10Z"
PASSED = '{"gpujob":1,"findings":[],"facts":{"nodes":1,"seconds":0.1}}'


def pod(exit_code: int = 0, **status: Any) -> dict[str, Any]:
    name = child_name("j", "u", 1)
    ended = {"exitCode": exit_code, "startedAt": BEGAN, "finishedAt": ENDED}
    return {
        "metadata": {
            "name": f"{name}-0-abcde", "namespace": "team", "uid": "p", "resourceVersion": "20",
            "labels": {Label.JOB_UID: "u", Label.ATTEMPT: "1"},
            "ownerReferences": [{"kind": "Job", "name": name, "uid": "c", "controller": True}],
        },
        "spec": {"nodeName": "a", "containers": [{"name": "train"}], "initContainers": [{"name": "preflight"}]},
        "status": {
            "phase": "Failed" if exit_code else "Succeeded",
            "containerStatuses": [{"name": "train", "state": {"terminated": ended}}],
            "initContainerStatuses": [
                {"name": "preflight", "state": {"terminated": {"exitCode": 0, "message": PASSED}}}
            ],
        } | status,
    }  # fmt: skip


class Server:
    """Takes what is written, keeps the child and the status, and has the pods that the watch does not show."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods, self.asked, self.status, self.child = pods, 0, dict[str, Any](), dict[str, Any]()

    async def list_paged(self, path: str, params: Any) -> Any:
        self.asked += 1
        yield {"items": list(self.pods)}

    async def create(self, path: str, body: Any, *, patience: Any = None) -> Any:
        made = {**body, "metadata": {**body["metadata"], "uid": "c", "resourceVersion": "7"}}
        if body["kind"] == "Job":
            made["metadata"]["creationTimestamp"] = "2026-01-01T12:00:00Z"
            self.child = made
        return made

    async def patch(self, path: str, body: Any, kind: str = "", *, params: Any = None, patience: Any = None) -> Any:
        if "status" in body:
            self.status = body["status"]
        return {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "8"}}


async def final(server: Server, ending: str) -> dict[str, Any]:
    """The status of a job that was placed and whose Job then has an end, while the watch shows no pod of it."""
    cache = ObjectCache(mirrored(RUNNER.name))
    work = ControllerState(ClusterIndex(cache, load_catalog()))
    writer = Writer(server, cache, lambda: True, "here")  # type: ignore[arg-type]
    steps = JobActions(work, writer, RunnerConfigMaps(work, writer, RUNNER), ProfileUpdates(work, writer))
    metadata = {"name": "j", "namespace": "team", "uid": "u", "generation": 1, "resourceVersion": "5"}
    spec = {"retries": {"infrastructure": 0}}
    for kind in cache.kinds:
        objects = [{"metadata": metadata, "spec": spec}] if kind == "gpujobs" else []
        cache.replace(kind, objects, "5")
    work.index.take(cache.take_changes())
    job = work.index.jobs["u"]
    wish, there = work.parsed_spec(job).demand, fleet(node("a", H100, price="2.10"))
    assert wish is not None
    steps._delivery._held = lambda namespace: None  # type: ignore[method-assign, assignment]
    work.remember("u")
    await steps.place(job, Answer(wish, there, load_catalog()).decision, there.runtime_classes)
    # Its hour passes for this process too: a clock that says more than that is not believed.
    later = work.clock() + 3610.0
    work.clock = lambda: later
    child = copy.deepcopy(server.child)
    child["metadata"]["resourceVersion"] = "9"
    child["status"] = {"conditions": [{"type": ending, "status": "True", "lastTransitionTime": ENDED}]}
    cache.note_written("jobs", child)
    work.index.take(cache.take_changes())
    for _ in range(2):
        JobReconciler(work, steps).reconcile(job)
        if "u" in work.tasks:
            await work.tasks["u"]
            break
        # A failed Job is judged without its pods only after a while.
        work.clock = lambda: 1e9
    return server.status


async def test_what_only_the_api_server_knows_of_a_job_that_succeeded_is_in_its_status() -> None:
    server = Server(pod())
    status = await final(server, "Complete")
    assert (status["state"], status["startTime"], status["completionTime"]) == ("Succeeded", BEGAN, ENDED)
    assert status["cost"]["accrued"] == "2.100000" or float(status["cost"]["accrued"]) == pytest.approx(2.1)
    told = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
    assert told["PreflightPassed"] == ("True", "PreflightPassed")
    assert server.asked == 1


async def test_one_that_failed_has_its_exit_code_and_cost() -> None:
    status = await final(Server(pod(3)), "Failed")
    assert (status["state"], status["startTime"]) == ("Failed", BEGAN)
    assert float(status["cost"]["accrued"]) == pytest.approx(2.1)
    assert next(c["message"] for c in status["conditions"] if c["type"] == "Failed").endswith("failed with exit code 3")


@pytest.mark.parametrize("pods", [(), (pod(phase="Pending", containerStatuses=[]),)], ids=["gone", "never began"])
async def test_what_nobody_tells_is_not_made_up(pods: tuple[dict[str, Any], ...]) -> None:
    status = await final(Server(*pods), "Complete")
    assert status["state"] == "Succeeded"
    assert "startTime" not in status
    assert "accrued" not in status.get("cost", {})
