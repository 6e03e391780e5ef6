"""A cluster as a file: only what the planner reads, so that it plans alike and can be shown to strangers.

Left out: environment values, images, commands, annotations and labels of others, managedFields, addresses, pods that
hold nothing. Kept are names (a plan names pools and nodes), device labels, and the labels that GPUPools select by.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from gpujob.cli.printing import as_yaml, say
from gpujob.errors import BadClusterFile, BadInput
from gpujob.fleet.handlers import read_handlers
from gpujob.fleet.namespaces import ENFORCE
from gpujob.fleet.objects import DEVICE_FILES, EXTENDED_STATUS, TERMINAL_PHASES
from gpujob.fleet.slices import EXTENDED_CLAIM, KINDS
from gpujob.fleet.volumes import ZONES, read_tie
from gpujob.untrusted import Table, table, tables
from gpujob.vocabulary import GROUP, Label

HEADER: Final = """\
# A cluster captured by `kubectl gpujob capture`: what the planner reads, nothing else. Replay it without a cluster:
#   kubectl gpujob plan -f JOB --cluster THIS-FILE
"""

LABEL_DOMAINS: Final = (
    "amd.com",
    "cloud.google.com",
    "eks.amazonaws.com",
    GROUP,
    "karpenter.azure.com",
    "karpenter.k8s.aws",
    "karpenter.sh",
    "kubernetes.azure.com",
    "kubernetes.io",
    "nvidia.com",
)
"""Node labels of these domains and their subdomains are read by the planner, or may be by a later one."""

AMOUNTS: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
REDACTED: Final = "redacted"


def redacted(documents: Iterable[Any]) -> list[dict[str, Any]]:
    """The objects of a cluster that the planner reads, with nothing but what it reads; ordered by kind and name."""
    from gpujob.fleet.cluster_file import objects_in

    skipped: list[str] = []
    objects = [item for item in objects_in(documents, skipped) if item.get("kind") in _KEPT and _name(item)]
    if not any(item["kind"] == "Node" for item in objects):
        raise BadClusterFile("there is no node to capture; use an account that may list nodes and pods")
    selected = {key for item in objects for key in _selected_labels(item)}
    kept: dict[tuple[int, str, str], dict[str, Any]] = {}
    for item in objects:
        slim = _KEPT[item["kind"]](item, selected)
        if slim:
            metadata = slim["metadata"]
            kept[list(_KEPT).index(item["kind"]), metadata.get("namespace", ""), metadata["name"]] = slim
    return [kept[key] for key in sorted(kept)]


def write(documents: list[dict[str, Any]], path: str) -> None:
    """Writes captured objects to a file, JSON by its name or else YAML, or to stdout; says what it wrote."""
    if path.endswith(".json"):
        import orjson

        document = {"apiVersion": "v1", "kind": "List", "items": documents}
        text = orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"
    else:
        text = HEADER + as_yaml(*documents)
    if path == "-":
        print(text, end="")
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadInput(f"-o {path}: {why}; name a file that can be written") from error
    nodes, pods = (sum(document["kind"] == kind for document in documents) for kind in ("Node", "Pod"))
    say(f"wrote {path}: {nodes} nodes, {pods} pods and what GPUPools, GPURuntimes and RuntimeClasses there are")


def _profile(raw: Table, selected: set[str]) -> dict[str, Any]:
    """What jobs of a profile measured; which jobs those were is nobody's business."""
    runs = ("perSecond", "seconds", "dollars", "time")
    known = ("device", "accelerator", "shape", "precision", "unit", "perSecond", "count")
    measurements = [
        {**_present(each, *known), "runs": [_present(run, *runs) for run in tables(each, "runs")]}
        for each in tables(table(raw, "status"), "measurements")
    ]
    namespace = table(raw, "metadata").get("namespace")
    return _object(raw, _filled(namespace=namespace), status=_filled(measurements=measurements))


