"""Gathers what the checks read: objects from a file or a live cluster, and what only a live one knows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gpujob.api.served import OPENAPI
from gpujob.cli.doctor.facts import Facts, Live, Raw, Right
from gpujob.cli.doctor.namespace import RIGHTS
from gpujob.cli.input import sources
from gpujob.cli.input.connection import namespace_of
from gpujob.cli.input.live import LiveCluster, Refused
from gpujob.cli.input.site import catalog_for
from gpujob.fleet.sources.cluster_file import fleet_of, objects_in
from gpujob.values.untrusted import object_in, one_line, table
from gpujob.values.vocabulary import API_VERSION, GROUP

if TYPE_CHECKING:
    from gpujob.cli.input.request import Request

PART_OF = "app.kubernetes.io/part-of=gpujob"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PLURALS = ("gpujobs", "gpujobprofiles", "gpupools", "gpuruntimes")
MONITORING = "/apis/monitoring.coreos.com/v1"


def gather(request: Request) -> Facts:
    """The facts of a cluster; raises BadInput where there is none to be asked."""
    documents = _documents(request)
    known = catalog_for(request, documents)
    objects = sources.objects_of(documents, request, known)
    fleet, catalog = fleet_of(objects, known)
    kinds: dict[str, list[Raw]] = defaultdict(list)
    for item in objects_in(documents, []):
        kinds[str(item.get("kind"))].append(item)
    now, cluster = datetime.now(UTC), LiveCluster(request.kubeconfig, request.context)
    live = request.cluster is None
    namespace = request.namespace or (namespace_of(request.kubeconfig, request.context) if live else "default")
    return Facts(
        kinds=kinds,
        fleet=fleet,
        catalog=catalog,
        namespace=namespace,
        operator_namespace=request.operator_namespace,
        now=now.isoformat(),
        live=_live_reads(cluster, namespace, request) if live else None,
    )


def _documents(request: Request) -> list[Any]:
    """The cluster's objects; an empty list where the asking account may read none, which the checks report."""
    try:
        return sources.read_raw(request)
    except Refused:
        return [{"apiVersion": "v1", "kind": "List", "items": []}]


def read_live(cluster: LiveCluster, namespace: str, operator_namespace: str) -> Live:
    """What a live cluster reports besides its objects."""
    apps, leases = (
        f"/apis/apps/v1/namespaces/{operator_namespace}/deployments",
        "/apis/coordination.k8s.io/v1/namespaces",
    )
    monitors = [
        _listed(cluster, f"{MONITORING}/{kind}", PART_OF)
        for kind in ("servicemonitors", "podmonitors", "prometheusrules")
    ]
    return Live(
        version=str((_got(cluster, "/version") or {}).get("gitVersion") or ""),
        schemas=_schemas(cluster),
        rights=_rights(cluster, namespace),
        user=_user(cluster),
        deployments=_listed(cluster, apps, PART_OF),
        lease=_got(cluster, f"{leases}/{operator_namespace}/leases/gpujob-operator"),
        prometheuses=_listed(cluster, f"{MONITORING}/prometheuses"),
        monitors=None if None in monitors else [raw for found in monitors for raw in found or ()],
        dashboards=_dashboards(cluster),
    )


def _live_reads(cluster: LiveCluster, namespace: str, request: Request) -> Live:
    """What the requested checks read of a live cluster besides its objects."""
    if not request.before_uninstall:
        return read_live(cluster, namespace, request.operator_namespace)
    crds = [_got(cluster, f"{CRDS}/{plural}.{GROUP}") for plural in PLURALS]
    return Live(
        crds=None if None in crds else [found for found in crds if found is not None],
        jobs=_listed(cluster, f"/apis/{API_VERSION}/gpujobs"),
    )


def _dashboards(cluster: LiveCluster) -> Sequence[Raw] | None:
    """The chart's ConfigMaps with a dashboard: it makes others too."""
    found = _listed(cluster, "/api/v1/configmaps", PART_OF)
    if found is None:
        return None
    return [raw for raw in found if any(str(key).endswith(".json") for key in table(raw, "data"))]


def _listed(cluster: LiveCluster, path: str, selector: str = "") -> Sequence[Raw] | None:
    """The items of a list, each with its kind; None where it is refused."""
    try:
        found = cluster.listed(path, **({"labelSelector": selector} if selector else {}))
    except Refused:
        return None
    kind = str(found.get("kind", "")).removesuffix("List")
    return [{"kind": kind, **item} for item in found["items"] if isinstance(item, dict)]


def _got(cluster: LiveCluster, path: str) -> dict[str, Any] | None:
    status, body = cluster.get(path)
    return object_in(body) if status == 200 else None


def _schemas(cluster: LiveCluster) -> Raw | None:
    """The OpenAPI document of our group: an empty one where the group is not served, None where it may not be read."""
    status, body = cluster.get(OPENAPI)
    return {} if status == 404 else object_in(body) if status == 200 else None


def _rights(cluster: LiveCluster, namespace: str) -> Mapping[Right, bool]:
    """The API server's answer for each right; those that it does not answer are left out."""
    answers: dict[Right, bool] = {}
    for verb, group, resource, of_namespace in RIGHTS:
        name, _, subresource = resource.partition("/")
        asked = {"verb": verb, "group": group, "resource": name, "subresource": subresource}
        attributes = {**asked, **({"namespace": namespace} if of_namespace else {})}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        said = _reviewed(cluster, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        if isinstance(said.get("allowed"), bool):
            answers[verb, group, resource, of_namespace] = said["allowed"]
    return answers


def _user(cluster: LiveCluster) -> str:
    """The name of the asking account; empty where the API server does not say it."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    said = _reviewed(cluster, "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    return one_line(str(table(said, "userInfo").get("username") or "")[:253])


def _reviewed(cluster: LiveCluster, path: str, review: dict[str, Any]) -> Raw:
    """The status with which the API server answers a question about the asking account; empty where it does not."""
    status, body = cluster.post(path, review)
    return table(object_in(body) or {}, "status") if status == 201 else {}
