"""A live cluster's objects over plain HTTP: credentials come from the kubeconfig, objects from paged lists.

The official client is used for its configuration only (kubeconfig, credential plugins, in-cluster tokens): its models would take
longer to build than everything else together, and reject unknown members.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson

from gpujob.cli.input.connection import OFFLINE, Connection, connect, namespace_of
from gpujob.cli.printing import say
from gpujob.values.errors import BadInput
from gpujob.values.untrusted import object_in, tables
from gpujob.values.vocabulary import GROUP, VERSION, Label

PAGE: Final = 500
EXPIRED: Final = 410

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
GPUJOBS: Final = f"/apis/{GROUP}/{VERSION}/gpujobs"
GPUPOOLS: Final = f"/apis/{GROUP}/{VERSION}/gpupools"
EXTRAS: Final = (
    f"/apis/{GROUP}/{VERSION}/gpuruntimes",
    f"/apis/{GROUP}/{VERSION}/gpujobprofiles",
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/api/v1/resourcequotas",
    "/api/v1/limitranges",
    "/api/v1/namespaces",
)
DRA: Final = ("resourceslices", "resourceclaims", "deviceclasses")
DRA_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
TAINT_RULES: Final = "devicetaintrules"
TAINT_RULE_VERSIONS: Final = ("v1", "v1beta2", "v1alpha3")
"""The kind is younger than its group: a version that is served may lack it."""
JOBS: Final = "/apis/batch/v1/jobs"
HOLDING: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that use resources of a node, or of a quota until they have one."""


INSTALL: Final = (
    "helm install gpujob-operator charts/gpujob-operator --namespace gpujob-system --create-namespace "
    "--set image.repository=YOUR-REGISTRY/gpujob-operator"
)
"""How to install the CRDs and the operator; images/README.md says how the image is built."""


class Refused(BadInput):
    """The cluster does not let this user list something."""


