"""One API server as tests see it: plain calls through `kubectl proxy`, waiting, and the log of the operator's requests.

kubectl costs a tenth of a second of CPU a call; a test asks hundreds of times. Where kubectl itself is what a user
types, tests run it with `kubectl()`.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.e2e.cluster import Cluster, register_client
from tests.e2e.cluster.audit import starts_of
from tests.e2e.cluster.processes import Process, end, start

Object = dict[str, Any]

GPUJOBS = "/apis/gpujob.dev/v1alpha1/namespaces/{}/gpujobs"
GPUPOOLS = "/apis/gpujob.dev/v1alpha1/gpupools"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
PODS = "/api/v1/namespaces/{}/pods"
CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"
SECRETS = "/api/v1/namespaces/{}/secrets"
SERVICES = "/api/v1/namespaces/{}/services"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/{}/persistentvolumeclaims"
QUOTAS = "/api/v1/namespaces/{}/resourcequotas"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
NAMESPACES = "/api/v1/namespaces"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NODES = "/api/v1/nodes"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpujob-system/leases/gpujob-operator"


class Refused(AssertionError):
    """An answer that is not success, with its code and the API server's sentence."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class ApiServer:
    """Calls with the rights of the cluster's kubeconfig; one connection, for one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._proxy, self.port = _proxy(cluster)
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def close(self) -> None:
        """Ends the proxy."""
        self._connection.close()
        end([self._proxy], grace=2)

    def find(self, path: str, name: str = "") -> Object | None:
        """An object, None when there is none."""
        try:
            return self.get(path, name)
        except Refused as error:
            if error.code == 404:
                return None
            raise

    def get(self, path: str, name: str = "") -> Object:
        """The object, or the list, at a path."""
        return self._call("GET", f"{path}/{name}" if name else path)

    def items(self, path: str, selector: str = "") -> list[Object]:
        """The objects of a list."""
        items: list[Object] = self.get(path + (f"?labelSelector={selector}" if selector else ""))["items"]
        return items

    def create(self, path: str, body: Object) -> Object:
        """The object as created, checked as strictly as kubectl does."""
        return self._call("POST", f"{path}?fieldValidation=Strict", body)

    def patch(self, path: str, name: str, body: Object, subresource: str = "") -> Object:
        """The object after a merge patch."""
        tail = f"/{subresource}" if subresource else ""
        return self._call("PATCH", f"{path}/{name}{tail}", body, "application/merge-patch+json")

    def replace(self, path: str, name: str, body: Object) -> Object:
        """The object after it was replaced by another."""
        return self._call("PUT", f"{path}/{name}", body)

    def try_out(self, path: str, body: Object) -> Object:
        """What a create would give, checked as strictly as kubectl does, without doing it."""
        return self._call("POST", f"{path}?dryRun=All&fieldValidation=Strict", body)

    def delete(self, path: str, name: str = "", propagation: str = "Background") -> None:
        """Deletes an object, or all of a collection; what is gone is fine."""
        where = f"{path}/{name}" if name else path
        try:
            self._call("DELETE", where, {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation})
        except Refused as error:
            if error.code != 404:
                raise

    def kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """What a user who types this gets, whatever it is."""
        command = [self.cluster.tool("kubectl"), *arguments]
        environment = self.cluster.environment()
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, env=environment, timeout=90
        )

    def _call(self, method: str, path: str, body: Object | None = None, kind: str = "application/json") -> Object:
        payload = None if body is None else json.dumps(body)
        for last in (False, True):
            try:
                self._connection.request(method, path, payload, {"Content-Type": kind})
                answer = self._connection.getresponse()
                content = answer.read()
                if answer.status == 429 and not last:
                    # An API server that starts, or has too much to do: every client asks again, kubectl too.
                    time.sleep(float(answer.headers.get("Retry-After", "1")))
                    continue
                break
            except (http.client.HTTPException, OSError):
                # An idle connection was closed meanwhile; a request that did not arrive is repeated once.
                self._connection.close()
                if last:
                    raise
        found: Object = json.loads(content)
        if answer.status >= 300:
            raise Refused(answer.status, str(found.get("message")))
        return found


def _proxy(cluster: Cluster) -> tuple[Process, int]:
    log = cluster.dir / "logs" / f"kubectl-proxy-{time.monotonic_ns()}.log"
    command = [cluster.tool("kubectl"), f"--kubeconfig={cluster.kubeconfig}", "proxy", "--port=0"]
    process = start("kubectl-proxy", command, log=log)
    register_client(cluster.dir, "kubectl-proxy", process.pid)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        told = re.search(r"127\.0\.0\.1:(\d+)", log.read_text())
        if told:
            return process, int(told.group(1))
        time.sleep(0.02)
    raise TimeoutError(f"kubectl proxy did not start: {log.read_text()}")


class AuditLog:
    """The operator's requests as the API server logged them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self) -> int:
        """A mark: what is logged after it can be asked for."""
        return self._path.stat().st_size if self._path.exists() else 0

    def since(self, mark: int = 0) -> Iterator[Object]:
        """The requests that were answered after a mark."""
        with self._path.open("rb") as file:
            file.seek(mark)
            for line in file.read().splitlines():
                if line.endswith(b"}"):
                    yield json.loads(line)

    def forbidden(self, mark: int = 0) -> list[str]:
        """The requests to which no role gave the right, a line each: not what a policy or a quota refused, and not what came while an
        API server started, which listens before it has read the roles.
        """
        starts, found = starts_of(self._path.parent), []
        for entry in self.since(mark):
            came = datetime.fromisoformat(entry["requestReceivedTimestamp"])
            denied = entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
            if denied and not any(began <= came <= ready for began, ready in starts):
                found.append(f"{came} {entry['verb']} {entry['requestURI']}: {entry['responseStatus'].get('message')}")
        return found

    def writes(self, mark: int = 0, namespace: str = "", name: str = "") -> Counter[str]:
        """Writes by resource, for one namespace and objects whose name begins so; without the Lease."""
        found: Counter[str] = Counter()
        for entry in self.since(mark):
            target = entry.get("objectRef", {})
            if entry["verb"] in ("create", "patch", "update", "delete") and target.get("resource") != "leases":
                mine = target.get("namespace", "") == namespace if namespace else True
                if mine and target.get("name", "").startswith(name):
                    found[_resource(target)] += 1
        return found


def _resource(target: Object) -> str:
    return "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
