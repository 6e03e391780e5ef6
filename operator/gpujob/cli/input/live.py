"""A live cluster's objects over plain HTTP: credentials come from the kubeconfig, objects from paged lists.

The official client is used for its configuration only (kubeconfig, credential plugins, in-cluster tokens): its models would take
longer to build than everything else together, and reject unknown members.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson

from gpujob.cli.printing import say
from gpujob.values.errors import BadInput
from gpujob.values.untrusted import tables
from gpujob.values.vocabulary import GROUP, VERSION, Label

PAGE: Final = 500
SECONDS: Final = 30
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

OFFLINE: Final = "or plan with --cluster FILE from an admin's `kubectl gpujob capture -o FILE`"


INSTALL: Final = "helm install gpujob-operator charts/gpujob-operator --namespace gpujob-system --create-namespace"
"""How to install the CRDs and the operator; the chart's README names the image."""


class Refused(BadInput):
    """The cluster does not let this user list something."""


@dataclass
class LiveCluster:
    """A cluster that answers lists; raises BadInput with the remedy without a response."""

    kubeconfig: str | None = None
    context: str | None = None
    _connection: Connection | None = field(default=None, repr=False)

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
        connection = self._connection = self._connection or connect(self.kubeconfig, self.context)
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
        connection = self._connection = self._connection or connect(self.kubeconfig, self.context)
        return connection.get(path, most)

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """Status and body of the answer to a question that is put as an object, such as what this account may do."""
        connection = self._connection = self._connection or connect(self.kubeconfig, self.context)
        return connection.get(path, body=orjson.dumps(body))

    def stream(self, path: str) -> tuple[int, Iterator[bytes]]:
        """Status and body of one GET request, the body as a stream: its reader waits as long as the server does."""
        connection = self._connection = self._connection or connect(self.kubeconfig, self.context)
        return connection.stream(path)

    def listed(self, path: str, **selectors: str) -> dict[str, Any]:
        """A whole list, page by page; empty if the cluster does not have the kind."""
        connection = self._connection = self._connection or connect(self.kubeconfig, self.context)
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
        connection = self._connection = self._connection or connect(self.kubeconfig, self.context)
        status, body = connection.get("/apis/resource.k8s.io")
        try:
            group = orjson.loads(body) if status == 200 else {}
        except orjson.JSONDecodeError:
            group = {}
        served = {entry.get("version") for entry in tables(group if isinstance(group, dict) else {}, "versions")}
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
    try:
        page = orjson.loads(body)
    except orjson.JSONDecodeError:
        page = None
    if status != 200 or not isinstance(page, dict):
        said = page.get("message") if isinstance(page, dict) else None
        raise BadInput(f"the cluster did not list {what} ({status}): {said or 'no reason given'}; try again, {OFFLINE}")
    return page


