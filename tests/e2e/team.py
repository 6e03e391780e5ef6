"""A namespace of GPUJobs as its users see it: submit, look, wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.api_server import EVENTS, GPUJOBS, JOBS, NAMESPACES, PODS, SERVICES, ApiServer, Object
from tests.e2e.cluster import eventually

ANNOTATIONS = "demo.gpujob.dev"


class Team:
    """One namespace; times in seconds."""

    def __init__(self, api: ApiServer, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.path = GPUJOBS.format(namespace)
        self.waits_for_the_end = True

    # Submitting

    def submit(
        self,
        name: str,
        *,
        runs_for: str = "",
        starts_after: str = "",
        exit_code: int = 0,
        asked_exit_code: int = 143,
        found: tuple[int, str] = (0, ""),
        **spec: Any,
    ) -> str:
        """Creates a GPUJob whose pods run as given (without end, if `runs_for` is absent); returns its uid.

        `asked_exit_code`: with which one its program ends when a pod is deleted while it runs, not 0.

        `found`: the exit code and the message of its preflight, without it, it finds nothing wrong.
        """
        told = {"runs-for": runs_for, "starts-after": starts_after, "exit-code": str(exit_code or "")}
        told |= {"asked-exit-code": str(asked_exit_code) if asked_exit_code != 143 else ""}
        told |= {"preflight-exit-code": str(found[0] or ""), "preflight": found[1]}
        annotations = {f"{ANNOTATIONS}/{key}": value for key, value in told.items() if value}
        if annotations:
            spec["podMetadata"] = {"annotations": annotations}
        spec.setdefault("command", ["python", "-c", "pass"])
        body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": name}, "spec": spec}
        uid: str = self.api.create(self.path, body)["metadata"]["uid"]
        return uid

    def change(self, name: str, **spec: Any) -> None:
        """Patches a job's spec."""
        self.api.patch(self.path, name, {"spec": spec})

    def delete(self, name: str) -> None:
        """Deletes a job as kubectl does."""
        self.api.delete(self.path, name)

    # Looking

    def job(self, name: str) -> Object:
        """The GPUJob."""
        return self.api.get(self.path, name)

    def status(self, name: str) -> Object:
        """Its status, empty before the first."""
        status: Object = self.job(name).get("status", {})
        return status

    def state(self, name: str) -> str:
        """Its state, empty before the first status."""
        return str(self.status(name).get("state", ""))

    def condition(self, name: str, kind: str) -> Object:
        """One of its conditions, empty when it has none of the kind."""
        found: list[Object] = [each for each in self.status(name).get("conditions", []) if each["type"] == kind]
        return found[0] if found else {}

    def pods(self, uid: str = "") -> list[Object]:
        """All pods, or those of one job."""
        return self.api.items(PODS.format(self.namespace), f"gpujob.dev/job-uid={uid}" if uid else "")

    def jobs(self, uid: str = "") -> list[Object]:
        """All child Jobs, or those of one job."""
        return self.api.items(JOBS.format(self.namespace), f"gpujob.dev/job-uid={uid}" if uid else "")

    def services(self, uid: str = "") -> list[Object]:
        """All Services, or those of one job."""
        return self.api.items(SERVICES.format(self.namespace), f"gpujob.dev/job-uid={uid}" if uid else "")

    def told(self, name: str) -> list[str]:
        """The reasons of a job's events, in the order of their times."""
        events = [
            event
            for event in self.api.items(EVENTS.format(self.namespace))
            if event["regarding"]["kind"] == "GPUJob" and event["regarding"]["name"] == name
        ]
        return [event["reason"] for event in sorted(events, key=lambda event: str(event["eventTime"]))]

    # Waiting

    def until(self, name: str, *states: str, timeout: float = 30) -> Object:
        """The status once the state is one of `states`."""

        def there() -> Object | None:
            status = self.status(name)
            return status if status.get("state") in states else None

        try:
            return eventually(there, timeout, what=f"{name} {' or '.join(states)}") or {}
        except TimeoutError as error:
            raise TimeoutError(f"{error}; its status is {self.status(name)}") from None

    def until_all(self, names: Iterable[str], *states: str, timeout: float = 60) -> None:
        """Waits until every one of the jobs is in one of `states`."""
        wanted = set(names)

        def missing() -> dict[str, str]:
            found = {
                job["metadata"]["name"]: job.get("status", {}).get("state", "") for job in self.api.items(self.path)
            }
            return {name: found.get(name, "") for name in wanted if found.get(name, "") not in states}

        try:
            eventually(lambda: not missing(), timeout, what=f"{len(wanted)} jobs {' or '.join(states)}", every=0.2)
        except TimeoutError as error:
            late = {name: self.status(name) for name in sorted(missing())}
            children = {each["metadata"]["name"]: each.get("status") for each in (*self.jobs(), *self.pods())}
            raise TimeoutError(f"{error}; their statuses {late}; Jobs and pods {children}") from None

    def clear(self, timeout: float = 90) -> None:
        """Deletes every job and waits until no pod is left, unless its namespace is deleted next."""
        if self.waits_for_the_end:
            self.api.delete(self.path)
            empty = "an empty namespace"
            eventually(lambda: not self.api.items(self.path) and not self.pods(), timeout, what=empty, every=0.1)


def devices(pod: Object) -> int:
    """GPUs that a pod takes."""
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    return sum(int(count) for resource, count in limits.items() if resource in ("nvidia.com/gpu", "amd.com/gpu"))


def pinned_nodes(pod_spec: Object) -> list[str]:
    """The nodes that a pod's affinity names."""
    required = pod_spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [value for term in required["nodeSelectorTerms"] for each in term["matchFields"] for value in each["values"]]


@contextmanager
def new_team(api: ApiServer, name: str) -> Iterator[Team]:
    """A namespace of this name with helpers for the jobs in it; emptied and deleted at the end."""
    api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    one = Team(api, name)
    # Pods are refused before the namespace has its service account.
    eventually(lambda: api.find(f"{NAMESPACES}/{name}/serviceaccounts", "default"), 30, what="the service account")
    yield one
    one.clear()
    api.delete(NAMESPACES, name)