def _node(raw: Table, selected: set[str]) -> dict[str, Any]:
    metadata, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    labels = {key: value for key, value in table(metadata, "labels").items() if key in selected or _ours(key)}
    annotations = {k: v for k, v in table(metadata, "annotations").items() if _domain(k) == GROUP}
    provider, scheme, _ = str(spec.get("providerID") or "").partition("://")
    conditions = [condition for condition in tables(status, "conditions") if condition.get("type") == "Ready"]
    taints = [_present(taint, "key", "value", "effect") for taint in tables(spec, "taints")]
    return _object(
        raw,
        _filled(deletionTimestamp=metadata.get("deletionTimestamp"), labels=labels, annotations=annotations),
        spec=_filled(
            providerID=f"{provider}://" if scheme else None, unschedulable=spec.get("unschedulable"), taints=taints
        ),
        status=_filled(
            capacity=_amounts(table(status, "capacity")),
            allocatable=_amounts(table(status, "allocatable")),
            conditions=[_present(condition, "type", "status") for condition in conditions],
            nodeInfo=_present(table(status, "nodeInfo"), "containerRuntimeVersion", "kubeletVersion"),
            runtimeHandlers=[{"name": name} for name in sorted(read_handlers(status, []) or ())],
        ),
    )


def _pod(raw: Table, selected: set[str]) -> dict[str, Any] | None:
    """A pod as what it takes from its node; None where it takes nothing."""
    metadata, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    if not spec.get("nodeName") or status.get("phase") in TERMINAL_PHASES:
        return None
    labels = _present(table(metadata, "labels"), Label.JOB_UID, Label.ATTEMPT)
    claim = table(status, EXTENDED_STATUS)
    agent = [{"kind": "DaemonSet"} for owner in tables(metadata, "ownerReferences") if owner.get("kind") == "DaemonSet"]
    files = [volume for volume in map(_device_file, tables(spec, "volumes")) if volume]
    return _object(
        raw,
        _filled(
            namespace=metadata.get("namespace"),
            uid=_uid(metadata.get("uid")),
            labels=labels,
            ownerReferences=agent if files else None,
        ),
        spec=_filled(
            nodeName=spec["nodeName"],
            volumes=files,
            initContainers=[_container(container) for container in tables(spec, "initContainers")],
            containers=[_container(container) for container in tables(spec, "containers")],
            overhead=_amounts(table(spec, "overhead")),
        ),
        status=_filled(
            phase=status.get("phase"), extendedResourceClaimStatus=_present(claim, "resourceClaimName") or None
        ),
    )


def _uid(value: Any) -> str | None:
    """A pod's uid, by which claims name it; None for what is none."""
    return value if isinstance(value, str) and _UID.fullmatch(value) else None


def _device_file(raw: Table) -> dict[str, Any] | None:
    """A volume that is a device file of the host; None for any other."""
    path = str(table(raw, "hostPath").get("path", ""))
    return {"name": raw.get("name"), "hostPath": {"path": path}} if path.startswith(DEVICE_FILES) else None


def _namespace(raw: Table, selected: set[str]) -> dict[str, Any]:
    """A namespace with the labels that decide about its jobs."""
    labels = table(table(raw, "metadata"), "labels")
    return _object(raw, _filled(labels={key: labels[key] for key in labels if key == ENFORCE or key in selected}))


def _container(raw: Table) -> dict[str, Any]:
    resources = table(raw, "resources")
    wanted = _filled(requests=_amounts(table(resources, "requests")), limits=_amounts(table(resources, "limits")))
    return _filled(name=raw.get("name"), restartPolicy=raw.get("restartPolicy"), resources=wanted)


def _gpupool(raw: Table, selected: set[str]) -> dict[str, Any] | None:
    """An admin's GPUPool; what the operator published follows from the nodes."""
    metadata = table(raw, "metadata")
    if table(metadata, "labels").get(Label.DISCOVERED) == "true":
        return None
    spec = dict(table(raw, "spec"))
    if "env" in spec:
        spec["env"] = [{"name": entry.get("name"), "value": REDACTED} for entry in tables(spec, "env")]
    return _object(raw, _present(metadata, "creationTimestamp"), spec=spec)


def _gpuruntime(raw: Table, selected: set[str]) -> dict[str, Any]:
    return _object(raw, {}, spec=dict(table(raw, "spec")))


def _runtime_class(raw: Table, selected: set[str]) -> dict[str, Any]:
    return {**_object(raw, {}), "handler": raw.get("handler")}


def _priority_class(raw: Table, selected: set[str]) -> dict[str, Any]:
    return {**_object(raw, {}), **_present(raw, "value", "globalDefault")}


