"""The operator as it is installed, over TLS, against a stub that answers as an API server: for benches without a control plane.

The stub has managed fields, a Job controller, a scheduler and kubelets, so that each job is seen as often as on a real one. It
listens in a process of its own: `python -m bench.api_stub FOLDER`, the folder with ca.crt and server.key.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson
from aiohttp import web

from tests.e2e.cluster.nodes import simulated_nodes
from tests.simulation.api_server import merged, owned, parts
from tests.unit.api.test_served_crds import document

Object = dict[str, Any]
ROOT: Final = Path(__file__).resolve().parents[1]
FLEET: Final = {"h100": 70, "mi300x": 70, "l4": 60}
RATE: Final = 25.0
"""Jobs a second, about what a control plane on two cores binds."""
STEP: Final = 0.05
"""Seconds between two changes of a child or of its pod."""
SETTLED: Final = 3.0
"""Seconds after the last job runs that count too."""
KINDS: Final = {"gpujobs": "GPUJob", "gpupools": "GPUPool", "jobs": "Job", "pods": "Pod", "nodes": "Node"}
GPU: Final = ("nvidia.com/gpu", "amd.com/gpu")


def fields_of(value: Any) -> Object:
    """The managed fields of a value, as the API server names them."""
    found: Object = {}
    if isinstance(value, dict):
        found = {f"f:{key}": fields_of(each) for key, each in value.items() if key != "managedFields"}
    elif isinstance(value, list) and all(isinstance(each, dict) and "name" in each for each in value):
        found = {f'k:{{"name":"{each["name"]}"}}': {".": {}, **fields_of(each)} for each in value}
    return found


class Stub:
    """Objects by kind and key, and their watches; what happens to a child by itself is in `follow`."""

    def __init__(self) -> None:
        self.objects: defaultdict[str, dict[tuple[str, str], Object]] = defaultdict(dict)
        self.watches: defaultdict[str, list[asyncio.Queue[bytes]]] = defaultdict(list)
        self.version, self.requests, self.states = 100, Counter[str](), dict[str, str]()
        self._numbers, self._tasks = itertools.count(1), set[asyncio.Task[None]]()
        for node in simulated_nodes(FLEET):
            node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            self.create("nodes", "", node)

    def put(self, plural: str, event: str, obj: Object) -> Object:
        """Stores an object and reports it to its watches."""
        self.version += 1
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self.version)
        self.objects[plural][metadata.get("namespace", ""), metadata["name"]] = obj
        line = orjson.dumps({"type": event, "object": obj}) + b"\n"
        for watch in self.watches[plural]:
            watch.put_nowait(line)
        return obj

    def create(self, plural: str, namespace: str, body: Object) -> Object:
        """Creates an object with what the API server adds."""
        obj = owned(body)
        number = next(self._numbers)
        fields = {
            "manager": "gpujob-operator",
            "operation": "Update",
            "fieldsType": "FieldsV1",
            "fieldsV1": fields_of(body),
        }
        obj["metadata"] |= {
            "uid": f"00000000-0000-0000-0000-{number:012}", "creationTimestamp": stamp(), "generation": 1,
            "managedFields": [{**fields, "time": stamp()}], **({"namespace": namespace} if namespace else {}),
        }  # fmt: skip
        obj = self.put(plural, "ADDED", obj)
        if plural == "jobs":
            task = asyncio.create_task(self.follow(obj))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return obj

    def change(self, plural: str, key: tuple[str, str], **changes: Any) -> None:
        """Merges changes into an object."""
        obj = merged(self.objects[plural][key], changes)
        obj["metadata"] = dict(obj["metadata"])
        self.put(plural, "MODIFIED", obj)

    async def follow(self, job: Object) -> None:
        """What the Job controller, the scheduler and a kubelet do with a child Job and its pod."""
        metadata, template = job["metadata"], job["spec"]["template"]
        key = metadata["namespace"], metadata["name"]
        await asyncio.sleep(STEP)
        pod = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": f"{metadata['name']}-0-abcde", "labels": dict(template["metadata"]["labels"]),
                "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
                "finalizers": ["batch.kubernetes.io/job-tracking"],
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
                ],
            },
            "spec": dict(template["spec"]), "status": {"phase": "Pending", "qosClass": "Burstable"},
        }  # fmt: skip
        name = self.create("pods", metadata["namespace"], pod)["metadata"]["name"]
        at = metadata["namespace"], name
        began, active = (
            {"startTime": stamp(), "uncountedTerminatedPods": {}},
            {"active": 1, "ready": 0, "terminating": 0},
        )
        self.change("jobs", key, status=began | active)
        await asyncio.sleep(STEP)
        affinity = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        node = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp()}
        self.change("pods", at, spec={"nodeName": node}, status={"conditions": [scheduled]})
        await asyncio.sleep(STEP)
        good = [{"type": each, "status": "True", "lastTransitionTime": stamp()} for each in ("Initialized", "Ready")]
        states = [
            {"name": each["name"], "image": each["image"], "ready": True, "restartCount": 0, "started": True,
             "state": {"running": {"startedAt": stamp()}}}
            for each in template["spec"]["containers"]
        ]  # fmt: skip
        status = {"phase": "Running", "podIP": "10.1.2.3", "hostIP": "10.1.2.4", "startTime": stamp()}
        self.change("pods", at, status={**status, "conditions": [scheduled, *good], "containerStatuses": states})
        await asyncio.sleep(STEP)
        self.change("jobs", key, status={"ready": 1})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Any request of the operator."""
        path = request.path
        if path == "/run":
            return await self.run(int(request.query["jobs"]))
        if path == "/wait":
            return await self.wait(int(request.query["jobs"]))
        if path == "/place":
            return web.json_response([await self.place() for _ in range(int(request.query["jobs"]))])
        if path.startswith("/openapi"):
            return web.json_response(document())
        if path in ("/api", "/apis"):
            return web.json_response({"kind": "APIGroupList", "versions": ["v1"], "groups": []})
        if request.query.get("watch"):
            return await self.watch(request)
        if request.method == "GET":
            return self.read(path)
        body = orjson.loads(await request.read())
        self.requests[f"{request.method} {parts(path + '/x')[0]}"] += 1
        if request.method == "POST":
            plural, (namespace, _), _ = parts(path + "/x")
            return reply(self.create(plural, namespace, body), 201)
        plural, key, part = parts(path)
        if key not in self.objects[plural]:
            return reply(self.create(plural, key[0], merged(body, {"metadata": {"name": key[1]}})), 201)
        obj = merged(self.objects[plural][key], {part: body[part]} if part else body)
        obj["metadata"] = dict(obj["metadata"])
        if plural == "gpujobs":
            self.states[key[1]] = obj["status"].get("state", "")
        return reply(self.put(plural, "MODIFIED", obj))

    def read(self, path: str) -> web.Response:
        """A list, or an object."""
        rest = path.strip("/").split("/")
        rest = rest[2:] if rest[0] == "api" else rest[3:]
        if not rest:
            return reply({"kind": "Status", "code": 404, "reason": "NotFound"}, 404)
        if len(rest) % 2 == 0:
            plural, key, _ = parts(path)
            found = self.objects[plural].get(key)
            return reply(found) if found else reply({"kind": "Status", "code": 404, "reason": "NotFound"}, 404)
        plural = rest[-1]
        items = list(self.objects[plural].values())
        kind = f"{KINDS.get(plural, plural.title())}List"
        return reply(
            {
                "kind": kind,
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(self.version)},
                "items": items,
                "resources": [],
            }
        )

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """The events of a kind from now on."""
        response = web.StreamResponse()
        await response.prepare(request)
        queue, watches = asyncio.Queue[bytes](), self.watches[request.path.rsplit("/", 1)[-1]]
        watches.append(queue)
        with suppress(ConnectionError):
            while True:
                await response.write(await queue.get())
        watches.remove(queue)
        return response

    async def run(self, jobs: int) -> web.Response:
        """Submits jobs and waits until all run; the seconds that took, and what was written for each."""
        before, began = Counter(self.requests), time.monotonic()
        self.states.clear()
        for number in range(jobs):
            self.submit(command=["python", "-c", "pass"], preflight="Disabled")
            await asyncio.sleep(max(0.0, began + (number + 1) / RATE - time.monotonic()))
        while Counter(self.states.values())["Running"] < jobs:
            await asyncio.sleep(0.05)
        taken = time.monotonic() - began
        await asyncio.sleep(SETTLED)
        made = {what: count / jobs for what, count in (self.requests - before).items()}
        return web.json_response({"seconds": taken, "writes": made})

    async def wait(self, jobs: int) -> web.Response:
        """Submits jobs of 80 demands for GPUs that other pods hold, and waits until each has its status. The L4 nodes stay free."""
        began = time.monotonic()
        self.states.clear()
        for _, node in [key for key in self.objects["nodes"] if not key[1].startswith("l4")]:
            limits = dict.fromkeys(GPU, "8")
            spec = {
                "nodeName": node,
                "containers": [{"name": "c", "resources": {"limits": limits, "requests": limits}}],
            }
            other = {"metadata": {"name": f"other-{node}"}, "spec": spec, "status": {"phase": "Running"}}
            self.create("pods", "other", {"apiVersion": "v1", "kind": "Pod", **other})
        await asyncio.sleep(1)
        for number in range(jobs):
            command = ["python", "train.py", "--seed", str(number)]
            demand = {"nodes": 2 + number % 40, "gpuMemory": f"{40 + number // 40 % 2}Gi"}
            self.submit(command=command, gpusPerNode=8, placement={"accelerators": {"allow": ["H100"]}}, **demand)
            await asyncio.sleep(0)
        while Counter(self.states.values())["Queued"] < jobs:
            await asyncio.sleep(0.5)
        return web.json_response({"seconds": time.monotonic() - began})

    async def place(self) -> float:
        """Seconds from the submission of a job of one L4 until its Job is there, after a second in which nothing is submitted."""
        await asyncio.sleep(1)
        name, began = self.submit(gpusPerNode=1, placement={"accelerators": {"allow": ["L4"]}}), time.monotonic()
        while not any(child.startswith(f"{name}-") for _, child in self.objects["jobs"]):
            await asyncio.sleep(0.005)
        return time.monotonic() - began

    def submit(self, **spec: Any) -> str:
        """A user creates a GPUJob; its name."""
        name = f"job-{next(self._numbers)}"
        body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": name}, "spec": spec}
        self.create("gpujobs", "team", body)
        return name