@dataclass
class LiveCluster:
    """A cluster that answers lists; raises BadInput with the remedy without a response."""

    kubeconfig: str | None = None
    context: str | None = None

    @cached_property
    def _connected(self) -> Connection:
        return connect(self.kubeconfig, self.context)

    def objects(self, *, whole: bool = False) -> list[Any]:
        """The planner's objects; without rights on nodes and pods published GPUPools, unless the `whole` is needed."""
        try:
            fleet = [self.listed(NODES), self.listed(PODS, fieldSelector=HOLDING)]
        except Refused as error:
            if whole:
                raise
            return [self._published(error), *self._extras()]
        ours = [
            self._if_allowed(GPUPOOLS),
            self._if_allowed(GPUJOBS),
            self._if_allowed(JOBS, labelSelector=Label.JOB_UID),
        ]
        return [*fleet, *ours, *self._extras(), *self._of_dra()]

    def site(self, namespace: str) -> list[dict[str, Any]]:
        """The ConfigMap with the prices and mirrors of the operator in this namespace; nothing where there is none."""
        from gpujob.catalog.files.site import CONFIG_MAP

        status, body = self.get(f"/api/v1/namespaces/{quote(namespace)}/configmaps/{CONFIG_MAP}")
        if status == 403:
            say(
                f"not read: this account may not get ConfigMap {namespace}/{CONFIG_MAP} (403), so the operator's own "
                "prices, rows and mirrors are unknown"
            )
        return [] if status in (403, 404) else [{"kind": "ConfigMap", **_page(CONFIG_MAP, status, body)}]

    def gpujob(self, name: str, namespace: str | None) -> dict[str, Any]:
        """One GPUJob with its status; without a namespace the one of the kubeconfig's context."""
        connection = self._connected
        where = namespace or namespace_of(self.kubeconfig, self.context)
        status, body = connection.get(f"/apis/{GROUP}/{VERSION}/namespaces/{quote(where)}/gpujobs/{quote(name)}")
        if status == 404:
            self.require_gpujobs()
            self.require_namespace(where)
            raise BadInput(f"there is no GPUJob {name} in namespace {where}; `kubectl get gpujobs -A` lists them all")
        return _page(f"gpujobs of namespace {where}", status, body)

    def gpujobs(self, namespace: str | None) -> list[dict[str, Any]]:
        """The GPUJobs of a namespace, or of all; BadInput where the kind or the namespace is not there."""
        within = f"/namespaces/{quote(namespace)}" if namespace else ""
        found: list[dict[str, Any]] = self.listed(f"/apis/{GROUP}/{VERSION}{within}/gpujobs")["items"]
        if not found:
            self.require_gpujobs()
            if namespace:
                self.require_namespace(namespace)
        return found

    def require_gpujobs(self) -> None:
        """Raises BadInput if the cluster does not know the kind."""
        if self.get(f"/apis/{GROUP}/{VERSION}")[0] == 404:
            raise BadInput(f"the cluster has no kind GPUJob: its CRDs are not installed; {INSTALL}")

    def require_namespace(self, name: str) -> None:
        """Raises BadInput if the cluster has no such namespace; users without that right get no message."""
        if self.get(f"/api/v1/namespaces/{quote(name)}")[0] == 404:
            raise BadInput(f"there is no namespace {name}; `kubectl get namespaces` lists them all")

    def get(self, path: str, most: int | None = None) -> tuple[int, bytes]:
        """Status and body of one GET request; at most this number of bytes of the body is read, None: all."""
        return self._connected.get(path, most)

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """Status and body of the answer to a question that is put as an object, such as what this account may do."""
        return self._connected.get(path, body=orjson.dumps(body))

    def stream(self, path: str) -> tuple[int, Iterator[bytes]]:
        """Status and body of one GET request, the body as a stream: its reader waits as long as the server does."""
        return self._connected.stream(path)

    def listed(self, path: str, **selectors: str) -> dict[str, Any]:
        """A whole list, page by page; empty if the cluster does not have the kind."""
        connection = self._connected
        whole: dict[str, Any] = {}
        items: list[Any] = []
        query = {"limit": str(PAGE), **selectors}
        while True:
            status, body = connection.get(f"{path}?{urlencode(query)}")
            if status == EXPIRED and "continue" in query:
                # The continue token expired: once more, in one piece.
                items, query = [], dict(selectors)
                continue
            page = _page(path, status, body)
            whole = whole or page
            items += page.get("items") or []
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return {**whole, "items": items}
            query["continue"] = more

    def _published(self, refused: Refused) -> dict[str, Any]:
        """The GPUPools, if the operator wrote how many GPUs are free; else the original error."""
        try:
            pools = self.listed(GPUPOOLS)
        except Refused:
            raise refused from None
        if not any((pool.get("status") or {}).get("gpus") for pool in pools["items"]):
            raise refused
        return pools

    def _extras(self) -> list[dict[str, Any]]:
        return [self._if_allowed(path) for path in EXTRAS]

    def _of_dra(self) -> list[dict[str, Any]]:
        """The devices of DRA drivers and their allocation, in the newest version that the cluster has."""
        connection = self._connected
        status, body = connection.get("/apis/resource.k8s.io")
        group = object_in(body) if status == 200 else None
        served = {entry.get("version") for entry in tables(group or {}, "versions")}
        version = next((version for version in DRA_VERSIONS if version in served), None)
        found = [self._if_allowed(f"/apis/resource.k8s.io/{version}/{kind}") for kind in DRA] if version else []
        paths = (f"/apis/resource.k8s.io/{each}/{TAINT_RULES}" for each in TAINT_RULE_VERSIONS if each in served)
        rules = next((path for path in paths if connection.get(f"{path}?limit=1")[0] != 404), None)
        return [*found, self._if_allowed(rules)] if rules else found

    def _if_allowed(self, path: str, **selectors: str) -> dict[str, Any]:
        try:
            return self.listed(path, **selectors)
        except Refused as error:
            say(f"not read: {error}")
            return {"kind": "List", "items": []}


def _page(path: str, status: int, body: bytes) -> dict[str, Any]:
    """A page of a list; BadInput with the remedy for any other response."""
    what = path.rpartition("/")[2]
    if status == 404:
        return {"kind": "List", "items": []}
    if status == 403:
        raise Refused(f"this account may not list {what} (403): request that right, {OFFLINE}")
    if status == 401:
        raise BadInput("the cluster refuses these credentials (401); log in again, or name another --context")
    page = object_in(body)
    if status != 200 or page is None:
        said = page.get("message") if page else None
        raise BadInput(f"the cluster did not list {what} ({status}): {said or 'no reason given'}; try again, {OFFLINE}")
    return page