def _volume_claim(raw: Table, selected: set[str]) -> dict[str, Any]:
    """A claim as what it is bound to and how it can be mounted; not what it asked for."""
    metadata = table(raw, "metadata")
    return _object(
        raw,
        _filled(namespace=metadata.get("namespace"), deletionTimestamp=metadata.get("deletionTimestamp")),
        spec=_present(table(raw, "spec"), "accessModes", "volumeName"),
        status=_present(table(raw, "status"), "phase"),
    )


def _volume(raw: Table, selected: set[str]) -> dict[str, Any]:
    """A PersistentVolume as the nodes that it allows; where its bytes are is nobody's business."""
    labels = _present(table(table(raw, "metadata"), "labels"), *ZONES)
    return _object(raw, _filled(labels=labels), spec=_present(table(raw, "spec"), "nodeAffinity"))


def _quota(raw: Table, selected: set[str]) -> dict[str, Any]:
    metadata, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    return _object(
        raw,
        _filled(namespace=metadata.get("namespace")),
        spec=_present(spec, "hard", "scopes", "scopeSelector"),
        status=_present(status, "hard", "used"),
    )


def _of_dra(raw: Table, selected: set[str]) -> dict[str, Any]:
    """What a DRA driver offers, what a claim holds (not what it asked for), what a class covers."""
    metadata, status = table(raw, "metadata"), table(raw, "status")
    extended = _present(table(metadata, "annotations"), EXTENDED_CLAIM)
    kept = _filled(namespace=metadata.get("namespace"), annotations=extended)
    if raw["kind"] == "ResourceClaim":
        return _object(raw, kept, status=_present(status, "allocation", "reservedFor"))
    return _object(raw, kept, spec=dict(table(raw, "spec")))


_KEPT: Final[Mapping[str, Callable[[Table, set[str]], dict[str, Any] | None]]] = {
    "RuntimeClass": _runtime_class,
    "GPURuntime": _gpuruntime,
    "PriorityClass": _priority_class,
    "GPUPool": _gpupool,
    "Namespace": _namespace,
    "Node": _node,
    "Pod": _pod,
    "ResourceQuota": _quota,
    "PersistentVolumeClaim": _volume_claim,
    "PersistentVolume": _volume,
    "GPUJobProfile": _profile,
    **dict.fromkeys(KINDS, _of_dra),
}
"""How each kind is redacted, in the order in which they are written; other kinds are left out."""


def _object(raw: Table, metadata: dict[str, Any], **parts: dict[str, Any]) -> dict[str, Any]:
    head = {"apiVersion": raw.get("apiVersion", "v1"), "kind": raw["kind"]}
    return head | {"metadata": {"name": _name(raw), **metadata}} | _filled(**parts)


def _name(raw: Table) -> str | None:
    name = table(raw, "metadata").get("name")
    return name if isinstance(name, str) and name else None


def _selected_labels(item: Table) -> Iterable[str]:
    """Label keys that a GPUPool or a PersistentVolume selects nodes by."""
    if item["kind"] == "GPUPool":
        yield from _selected_by_pool(item)
    elif item["kind"] == "PersistentVolume":
        yield from (expression.key for term in read_tie(item).terms for expression in term)


def _selected_by_pool(pool: Table) -> Iterable[str]:
    selector = table(table(pool, "spec"), "nodeSelector")
    yield from table(selector, "matchLabels")
    yield from table(table(table(pool, "spec"), "namespaceSelector"), "matchLabels")
    yield str(table(table(pool, "spec"), "fabric").get("topologyKey"))
    yield from (str(rule.get("key")) for rule in tables(selector, "matchExpressions"))


def _ours(key: object) -> bool:
    domain = _domain(key)
    return any(domain == known or domain.endswith("." + known) for known in LABEL_DOMAINS)


def _domain(key: object) -> str:
    """The domain of a label's or annotation's key, empty where it has none."""
    prefix, slash, _ = str(key).partition("/")
    return prefix if slash else ""


def _amounts(amounts: Table) -> dict[str, Any]:
    """CPU, memory, disk, pods and devices, be they of GPUs or of a fabric."""
    return {key: value for key, value in amounts.items() if key in AMOUNTS or "/" in str(key)}


def _present(holder: Table, *keys: str) -> dict[str, Any]:
    return {key: holder[key] for key in keys if key in holder}


def _filled(**members: Any) -> dict[str, Any]:
    """The members that say something."""
    return {key: value for key, value in members.items() if value not in (None, "", False, [], {})}