def stamp() -> str:
    """The time as objects say it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def reply(obj: Object, status: int = 200) -> web.Response:
    """An answer with a JSON object."""
    return web.Response(body=orjson.dumps(obj), status=status, content_type="application/json")


async def serve(folder: Path) -> None:
    """Runs the stub; prints its port."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "ca.crt", folder / "server.key")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", Stub().answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def kubeconfig(port: int, folder: Path) -> Object:
    """How the operator reaches the stub."""
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(folder / "ca.crt")}
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": cluster}], "users": [{"name": "bench", "user": {"token": "bench"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }  # fmt: skip


@contextmanager
def operator_on_stub(
    tree: Path, folder: Path, name: str, profile: str = ""
) -> Iterator[tuple[int, Callable[[str], Object]]]:
    """The pid of the operator of a checkout, and what asks its stub for work; `profile`: where a cProfile of it is written."""
    trusted = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    here = os.environ | {"PYTHONPATH": f"{ROOT / 'operator'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "bench.api_stub", str(folder)]
    with subprocess.Popen(command, env=here, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        config = folder / f"{name}.kubeconfig"
        config.write_text(json.dumps(kubeconfig(port, folder)))
        environment = os.environ | {
            "KUBECONFIG": str(config), "GPUJOB_METRICS_PORT": "0", "GPUJOB_HEALTH_PORT": "0", "GPUJOB_POD_NAME": "bench",
            "GPUJOB_SCRAPE_SECONDS": "60", "GPUJOB_LOG_FORMAT": "json", "PYTHONPATH": f"{tree / 'operator'}{os.pathsep}{tree}",
        }  # fmt: skip
        command = [sys.executable, *(["-m", "cProfile", "-o", profile] if profile else []), "-m", "gpujob.cluster"]

        def ask(path: str) -> Object:
            found: Object = json.load(
                urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", context=trusted, timeout=560)
            )
            return found

        with (
            (folder / f"{name}.log").open("w") as log,
            subprocess.Popen(command, env=environment, cwd=tree, stderr=log) as operator,
        ):
            try:
                yield operator.pid, ask
            finally:
                operator.terminate()
                operator.wait(30)
                server.terminate()


@contextmanager
def certificate() -> Iterator[Path]:
    """A folder with the stub's certificate and its key."""
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=api", "-days", "2",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "server.key", "-out", "ca.crt"],
            cwd=made, check=True, capture_output=True,
        )  # fmt: skip
        yield Path(made)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
