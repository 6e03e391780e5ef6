"""What a long queue costs the operator's loop: gaps between its turns, wake-ups, foreign pods, and /metrics; two trees in one run.

    PYTHONPATH=. python -m bench.queue_loop [JOBS] [OTHER_TREE]

Each figure is taken of this tree and, where the path of another checkout is given, of that one, by turns in processes of their
own; the best of the turns is printed with the ratio, since other programs only make figures larger. The API server is a stub
that accepts each status, so that nothing but the operator's own time is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

TURNS: Final = 2
HIGH: Final = 800
"""Waiting jobs of a higher priority, for which devices are held."""
FIGURES: Final = (
    ("gap", "longest gap between turns, first decision, ms"),
    ("gap_holds", f"the same, {HIGH} of the jobs have a higher priority, ms"),
    ("wake", "wake-up in which nothing is decided, ms"),
    ("foreign", "wake-up by a pod that takes nothing of a GPU node, ms"),
    ("gain", "wake-up by a pod without GPUs on a GPU node, ms"),
    ("walk", "decision about all of them, ms"),
    ("telling", "all explained once, ms of the loop a job"),
    ("rest", "10 s in which nothing changes, ms"),
    ("head", "from devices that become free to the first job's step, ms of the clock"),
    ("memory", "the process after all that, MiB"),
    ("metrics", "/metrics with as many jobs that ended yesterday, ms of the loop"),
)

Object = dict[str, Any]


def node(number: int) -> Object:
    """A node of 8 H100."""
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.count": "8",
        "nvidia.com/cuda.driver.major": "580", "nvidia.com/cuda.driver.minor": "65", "nvidia.com/cuda.driver.rev": "06",
        "kubernetes.io/arch": "amd64",
    }  # fmt: skip
    room = {"nvidia.com/gpu": "8", "cpu": "128", "memory": "1000Gi", "ephemeral-storage": "1000Gi", "pods": "110"}
    return {
        "metadata": {"name": f"n{number:03}", "uid": f"n{number:03}", "resourceVersion": "1", "labels": labels,
                     "creationTimestamp": "2025-12-01T00:00:00Z"},
        "spec": {}, "status": {"allocatable": room, "capacity": room,
                               "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def pod(name: str, on: str, version: int, gpus: int = 0) -> Object:
    """A running pod that is not of a GPUJob."""
    asks = {"cpu": "1"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {
        "metadata": {"name": name, "namespace": "other", "uid": name, "resourceVersion": str(version)},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": asks, "limits": asks}}]},
        "status": {"phase": "Running"},
    }


def job(number: int, high: bool, status: Object | None = None) -> Object:
    """A job of one of 80 demands."""
    spec: Object = {"gpuMemory": f"{20 + number % 40}Gi"}
    spec["gpusPerNode"] = 1 + number % 2
    if high:
        spec["priorityClassName"] = "high"
    return {
        "apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "spec": spec, "status": status or {},
        "metadata": {"name": f"j{number:05}", "namespace": f"team-{number % 20}", "uid": f"u{number:05}", "generation": 1,
                     "resourceVersion": "1", "creationTimestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"},
    }  # fmt: skip


class Loop:
    """A reconciler with a queue that has no room: 40 nodes of 8 GPUs, all held by other pods."""

    def __init__(self, jobs: list[Object]) -> None:
        from gpujob.catalog.files.load import load_catalog
        from gpujob.cluster.cache.object_cache import ObjectCache
        from gpujob.cluster.cache.watched_kinds import mirrored
        from gpujob.cluster.controller.controller import Reconciler
        from gpujob.cluster.index.cluster_index import ClusterIndex
        from gpujob.render.runner import Runner

        runner = Runner({"gpujob_runner/__init__.py": "x = 1"})
        self.raw = {each["metadata"]["uid"]: each for each in jobs}
        self.cache = ObjectCache(mirrored(runner.name))
        for kind in self.cache.kinds:
            self.cache.replace(kind, [], "1")
        self.cache.replace("nodes", [node(number) for number in range(40)], "1")
        self.cache.replace("pods", [pod(f"p{number}", f"n{number:03}", 1, 8) for number in range(40)], "1")
        high = {"metadata": {"name": "high", "uid": "high", "resourceVersion": "1"}, "value": 1000}
        self.cache.replace("priorityclasses", [high], "1")
        self.cache.replace("gpujobs", jobs, "1")
        self.version = 1
        self.index = ClusterIndex(self.cache, load_catalog())
        self.reconciler = Reconciler(self.index, self, lambda: True, runner)  # type: ignore[arg-type]
        self.work = self.reconciler.work

    async def write_status(self, found: Any, changes: Any, status: Any) -> bool:
        """The API server takes every status."""
        self.version += 1
        raw = self.raw[found.uid]
        raw["status"] = copy.deepcopy({**raw["status"], **status})
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.cache.note_written("gpujobs", raw)
        return True

    def daemon(self, number: int) -> None:
        """One more pod without GPUs on a GPU node: less is left there for others."""
        self.cache.apply("pods", "ADDED", pod(f"daemon{number}", "n001", 10**6 + number))

    async def until_rest(self) -> None:
        """Runs until every job has its status and no write is under way."""
        running = asyncio.create_task(self.reconciler.run())
        while True:
            await asyncio.sleep(0.5)
            if all(each["status"].get("state") for each in self.raw.values()) and not self.work.tasks:
                break
        await asyncio.sleep(3)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def told(self) -> float:
        """Milliseconds of the loop for each job from the first decision until every one has its explanation."""
        began = time.thread_time()
        await self.until_rest()
        return 1000 * (time.thread_time() - began) / len(self.raw)

    async def at_rest(self) -> tuple[float, float]:
        """Milliseconds of the loop for 10 s in which nothing changes, and those of the clock until freed devices are used."""
        placed = asyncio.get_running_loop().create_future()

        def place(found: Any, *_: object) -> Any:
            if not placed.done():
                placed.set_result(time.monotonic())
            return asyncio.sleep(0)

        self.reconciler._steps.place = place  # type: ignore[method-assign]
        running = asyncio.create_task(self.reconciler.run())
        await asyncio.sleep(10)
        before = time.thread_time()
        await asyncio.sleep(10)
        used, began = time.thread_time() - before, time.monotonic()
        self.cache.apply("pods", "DELETED", pod("p7", "n007", 10**7, 8))
        used_after = await placed - began
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return 1000 * used, 1000 * used_after

    async def wake_up(self, change: Callable[[], None]) -> float:
        """Milliseconds from a change until the loop waits again."""
        times = []
        for _ in range(20):
            change()
            # A decision waits for twice the time of the last one.
            self.reconciler._deciding._next_decision = 0.0
            began = time.thread_time()
            changes = self.cache.take_changes()
            self.work.dirty |= self.index.take(changes)
            await self.reconciler.round()
            self.reconciler.seconds_to_next()
            times.append(time.thread_time() - began)
        return 1000 * min(times)


async def longest_gap(loop: Loop) -> float:
    """The longest time of the processor, in milliseconds, for which a task that yields waits during the first decision."""
    gaps, ended = [0.0], asyncio.Event()

    async def other() -> None:
        last = time.thread_time()
        while not ended.is_set():
            await asyncio.sleep(0)
            now = time.thread_time()
            gaps.append(now - last)
            last = now

    loop.work.dirty |= loop.index.take(loop.cache.take_changes())
    task = asyncio.create_task(other())
    # It must have begun, or what comes before the first pause is not seen.
    await asyncio.sleep(0)
    await loop.reconciler.round()
    ended.set()
    await task
    await loop.reconciler._steps.end_tasks()
    return 1000 * max(gaps)


def prepare() -> None:
    """What the operator does before its loop runs; nothing in trees that have no such step."""
    with contextlib.suppress(ImportError):
        from gpujob.cluster.app import short_pauses

        short_pauses.prepare()


async def measure(count: int) -> Object:
    """All figures of the tree that this process runs from."""
    prepare()
    found: Object = {"gap": await longest_gap(Loop([job(number, False) for number in range(count)]))}
    found["gap_holds"] = await longest_gap(Loop([job(number, number < HIGH) for number in range(count)]))
    rest = Loop([job(number, False) for number in range(count)])
    found["telling"] = await rest.told()
    numbers = iter(range(10**6))
    found["wake"] = await rest.wake_up(lambda: None)
    found["foreign"] = await rest.wake_up(
        lambda: rest.cache.apply("pods", "ADDED", pod(f"web{(n := next(numbers))}", "cpu-node", 10 + n))
    )
    found["gain"] = await rest.wake_up(lambda: rest.daemon(next(numbers)))
    found["walk"] = await rest.wake_up(lambda: setattr(rest.work, "decided_at", ()))
    found["rest"], found["head"] = await rest.at_rest()
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found["metrics"] = scrape(count)
    return found


def scrape(count: int) -> float:
    """Milliseconds of the loop for one scrape."""
    from prometheus_client import CollectorRegistry, generate_latest

    from gpujob.cluster.app import app, metrics_snapshot
    from gpujob.cluster.metrics.collector import FleetCollector

    placement = {"pool": "h100", "vendor": "nvidia", "accelerator": "h100", "nodes": 1, "gpusPerNode": 2}
    status = {"state": "Succeeded", "placement": placement, "startTime": "2026-01-01T00:00:00Z",
              "completionTime": "2026-01-01T01:00:00Z", "cost": {"accrued": "1.5"}, "jobName": "j-1"}  # fmt: skip
    loop = Loop([job(number, False, copy.deepcopy(status)) for number in range(count)])
    loop.index.take(loop.cache.take_changes())
    operator = SimpleNamespace(
        crds=SimpleNamespace(counts=dict),
        reconciler=loop.reconciler, leadership=SimpleNamespace(is_leader=lambda: True), cache=loop.cache,
        health=SimpleNamespace(last_byte={}, relists=Counter(), malformed=Counter(), refused={}, age=lambda kind, now: 0.0),
        scraper=SimpleNamespace(results=Counter()),
    )  # fmt: skip
    client = SimpleNamespace(requests={})
    look: Any = lambda: metrics_snapshot.snapshot(operator, loop.index, client)  # type: ignore[arg-type]  # noqa: E731
    times = []
    for _ in range(3):
        registry = CollectorRegistry()
        registry.register(FleetCollector(look))
        began = time.thread_time()
        # Where the text is rendered aside, what the loop pays is the look alone.
        if hasattr(app, "registry_of"):
            look()
        else:
            generate_latest(registry)
        times.append(time.thread_time() - began)
    return 1000 * min(times)


def of_tree(tree: Path, count: int) -> Object:
    """The figures of one checkout, from a process of its own."""
    paths = f"{tree}/operator{os.pathsep}{tree}"
    command = [sys.executable, str(Path(__file__).resolve()), str(count), "--one"]
    run = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, check=True, text=True)
    found: Object = json.loads(run.stdout.splitlines()[-1])
    return found


def rows(trees: list[Path], count: int) -> Iterator[str]:
    """A line for each figure: of each tree the best of its turns, and the ratio to the first one."""
    taken: list[list[Object]] = [[] for _ in trees]
    for _ in range(TURNS):
        for of, tree in zip(taken, trees, strict=True):
            of.append(of_tree(tree, count))
    for key, name in FIGURES:
        best = [min(each[key] for each in of) for of in taken]
        ratio = f"  {best[1] / best[0]:8.1f} times" if len(best) > 1 else ""
        yield f"{name:75}" + "".join(f"{value:10.2f}" for value in best) + ratio


if __name__ == "__main__":
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    if "--one" in sys.argv:
        print(json.dumps(asyncio.run(measure(jobs))))
    else:
        here = Path(__file__).resolve().parents[1]
        for line in rows([here, *map(Path, sys.argv[2:3])], jobs):
            print(line)
