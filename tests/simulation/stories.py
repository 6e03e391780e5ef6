"""Lives of jobs, each with a time that a seed moves: between any two writes of the operator something may happen."""

from __future__ import annotations

import math

from gpujob.lifecycle.timings import Timings
from gpujob.values.names import child_name
from tests.simulation.api_server import Object, Program
from tests.simulation.world import TEAM, Story, World


def stories(shift: float) -> list[Story]:
    """Every story, with what users do `shift` seconds later."""
    s = shift

    def suspend(world: World) -> None:
        world.edit("j", suspend=True)

    def resume(world: World) -> None:
        world.edit("j", suspend=None)

    def device_breaks(world: World) -> None:
        """The nodes of the job's pods report a fault."""

        def breaks(node: Object) -> None:
            fault = {
                "type": "XIDErrors",
                "status": "True",
                "reason": "XID79",
                "lastTransitionTime": world.server.stamp(),
            }
            node["status"]["conditions"] = [*node["status"].get("conditions", []), fault]

        for pod in world.server.objects["pods"].values():
            world.server.change("nodes", ("", pod["spec"]["nodeName"]), breaks)

    def others_suspend(world: World, seconds: float, says: bool) -> None:
        for key in list(world.server.objects["jobs"]):
            world.server.suspend(key, seconds, says=says)

    def raise_budget(world: World) -> None:
        world.edit("j", placement={"budget": "900"})

    def child_deleted(world: World) -> None:
        for (namespace, name), job in list(world.server.objects["jobs"].items()):
            path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
            world.server.delete(path, job["metadata"]["uid"])

    def stop(world: World) -> None:
        world.processes[-1].kill()

    def begin(world: World) -> None:
        world.start()

    def pods_fail(world: World) -> None:
        for key in list(world.server.objects["pods"]):
            world.server.change("pods", key, lambda pod: pod["status"].update(phase="Failed", reason="NodeLost"))

    def free_the_names(world: World) -> None:
        world.server.finalizers = []
        for key, job in list(world.server.objects["jobs"].items()):
            if "deletionTimestamp" in job["metadata"]:
                world.server.drop("jobs", key)

    submit = (1.0, lambda world: world.submit("j", gpusPerNode=8))
    gang = (1.0, lambda world: world.submit("j", nodes=2, gpusPerNode=8))
    return [
        Story("one pod", (submit,)),
        Story("a gang", ((1.0, lambda world: world.submit("j", nodes=2, gpusPerNode=8)),)),
        Story("it fails", (submit,), Program(exit_code=3)),
        Story("evicted once", (submit,), Program(evicted=1)),
        Story(
            "a gang is evicted twice",
            ((1.0, lambda world: world.submit("j", nodes=2, gpusPerNode=8)),),
            Program(evicted=2),
        ),
        Story("a gang is drained", (gang,), Program(drained=1), nodes=3),
        Story(
            "a rank hangs after a long phase",
            (
                (1.0, lambda world: world.submit("j", nodes=2, gpusPerNode=8, stall={"action": "Restart"})),
                # The clock stands until 300; then the phase is over its bound, and nothing follows.
                *(
                    (float(second), lambda world, second=second: world.reads(0.0 if second < 300 else float(second)))
                    for second in range(20, 900, 15)
                ),
            ),
            Program(hangs=1),
            nodes=3,
        ),
        Story(
            "evicted more often than it may",
            ((1.0, lambda world: world.submit("j", gpusPerNode=8, retries={"infrastructure": 2})),),
            Program(evicted=9),
        ),
        Story(
            "it fails and is tried again",
            ((1.0, lambda world: world.submit("j", gpusPerNode=8, retries={"user": 2})),),
            Program(exit_code=3),
        ),
        Story(
            "evicted and suspended",
            (submit, (50.0 + s, suspend), (80.0 + s, resume)),
            Program(evicted=1),
            timings=Timings(retry_first=60.0),
        ),
        Story("a device breaks", (submit, (50.0 + s, device_breaks)), Program(runs_for=400.0), nodes=3),
        Story("there is no such image", (submit,), Program(image="failed to resolve reference: not found")),
        Story(
            "the registry is away",
            ((1.0, lambda world: world.submit("j", gpusPerNode=8, retries={"infrastructure": 1})),),
            Program(image="i/o timeout"),
        ),
        Story(
            "its budget is spent and raised",
            (
                (1.0, lambda world: world.submit("j", gpusPerNode=8, placement={"budget": "0.20"})),
                (300.0 + s, raise_budget),
            ),
            Program(runs_for=120.0),
        ),
        Story(
            "its deadline in the second attempt",
            ((1.0, lambda world: world.submit("j", gpusPerNode=8, activeDeadlineSeconds=150)),),
            Program(evicted=1, runs_for=240.0),
        ),
        Story(
            "deleted after its ttl",
            ((1.0, lambda world: world.submit("j", gpusPerNode=8, ttlSecondsAfterFinished=20)),),
        ),
        Story("suspended and resumed", (submit, (3.0 + s, suspend), (30.0 + s, resume))),
        Story("suspended and resumed at once", (submit, (3.0 + s, suspend), (3.5 + s, resume)), Program(grace=12.0)),
        Story("suspended twice", (submit, (1.0 + s, suspend), (9.0, resume), (12.0 + s, suspend), (40.0, resume))),
        Story(
            "something else suspends its child Job",
            (gang, (20.0 + s, lambda world: others_suspend(world, 8.0, says=True))),
            Program(grace=12.0),
        ),
        Story(
            "something else suspends its child Job for a moment",
            (gang, (20.0 + s, lambda world: others_suspend(world, 0.2, says=False))),
            Program(grace=12.0),
        ),
        Story(
            "something else suspends its child Job, whose pods stay for a while after their end",
            (gang, (20.0 + s, lambda world: others_suspend(world, 8.0, says=False))),
            Program(grace=6.0, stays=30.0),
        ),
        Story(
            "something else suspends its child Job, which Kubernetes fails by a pod of before",
            (
                (1.0, lambda world: world.submit("j", nodes=2, gpusPerNode=8, retries={"infrastructure": 0})),
                (20.0 + s, lambda world: others_suspend(world, 8.0, says=True)),
            ),
            Program(grace=12.0, asked=1, stays=math.inf),
        ),
        Story("deleted", (submit, (2.0 + s, lambda world: world.remove("j")))),
        Story("deleted in the foreground", (submit, (2.0 + s, lambda world: world.remove("j", "Foreground")))),
        Story("deleted with orphans", (gang, (2.0 + s, lambda world: world.remove("j", "Orphan")))),
        Story(
            "deleted while the operator is off",
            (submit, (8.0, stop), (9.0 + s, lambda world: world.remove("j")), (90.0, begin)),
        ),
        Story(
            "deleted with orphans while the operator is off",
            (gang, (8.0, stop), (9.0 + s, lambda world: world.remove("j", "Orphan")), (90.0, begin)),
        ),
        Story(
            "created again under its name",
            (
                submit,
                (20.0 + s, lambda world: world.remove("j")),
                (20.2 + s, lambda world: world.submit("j", gpusPerNode=8)),
            ),
            Program(grace=12.0),
        ),
        Story("its child is collected after its end", (submit, (200.0 + s, child_deleted))),
        Story("a pod changes after its end", (submit, (200.0 + s, pods_fail))),
        Story("pods are never bound", (submit,), Program(bound=False), nodes=1, timings=Timings(rest_factor=1000)),
        Story("no Python in the image", (submit,), Program(lacks_python=True)),
        Story(
            "one waits for another",
            (submit, (1.0 + s, lambda world: world.submit("k", gpusPerNode=8))),
            nodes=1,
        ),
        Story("impossible", ((1.0, lambda world: world.submit("j", gpuMemory="9T")),)),
        Story(
            "a finalizer keeps the child",
            (submit, (4.0 + s, suspend), (20.0 + s, resume), (400.0, free_the_names)),
            finalizers=("team/mine",),
        ),
    ] + ([Story("the child is deleted", (submit, (20.0 + s, child_deleted)), Program(runs_for=200.0))] if s < 8 else [])


def late_create(world: World, attempt: int, like: Object) -> None:
    """A create of an earlier attempt arrives now, as the operator of then sent it."""
    job = world.server.objects["gpujobs"][TEAM, "j"]
    body = {key: like[key] for key in ("apiVersion", "kind", "spec")}
    name = child_name("j", job["metadata"]["uid"], attempt)
    metadata = {
        key: like["metadata"][key] for key in ("labels", "annotations", "ownerReferences") if key in like["metadata"]
    }
    world.server.create(f"/apis/batch/v1/namespaces/{TEAM}/jobs", body | {"metadata": {"name": name, **metadata}})
