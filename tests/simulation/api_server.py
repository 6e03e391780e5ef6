"""The API server, the Job controller, the scheduler, the garbage collector and the kubelets as a dict in virtual time.

It keeps what the operator relies on: names are taken once, uid and resourceVersion are preconditions, a Job with a finalizer stays
and keeps its pods, pods of a deleted Job end after their grace period, a pod is bound once its node has its GPUs free. Times in
seconds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from gpujob.cluster.client.api_errors import AlreadyExists, Conflict, NotFound
from tests.simulation.virtual_time import VirtualLoop

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
TRACKING = "batch.kubernetes.io/job-tracking"
RETRY = 1.0
"""Between two looks of the scheduler at a pod without a node."""
BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
KINDS = {
    "batch/v1": "Job", "v1": "Service", "gpujob.dev/v1alpha1": "GPUJob",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Program:
    """What the pods of every attempt of a job do."""

    starts_after: float = 1.0
    runs_for: float = 60.0
    exit_code: int = 0
    grace: float = 5.0
    """Seconds that it saves after SIGTERM."""
    asked: int = 143
    """Its exit code after SIGTERM."""
    stays: float = 0.3
    """Seconds that a pod which a suspension has ended is still there, as Failed; without end where a finalizer keeps it."""
    bound: bool = True
    unbound: int = 0
    """Attempts from the first whose first pod the scheduler binds to no node."""
    evicted: int = 0
    """Attempts from the first whose last pod its node evicts, instead of their end."""
    drained: int = 0
    """Attempts from the first whose last pod an administrator evicts; it is gone before its Job has failed."""
    hangs: int = 0
    """Attempts from the first that never end by themselves."""
    image: str = ""
    """Why the registry does not give its image; empty where it does."""
    lacks_python: bool = False
    """Whether the preflight of the image cannot run."""


def gpus_of(pod_spec: Object) -> int:
    """The GPUs of one pod."""
    return sum(int(each.get("resources", {}).get("limits", {}).get(GPU, 0)) for each in pod_spec["containers"])


def has_ended(job: Object) -> bool:
    """Whether a Job is Complete or Failed."""
    return any(each["type"] != "Suspended" for each in job.get("status", {}).get("conditions", ()))


def owned(obj: Object) -> Object:
    """A copy whose metadata, spec and status may change; what is below them never changes in a stored object.

    A deep copy of every event and answer would take a quarter of the time of a run.
    """
    return {key: dict(value) if isinstance(value, dict) else value for key, value in obj.items()}


class ApiServer:
    """Objects by kind and key; `on_change` gets each event. Stored objects are replaced and never changed, so all share them."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop, self.version = loop, 100
        self.objects: defaultdict[str, dict[tuple[str, str], Object]] = defaultdict(dict)
        self.on_change: list[Callable[[str, str, Object], None]] = []
        self.program = Program()
        self.programs: dict[str, Program] = {}
        self.ran: list[list[Any]] = []
        """[uid of the GPUJob, name of the child, uid of the child, from, until] of each pod that ran."""
        self.finalizers: list[str] = []
        """What admission puts on each new Job."""
        self._uids = 0

    # Time

    def time(self) -> datetime:
        """Its clock."""
        return BEGAN + timedelta(seconds=self.loop.time())

    def stamp(self) -> str:
        """Its clock as objects say it."""
        return self.time().strftime("%Y-%m-%dT%H:%M:%SZ")

    def date(self) -> str:
        """The Date header of an answer."""
        return format_datetime(self.time(), usegmt=True)

    # Requests

    def get(self, path: str) -> Object:
        """An object."""
        plural, key, _ = parts(path)
        if key not in self.objects[plural]:
            raise NotFound(404, "NotFound", f"{plural} {key} not found", {"name": key[1]})
        return self.objects[plural][key]

    def create(self, path: str, body: Object) -> Object:
        """Creates an object."""
        plural, (namespace, _), _ = parts(path + "/x")
        obj = owned(body)
        metadata = obj["metadata"]
        key = (namespace, metadata["name"])
        if key in self.objects[plural]:
            raise AlreadyExists(409, "AlreadyExists", f"{plural} {key} already exists")
        self._uids += 1
        metadata |= {"uid": f"{plural}-{self._uids}", "creationTimestamp": self.stamp(), "generation": 1}
        if namespace:
            metadata["namespace"] = namespace
        if plural == "jobs":
            metadata["finalizers"] = list(self.finalizers)
        self.put(plural, "ADDED", obj)
        if plural == "jobs":
            self.loop.call_later(0.1, self._make_pods, obj["metadata"]["uid"])
        for owner in metadata.get("ownerReferences", []):
            # Garbage collection: what comes after its owner has gone goes too.
            if all(each["metadata"]["uid"] != owner["uid"] for each in self.objects["gpujobs"].values()):
                self.loop.call_later(0.5, self._collect, owner["uid"], False)
        return obj

    def patch(self, path: str, body: Object) -> Object:
        """A merge patch of a status or a whole object; an apply creates."""
        plural, key, part = parts(path)
        held = self.objects[plural].get(key)
        if held is None:
            if part == "status":
                raise NotFound(404, "NotFound", path, {"name": key[1]})
            return self.create(path.rpartition("/")[0], body)
        metadata = body.get("metadata") or {}
        for field in ("uid", "resourceVersion"):
            if metadata.get(field) not in (None, held["metadata"][field]):
                raise Conflict(409, "Conflict", "the object has been modified")
        obj = owned(held)
        if part == "status":
            obj["status"] = merged(obj.get("status") or {}, body.get("status") or {})
        else:
            obj |= {name: value for name, value in body.items() if name != "metadata"}
        self.put(plural, "MODIFIED", obj)
        return obj

    def delete(self, path: str, uid: str, propagation: str = "Background") -> Object:
        """Deletes an object; one with a finalizer stays, and its pods with it unless they are to go first."""
        plural, key, _ = parts(path)
        held = self.objects[plural].get(key)
        if held is None:
            raise NotFound(404, "NotFound", path, {"name": key[1]})
        if held["metadata"]["uid"] != uid:
            raise Conflict(409, "Conflict", "another uid")
        if propagation == "Foreground":
            self.loop.call_later(0.5, self._end_pods, uid)
        if held["metadata"].get("finalizers"):
            obj = owned(held)
            obj["metadata"].setdefault("deletionTimestamp", self.stamp())
            self.put(plural, "MODIFIED", obj)
            return obj
        self.drop(plural, key)
        if plural == "jobs":
            self.loop.call_later(0.5, self._end_pods, uid)
        if plural == "gpujobs":
            pods_first = propagation == "Foreground"
            self.loop.call_later(
                0.5, *((self._orphan, uid) if propagation == "Orphan" else (self._collect, uid, pods_first))
            )
        return {"kind": "Status"}

    # What happens by itself

    def put(self, plural: str, event: str, obj: Object) -> None:
        """Stores an object and reports the event."""
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[plural][obj["metadata"].get("namespace", ""), obj["metadata"]["name"]] = obj
        self._tell(plural, event, obj)

    def drop(self, plural: str, key: tuple[str, str]) -> None:
        """Removes an object and reports the event."""
        obj = owned(self.objects[plural].pop(key))
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self._tell(plural, "DELETED", obj)

    def change(self, plural: str, key: tuple[str, str], change: Callable[[Object], None]) -> None:
        """Changes an object that is there, as a controller does."""
        if key in self.objects[plural]:
            obj = owned(self.objects[plural][key])
            change(obj)
            self.put(plural, "MODIFIED", obj)

    def _tell(self, plural: str, event: str, obj: Object) -> None:
        for told in self.on_change:
            told(plural, event, obj)

    def _job(self, uid: str) -> Object | None:
        return next((job for job in self.objects["jobs"].values() if job["metadata"]["uid"] == uid), None)

    def suspend(self, key: tuple[str, str], seconds: float, *, says: bool) -> None:
        """Something suspends a Job for `seconds`. The Job controller takes its finalizer off the pods, deletes them, and makes others
        when they have ended. It never writes its condition Suspended where that meets the resumption. It does not count such pods,
        and yet applies its podFailurePolicy to them where they are still there when it looks."""
        if key not in self.objects["jobs"] or has_ended(self.objects["jobs"][key]):
            return
        uid = self.objects["jobs"][key]["metadata"]["uid"]
        self.change("jobs", key, lambda job: job["spec"].update(suspend=True))
        self.loop.call_later(0.1, self._end_pods, uid, True)
        if says:
            self.loop.call_later(0.2, self._says_suspended, key, "True")
            self.loop.call_later(seconds + 0.2, self._says_suspended, key, "False")
        self.loop.call_later(seconds, self.change, "jobs", key, lambda job: job["spec"].update(suspend=False))
        self.loop.call_later(seconds + 0.3, self._make_pods_again, uid)

    def _says_suspended(self, key: tuple[str, str], status: str) -> None:
        condition = {"type": "Suspended", "status": status, "lastTransitionTime": self.stamp()}
        self.change("jobs", key, lambda job: job.update(status={"conditions": [condition]}))

    def _make_pods_again(self, uid: str) -> None:
        pods = [pod for pod in self.objects["pods"].values() if pod["metadata"]["ownerReferences"][0]["uid"] == uid]
        if any(pod["status"]["phase"] in ("Pending", "Running") for pod in pods):
            self.loop.call_later(0.3, self._make_pods_again, uid)
        elif (job := self._job(uid)) is not None and not has_ended(job):
            self._make_pods(uid)

    def _make_pods(self, uid: str) -> None:
        job = self._job(uid)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return
        metadata, template = job["metadata"], job["spec"]["template"]
        owner = metadata["labels"]["gpujob.dev/job-uid"]
        program = self.programs.get(owner, self.program)
        affinity = template["spec"].get("affinity", {}).get("nodeAffinity", {})
        terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
        nodes = [value for term in terms for each in term.get("matchFields", []) for value in each["values"]]
        attempt = int(metadata["labels"].get("gpujob.dev/attempt", 1))
        for index in range(job["spec"].get("completions", 1)):
            bound = program.bound and not (index == 0 and attempt <= program.unbound)
            self._uids += 1
            name = f"{metadata['name']}-{index}-{self._uids}"
            pod = {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": name, "namespace": metadata["namespace"], "uid": f"pods-{self._uids}",
                    "labels": dict(template["metadata"]["labels"]), "creationTimestamp": self.stamp(),
                    "annotations": {"batch.kubernetes.io/job-completion-index": str(index)}, "finalizers": [TRACKING],
                    "ownerReferences": [{"kind": "Job", "name": metadata["name"], "uid": uid, "controller": True}],
                },
                "spec": dict(template["spec"]),
                "status": {"phase": "Pending"},
            }  # fmt: skip
            bound = bound and self._has_room(nodes[index], pod)
            if bound:
                pod["spec"]["nodeName"] = nodes[index]
            else:
                pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
            self.put("pods", "ADDED", pod)
            key = (metadata["namespace"], name)
            if bound:
                self.loop.call_later(program.starts_after, self._start, key, program, owner, uid)
            elif program.bound and not (index == 0 and attempt <= program.unbound):
                self.loop.call_later(RETRY, self._bind, key, nodes[index], program, owner, uid)

    def _bind(self, key: tuple[str, str], node: str, program: Program, owner: str, uid: str) -> None:
        """The scheduler tries a pod again that its node had no room for."""
        pod = self.objects["pods"].get(key)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        if not self._has_room(node, pod):
            self.loop.call_later(RETRY, self._bind, key, node, program, owner, uid)
            return
        self.change("pods", key, lambda pod: pod["spec"].update(nodeName=node))
        self.loop.call_later(program.starts_after, self._start, key, program, owner, uid)

    def _has_room(self, node: str, pod: Object) -> bool:
        """Whether the GPUs that a pod requests are free on a node; a pod that is ending still has its own."""
        there = self.objects["nodes"].get(("", node))
        if there is None:
            return False
        held = [
            gpus_of(each["spec"])
            for each in self.objects["pods"].values()
            if each["spec"].get("nodeName") == node and each["status"]["phase"] in ("Pending", "Running")
        ]
        free = int(there["status"]["allocatable"].get(GPU, 0)) - sum(held)
        return gpus_of(pod["spec"]) <= free

    def _start(self, key: tuple[str, str], program: Program, owner: str, child: str) -> None:
        pod = self.objects["pods"].get(key)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        if program.image:
            waiting = {"waiting": {"reason": "ImagePullBackOff", "message": program.image}}
            status = {"phase": "Pending", "containerStatuses": [{"name": "train", "state": waiting}]}
            self.change("pods", key, lambda pod: pod.update(status=status))
            return
        preflight = any(c["name"] == "gpujob-preflight" for c in pod["spec"].get("initContainers", []))
        if program.lacks_python and preflight:
            ended = {"terminated": {"exitCode": 127, "reason": "StartError", "message": "no such file: python3"}}
            status = {"phase": "Failed", "initContainerStatuses": [{"name": "gpujob-preflight", "state": ended}]}
            self.change("pods", key, lambda pod: pod.update(status=status))
            self.loop.call_later(0.2, self._end_job, child)
            return
        now = {"running": {"startedAt": self.stamp()}}
        status = {"phase": "Running", "containerStatuses": [{"name": "train", "state": now}]}
        self.change("pods", key, lambda pod: pod.update(status=status))
        self.ran.append([owner, pod["metadata"]["ownerReferences"][0]["name"], child, self.loop.time(), None, key])
        if program.runs_for and int(pod["metadata"]["labels"].get("gpujob.dev/attempt", 1)) > program.hangs:
            attempt = int(pod["metadata"]["labels"].get("gpujob.dev/attempt", 1))
            first = pod["metadata"]["name"].startswith(f"{pod['metadata']['ownerReferences'][0]['name']}-0-")
            if first and attempt <= max(program.evicted, program.drained):
                taken = self._evict if attempt <= program.evicted else self._drain
                self.loop.call_later(program.runs_for / 2, taken, key, child)
            else:
                self.loop.call_later(program.runs_for, self._stop, key, program.exit_code, child)

    def _started(self, key: tuple[str, str]) -> str:
        """When the program of a running pod began."""
        return str(self.objects["pods"][key]["status"]["containerStatuses"][0]["state"]["running"]["startedAt"])

    def _stop(self, key: tuple[str, str], exit_code: int, child: str) -> None:
        if key not in self.objects["pods"] or "deletionTimestamp" in self.objects["pods"][key]["metadata"]:
            return
        ended = {"terminated": {"exitCode": exit_code, "startedAt": self._started(key)}}
        phase = "Failed" if exit_code else "Succeeded"
        status = {"phase": phase, "containerStatuses": [{"name": "train", "state": ended}]}
        self.change("pods", key, lambda pod: pod.update(status=status))
        self._note_end(key)
        self.loop.call_later(0.2, self._end_job, child)

    def _evict(self, key: tuple[str, str], child: str) -> None:
        """The kubelet ends a pod since its node runs out of memory; the Job controller then ends the Job and its other pods."""
        if key not in self.objects["pods"] or "deletionTimestamp" in self.objects["pods"][key]["metadata"]:
            return
        why = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
            "message": "low on memory",
        }
        ended = {"terminated": {"exitCode": 137, "reason": "Error", "startedAt": self._started(key)}}
        status = {
            "phase": "Failed", "reason": "Evicted", "conditions": [why],
            "containerStatuses": [{"name": "train", "state": ended}],
        }  # fmt: skip
        self.change("pods", key, lambda pod: pod.update(status=status))
        self._note_end(key)
        self.loop.call_later(0.2, self._end_job, child)
        self.loop.call_later(0.3, self._end_live_pods, child)

    def _drain(self, key: tuple[str, str], child: str) -> None:
        """`kubectl drain` evicts a pod, whose program ends on SIGTERM. The Job controller takes its finalizer off, so that the pod
        goes, then writes the Job's end, as its podFailurePolicy says it, and ends the other pods."""
        if key not in self.objects["pods"] or "deletionTimestamp" in self.objects["pods"][key]["metadata"]:
            return
        why = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API",
        }
        began, stamp = self._started(key), self.stamp()

        def asked(pod: Object) -> None:
            pod["status"]["conditions"] = [why]
            pod["metadata"] |= {"deletionTimestamp": stamp, "deletionGracePeriodSeconds": 0}

        def ended(pod: Object) -> None:
            state = {"terminated": {"exitCode": 143, "reason": "Error", "startedAt": began, "finishedAt": self.stamp()}}
            pod["status"] |= {"phase": "Failed", "containerStatuses": [{"name": "train", "state": state}]}

        said = f"Pod {key[0]}/{key[1]} has condition DisruptionTarget matching FailJob rule at index 0"
        self.change("pods", key, asked)
        self.loop.call_later(0.5, lambda: self.change("pods", key, ended))
        self.loop.call_later(0.51, self._gone, key)
        self.loop.call_later(0.7, self._fail_job, child, "PodFailurePolicy", said)
        self.loop.call_later(0.8, self._end_live_pods, child)

    def _fail_job(self, uid: str, reason: str, message: str) -> None:
        job = self._job(uid)
        if job is None or has_ended(job):
            return
        end = {"type": "Failed", "status": "True", "reason": reason, "message": message}
        end["lastTransitionTime"] = self.stamp()
        key = (job["metadata"]["namespace"], job["metadata"]["name"])
        held = job.get("status", {}).get("conditions", ())
        self.change("jobs", key, lambda job: job.update(status={"conditions": [*held, end]}))

    def _end_live_pods(self, uid: str) -> None:
        for key, pod in list(self.objects["pods"].items()):
            if pod["metadata"]["ownerReferences"][0]["uid"] == uid and pod["status"]["phase"] in ("Pending", "Running"):
                self.loop.call_later(self.program.grace, self._gone, key)

    def _end_job(self, uid: str) -> None:
        job = self._job(uid)
        pods = [pod for pod in self.objects["pods"].values() if pod["metadata"]["ownerReferences"][0]["uid"] == uid]
        phases = [pod["status"]["phase"] for pod in pods if pod["metadata"].get("finalizers")]
        if job is None or has_ended(job) or not ("Failed" in phases or set(phases) == {"Succeeded"}):
            return
        end = {"type": "Failed" if "Failed" in phases else "Complete", "status": "True", "reason": "End"}
        end["lastTransitionTime"] = self.stamp()
        key = (job["metadata"]["namespace"], job["metadata"]["name"])
        self.change("jobs", key, lambda job: job.update(status={"conditions": [end]}))

    def _end_pods(self, uid: str, uncounted: bool = False) -> None:
        """SIGTERM for the pods of a Job; they end after their grace period. `uncounted`: they lose the Job's finalizer first."""
        for key, pod in list(self.objects["pods"].items()):
            if pod["metadata"]["ownerReferences"][0]["uid"] != uid or "deletionTimestamp" in pod["metadata"]:
                continue
            if uncounted:
                self.change("pods", key, lambda pod: pod["metadata"].pop("finalizers"))
            stamp = self.stamp()
            self.change("pods", key, lambda pod, stamp=stamp: pod["metadata"].update(deletionTimestamp=stamp))
            program = self.programs.get(pod["metadata"]["labels"].get("gpujob.dev/job-uid"), self.program)
            runs = pod["status"]["phase"] == "Running"
            if uncounted and runs:
                self.loop.call_later(program.grace, self._end_uncounted, key, uid, program)
            else:
                self.loop.call_later(program.grace if runs else 0.0, self._gone, key)

    def _end_uncounted(self, key: tuple[str, str], child: str, program: Program) -> None:
        """The program of a pod that a suspension ends has ended; the pod is there for a while longer."""
        if key not in self.objects["pods"]:
            return
        state = {"exitCode": program.asked, "startedAt": self._started(key), "finishedAt": self.stamp()}
        status = {"phase": "Failed", "containerStatuses": [{"name": "train", "state": {"terminated": state}}]}
        self.change("pods", key, lambda pod: pod.update(status=status))
        self._note_end(key)
        self.loop.call_later(0.2, self._apply_rules, child)
        if program.stays < math.inf:
            self.loop.call_later(program.stays, self._gone, key)

    def _apply_rules(self, uid: str) -> None:
        """The Job controller applies the podFailurePolicy of a Job to all its pods, counted or not (`getFailJobMessage`)."""
        job = self._job(uid)
        if job is None or has_ended(job):
            return
        for (namespace, name), pod in self.objects["pods"].items():
            if pod["metadata"]["ownerReferences"][0]["uid"] != uid or pod["status"]["phase"] != "Failed":
                continue
            code = pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
            for index, rule in enumerate(job["spec"]["podFailurePolicy"]["rules"]):
                exits = rule.get("onExitCodes", {})
                if exits.get("containerName") == "train" and code not in exits["values"]:
                    said = f"Container train for pod {namespace}/{name} failed with exit code {code}"
                    self._fail_job(uid, "PodFailurePolicy", f"{said} matching FailJob rule at index {index}")
                    self.loop.call_later(0.1, self._end_live_pods, uid)
                    return

    def _gone(self, key: tuple[str, str]) -> None:
        self._note_end(key)
        if key in self.objects["pods"]:
            self.drop("pods", key)

    def _note_end(self, key: tuple[str, str]) -> None:
        for each in self.ran:
            if each[5] == key and each[4] is None:
                each[4] = self.loop.time()

    def _orphan(self, uid: str) -> None:
        """What a GPUJob that is gone owned has no owner any more and stays."""
        for plural in ("jobs", "services"):
            for key, obj in list(self.objects[plural].items()):
                if any(owner["uid"] == uid for owner in obj["metadata"].get("ownerReferences", [])):
                    self.change(plural, key, lambda obj: obj["metadata"].pop("ownerReferences"))

    def _collect(self, uid: str, pods_first: bool) -> None:
        """What a GPUJob that is gone owned; a child with a finalizer stays, and its pods with it unless they are to go first."""
        for plural in ("jobs", "services"):
            for key, obj in list(self.objects[plural].items()):
                if not any(owner["uid"] == uid for owner in obj["metadata"].get("ownerReferences", [])):
                    continue
                if kept := bool(obj["metadata"].get("finalizers")):
                    stamp = self.stamp()
                    self.change(
                        plural, key, lambda obj, stamp=stamp: obj["metadata"].setdefault("deletionTimestamp", stamp)
                    )
                else:
                    self.drop(plural, key)
                if pods_first or not kept:
                    self.loop.call_later(0.1, self._end_pods, obj["metadata"]["uid"])


def parts(path: str) -> tuple[str, tuple[str, str], str]:
    """Plural, key and subresource of a path with a name."""
    rest = path.split("?")[0].strip("/").split("/")
    rest = rest[2:] if rest[0] == "api" else rest[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return rest[0], (namespace, rest[1]), rest[2] if len(rest) > 2 else ""


def merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> Object:
    """RFC 7396."""
    found = dict(target)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            held = found.get(key)
            found[key] = merged(held if isinstance(held, dict) else {}, value)
        else:
            found[key] = value
    return found