@dataclass(frozen=True)
class Connection:
    """Authenticated requests to one API server."""

    configuration: Any
    pool: Any

    def get(self, path: str, most: int | None = None, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of one answer, of which at most so many bytes are read; BadInput when there is none.

        A bounded body is what a pod serves: it is taken as sent, since a few bytes could be unpacked to many. With a `body` of
        JSON it is a POST.
        """
        from urllib3.exceptions import HTTPError

        url = self.configuration.host.rstrip("/") + path
        headers = self._headers() if most is None else {**self._headers(), "accept-encoding": "identity"}
        try:
            answer = self.pool.request(
                "GET" if body is None else "POST",
                url,
                body=body,
                headers=headers if body is None else {**headers, "content-type": "application/json"},
                timeout=SECONDS,
                retries=False,
                redirect=False,
                preload_content=most is None,
                decode_content=most is None,
            )
            if most is not None:
                start = answer.read(most)
                answer.close()
                return answer.status, start
        except HTTPError as error:
            raise self._no_answer(error) from error
        return answer.status, answer.data

    def stream(self, path: str) -> tuple[int, Iterator[bytes]]:
        """Status and body of one answer, whose parts are given as they come; BadInput when there is none."""
        from urllib3 import Timeout
        from urllib3.exceptions import HTTPError

        url = self.configuration.host.rstrip("/") + path
        headers = {**self._headers(), "accept": "*/*", "accept-encoding": "identity"}
        try:
            answer = self.pool.request(
                "GET", url, headers=headers, timeout=Timeout(connect=SECONDS, read=None), retries=False, redirect=False,
                preload_content=False, decode_content=False,
            )  # fmt: skip
        except HTTPError as error:
            raise self._no_answer(error) from error
        return answer.status, self._parts(answer)

    def _parts(self, answer: Any) -> Iterator[bytes]:
        from urllib3.exceptions import HTTPError

        try:
            yield from answer.stream(1 << 16)
        except HTTPError as error:
            raise self._no_answer(error) from error
        finally:
            answer.close()

    def _no_answer(self, error: Exception) -> BadInput:
        why = str(getattr(error, "reason", None) or error).rpartition(": ")[2]
        return BadInput(
            f"no answer from {self.configuration.host} ({why}); check --context and --kubeconfig, {OFFLINE}"
        )

    def _headers(self) -> dict[str, str]:
        # Requested each time: here the client renews an expired token.
        settings = self.configuration.auth_settings().values()
        tokens = {setting["key"]: setting["value"] for setting in settings if setting.get("value")}
        return {"accept": "application/json", "accept-encoding": "gzip", "user-agent": "kubectl-gpujob", **tokens}


def connect(kubeconfig: str | None, context: str | None) -> Connection:
    """A connection to the cluster that the kubeconfig names, or to the one that this process runs in."""
    try:
        from kubernetes import client, config
    except ModuleNotFoundError as error:
        raise BadInput(
            f"reading a cluster needs {error.name}: pip install 'gpujob-operator[cli]', {OFFLINE}"
        ) from error
    location = kubeconfig or os.environ.get("KUBECONFIG") or config.KUBE_CONFIG_DEFAULT_LOCATION
    configuration, inside = client.Configuration(), False
    if not (kubeconfig or context or _exists(location)):
        if not os.environ.get("KUBERNETES_SERVICE_HOST"):
            raise BadInput(f"there is no kubeconfig at {location}; name one with --kubeconfig, {OFFLINE}")
        inside = True
    complaints = _Complaints()
    logging.getLogger().addHandler(complaints)
    try:
        if inside:
            config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        else:
            config.load_kube_config(location, context, configuration, False)  # type: ignore[no-untyped-call]
    except Exception as error:
        # Whatever a broken kubeconfig raises; the client documents no common class.
        complaints.said.append(str(error).strip() or type(error).__name__)
    finally:
        logging.getLogger().removeHandler(complaints)
    if complaints.said:
        where = "account of this pod" if inside else f"kubeconfig {location}"
        raise BadInput(f"the {where} cannot be used ({complaints.said[0].splitlines()[0]}); fix it, {OFFLINE}")
    return Connection(configuration, client.ApiClient(configuration).rest_client.pool_manager)


def namespace_of(kubeconfig: str | None, context: str | None) -> str:
    """The namespace of the kubeconfig's context; `default` if it names none."""
    from kubernetes import config

    location = kubeconfig or os.environ.get("KUBECONFIG") or config.KUBE_CONFIG_DEFAULT_LOCATION
    try:
        contexts, active = config.list_kube_config_contexts(location)  # type: ignore[no-untyped-call]
    except config.ConfigException:
        return "default"  # In a cluster there is no kubeconfig.
    named = next((each for each in contexts if each["name"] == context), active)
    return str(named.get("context", {}).get("namespace") or "default")


class _Complaints(logging.Handler):
    """Errors that the client logs instead of raising them: a failed credential plugin."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the message."""
        self.said.append(record.getMessage())


def _exists(location: str) -> bool:
    """Whether one of the files exists; KUBECONFIG may list several."""
    return any(os.path.exists(os.path.expanduser(path)) for path in location.split(os.pathsep) if path)
