"""A cluster as a file: only what the planner reads, so that it plans alike and can be shown to strangers.

Left out: environment values, images, commands of jobs, annotations and labels of others, managedFields, addresses, pods that
hold nothing. Kept are names (a plan names pools, nodes and claims; see NAMES), device labels, and the labels that GPUPools select by.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from gpujob.catalog.files.load import read_documents
from gpujob.catalog.files.site import CONFIG_MAP, FILE
from gpujob.cli.cluster_file.jobs import child, live_job
from gpujob.cli.cluster_file.projection import (
    REDACTED,
    amounts,
    an_object,
    container,
    device_files,
    domain,
    filled,
    mounted_claims,
    name_of,
    present,
    resized,
)
from gpujob.cli.cluster_file.reservations import children_in
from gpujob.cli.cluster_file.selected_labels import selected_labels
from gpujob.cli.printing import as_yaml, say
from gpujob.fleet.devices.group import TELLING
from gpujob.fleet.dra.resource_slices import EXTENDED_CLAIM, KINDS
from gpujob.fleet.health.conditions import read_conditions
from gpujob.fleet.health.signals import LABELS
from gpujob.fleet.kubernetes.namespaces import ANNOTATIONS, ENFORCE, is_terminating
from gpujob.fleet.kubernetes.objects import EXTENDED_STATUS, TERMINAL_PHASES
from gpujob.fleet.kubernetes.parse import OF_SPLITTING, pods_per_card, provider_of
from gpujob.fleet.kubernetes.runtime_classes import read_handlers
from gpujob.fleet.pools.autoscaling import NODE_POOL_LABELS
from gpujob.fleet.storage.volume_records import OF_DEFAULT, read_selector
from gpujob.fleet.storage.volume_ties import NEVER_ATTACHED, ZONES
from gpujob.values.errors import BadClusterFile, BadInput
from gpujob.values.untrusted import Table, table, tables
from gpujob.values.vocabulary import GROUP, Label

Redaction = Callable[[Table, set[str]], dict[str, Any] | None]
"""What is kept of an object, given the labels and uids that others select by; None: nothing."""

NAMES: Final = "namespaces, nodes, pools, jobs, pods, claims and volumes"
HEADER: Final = f"""\
# A cluster captured by `kubectl gpujob capture`: what the planner reads, nothing else. Replay it without a cluster:
#   kubectl gpujob plan -f JOB --cluster THIS-FILE
# Names of {NAMES} are in it.
"""

LABEL_DOMAINS: Final = ("amd.com", GROUP, "karpenter.sh", "kubernetes.io", "nvidia.com")
"""Node labels of these domains and their subdomains may be read by a later planner, besides those that this one reads."""

_NODE_POOLS: Final = frozenset(key for key, _ in NODE_POOL_LABELS)
_OF_HEALTH: Final = frozenset(signal.key for signals in LABELS.values() for signal in signals)

_OF_HOST: Final = (
    "architecture",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeletVersion",
    "operatingSystem",
    "osImage",
)

_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def redacted(documents: Iterable[Any]) -> list[dict[str, Any]]:
    """The objects of a cluster that the planner reads, reduced to what it reads; sorted by kind and name."""
    from gpujob.fleet.sources.cluster_file import objects_in

    skipped: list[str] = []
    objects = [item for item in objects_in(documents, skipped) if item.get("kind") in _KEPT and name_of(item)]
    if not any(item["kind"] == "Node" or _may_have_nodes(item) for item in objects):
        raise BadClusterFile(
            "there is no node and no GPUPool with spec.provision to capture; use an account that may list nodes and pods"
        )
    ours = {id(child): child for child in children_in(objects)}
    objects = [item for item in objects if item["kind"] != "Job" or id(item) in ours]
    selected = {key for item in objects for key in selected_labels(item)}
    if ours:
        # A GPUJob with a child says which Job is its child, whatever its state.
        owners = (each for child in ours.values() for each in tables(table(child, "metadata"), "ownerReferences"))
        selected |= {str(owner.get("uid")) for owner in owners if owner.get("controller") is True}
        selected |= {str(table(item, "status").get("jobUID")) for item in objects if item["kind"] == "GPUJob"}
    kept: dict[tuple[int, str, str], dict[str, Any]] = {}
    for item in objects:
        slim = _KEPT[item["kind"]](item, selected)
        if slim:
            metadata = slim["metadata"]
            kept[list(_KEPT).index(item["kind"]), metadata.get("namespace", ""), metadata["name"]] = slim
    return [kept[key] for key in sorted(kept)]


def _may_have_nodes(item: Table) -> bool:
    """Whether an object is a GPUPool to which an autoscaler can add nodes."""
    return item["kind"] == "GPUPool" and bool(table(table(item, "spec"), "provision"))


def write(documents: list[dict[str, Any]], path: str) -> None:
    """Writes captured objects to a file, JSON by its name or else YAML, or to stdout; reports what it wrote."""
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
    say(f"wrote {path}: {nodes} nodes, {pods} pods and what pools are read from; it has names of {NAMES}")


def _site(raw: Table, selected: set[str]) -> dict[str, Any] | None:
    """The operator's own prices and rows; its mirrors name private registries and change no plan."""
    metadata, text = table(raw, "metadata"), table(raw, "data").get(FILE)
    if metadata.get("name") != CONFIG_MAP or not isinstance(text, str):
        return None
    documents = read_documents(text)
    said = documents[0] if documents and isinstance(documents[0], dict) else {}
    kept = present(said, "prices", "catalog")
    return an_object(raw, filled(namespace=metadata.get("namespace")), data={FILE: as_yaml(kept)}) if kept else None


def _profile(raw: Table, selected: set[str]) -> dict[str, Any]:
    """The measurements of a profile's jobs, without the jobs, which are private."""
    runs = ("perSecond", "seconds", "dollars", "time")
    known = ("device", "accelerator", "shape", "precision", "unit", "perSecond", "count")
    measurements = [
        {**present(each, *known), "runs": [present(run, *runs) for run in tables(each, "runs")]}
        for each in tables(table(raw, "status"), "measurements")
    ]
    namespace = table(raw, "metadata").get("namespace")
    return an_object(raw, filled(namespace=namespace), status=filled(measurements=measurements))


def _node(raw: Table, selected: set[str]) -> dict[str, Any]:
    metadata, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    labels = {key: value for key, value in table(metadata, "labels").items() if key in selected or _ours(key)}
    written = table(metadata, "annotations")
    annotations = {k: v for k, v in written.items() if domain(k) == GROUP}
    if pods := pods_per_card(written):  # without the ids of the cards
        annotations[OF_SPLITTING[0]] = f'[{{"count":{pods}}}]'
    provider = provider_of(str(spec.get("providerID") or ""))
    types = {condition.type for condition in read_conditions(status)} | {"Ready"}
    conditions = [condition for condition in tables(status, "conditions") if condition.get("type") in types]
    taints = [present(taint, "key", "value", "effect") for taint in tables(spec, "taints")]
    return an_object(
        raw,
        filled(deletionTimestamp=metadata.get("deletionTimestamp"), labels=labels, annotations=annotations),
        spec=filled(
            providerID=f"{provider}://" if provider else None, unschedulable=spec.get("unschedulable"), taints=taints
        ),
        status=filled(
            capacity=amounts(table(status, "capacity")),
            allocatable=amounts(table(status, "allocatable")),
            conditions=[present(condition, "type", "status", "reason") for condition in conditions],
            nodeInfo=present(table(status, "nodeInfo"), *_OF_HOST),
            runtimeHandlers=[{"name": name} for name in sorted(read_handlers(status, []) or ())],
        ),
    )


def _pod(raw: Table, selected: set[str]) -> dict[str, Any] | None:
    """A pod as the resources that it uses on its node, or will use; None if it uses none."""
    metadata, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    labels = present(table(metadata, "labels"), Label.JOB_UID, Label.ATTEMPT)
    # A pod of a GPUJob without a node uses nothing of one, but quotas count it.
    nominated = status.get("nominatedNodeName")
    if not (spec.get("nodeName") or nominated or labels.get(Label.JOB_UID)) or status.get("phase") in TERMINAL_PHASES:
        return None
    claim = table(status, EXTENDED_STATUS)
    agent = [{"kind": "DaemonSet"} for owner in tables(metadata, "ownerReferences") if owner.get("kind") == "DaemonSet"]
    files = device_files(spec)
    return an_object(
        raw,
        filled(
            namespace=metadata.get("namespace"),
            uid=_uid(metadata.get("uid")),
            labels=labels,
            ownerReferences=agent if files else None,
        ),
        spec=filled(
            nodeName=spec.get("nodeName"),
            volumes=files + mounted_claims(spec),
            initContainers=[container(each) for each in tables(spec, "initContainers")],
            containers=[container(each) for each in tables(spec, "containers")],
            overhead=amounts(table(spec, "overhead")),
        ),
        status=filled(
            phase=status.get("phase"),
            nominatedNodeName=nominated,
            extendedResourceClaimStatus=present(claim, "resourceClaimName") or None,
        )
        | resized(spec, status),
    )


def _uid(value: Any) -> str | None:
    """A pod's uid, by which claims name it; None if it is not a uid."""
    return value if isinstance(value, str) and _UID.fullmatch(value) else None


def _namespace(raw: Table, selected: set[str]) -> dict[str, Any]:
    """A namespace with the labels that decide about its jobs, and what the platform gives its pods: ids, and labels of their nodes."""
    metadata = table(raw, "metadata")
    labels, annotations = table(metadata, "labels"), table(metadata, "annotations")
    kept = {key: labels[key] for key in labels if key == ENFORCE or key in selected}
    ends = {"phase": "Terminating"} if is_terminating(raw) else {}
    return an_object(raw, filled(labels=kept, annotations=present(annotations, *ANNOTATIONS)), status=ends)


def _gpupool(raw: Table, selected: set[str]) -> dict[str, Any] | None:
    """An admin's GPUPool; published ones follow from the nodes."""
    metadata = table(raw, "metadata")
    if table(metadata, "labels").get(Label.DISCOVERED) == "true":
        return None
    spec = dict(table(raw, "spec"))
    if "env" in spec:
        spec["env"] = [{"name": entry.get("name"), "value": REDACTED} for entry in tables(spec, "env")]
    return an_object(raw, present(metadata, "creationTimestamp"), spec=spec)


def _volume_claim(raw: Table, selected: set[str]) -> dict[str, Any]:
    """A claim as its binding and its access modes; one that is not bound also as its StorageClass, size and selector."""
    metadata, spec = table(raw, "metadata"), table(raw, "spec")
    waits = table(raw, "status").get("phase") == "Pending" and not spec.get("volumeName")
    size = present(table(table(spec, "resources"), "requests"), "storage")
    rules = [
        {"key": _hidden(key), "operator": operator, "values": [*map(_hidden, values)]}
        for key, operator, values in read_selector(table(spec, "selector"))
    ]
    selector = filled(matchExpressions=rules)
    wanted = present(spec, "storageClassName", "volumeMode") | filled(
        resources=filled(requests=size), selector=selector
    )
    hidden = {"storageClassName": REDACTED} if spec.get("storageClassName") else {}
    return an_object(
        raw,
        filled(namespace=metadata.get("namespace"), deletionTimestamp=metadata.get("deletionTimestamp")),
        spec=present(spec, "accessModes", "volumeName") | (wanted if waits else hidden),
        status=present(table(raw, "status"), "phase"),
    )


def _volume(raw: Table, selected: set[str]) -> dict[str, Any]:
    """A PersistentVolume as its nodes, and an Available one as the claims that it fits; the location of its data is private."""
    of_volume, spec = table(table(raw, "metadata"), "labels"), table(raw, "spec")
    labels = present(of_volume, *ZONES)
    status = present(table(raw, "status"), "phase")
    # Whether a driver attaches it decides, so its kind stays.
    source: dict[str, Any] = {name: {} for name in NEVER_ATTACHED if name in spec}
    kept = present(spec, "nodeAffinity", "accessModes") | source
    kept |= filled(csi=present(table(spec, "csi"), "driver"))
    if status.get("phase") == "Available":
        kept |= present(spec, "storageClassName", "capacity", "volumeMode")
        kept |= filled(claimRef=present(table(spec, "claimRef"), "namespace", "name"))
        labels |= {_hidden(key): _hidden(str(value)) for key, value in of_volume.items()}
    return an_object(raw, filled(labels=labels), spec=kept, status=status)


def _hidden(text: str) -> str:
    """A name for a part of a label with which selectors and labels still match; the part itself is private."""
    return f"x{sha256(text.encode(errors='replace')).hexdigest()[:12]}"


def _storage_class(raw: Table, selected: set[str]) -> dict[str, Any]:
    """A StorageClass as its name, whether it is a default, and where its volumes are made; its parameters are private."""
    metadata = table(raw, "metadata")
    said = present(table(metadata, "annotations"), *OF_DEFAULT)
    kept = present(metadata, "creationTimestamp") | filled(annotations=said)
    return an_object(raw, kept) | present(raw, "provisioner", "volumeBindingMode", "allowedTopologies")


def _of_dra(raw: Table, selected: set[str]) -> dict[str, Any]:
    """A DRA driver's devices, the allocation of a claim (without its request), the devices of a class; without configurations of
    devices, which may contain anything.
    """
    metadata, status = table(raw, "metadata"), table(raw, "status")
    extended = present(table(metadata, "annotations"), EXTENDED_CLAIM)
    kept = filled(namespace=metadata.get("namespace"), annotations=extended)
    if raw["kind"] == "ResourceClaim":
        results = table(table(status, "allocation"), "devices").get("results")
        owners = [present(owner, "kind", "uid") for owner in tables(metadata, "ownerReferences")] if extended else []
        held = filled(allocation={"devices": {"results": results}} if results else None)
        return an_object(raw, kept | filled(ownerReferences=owners), status=held | present(status, "reservedFor"))
    return an_object(raw, kept, spec={key: value for key, value in table(raw, "spec").items() if key != "config"})


def _members(
    *members: str, metadata: Sequence[str] = (), spec: Sequence[str] = (), status: Sequence[str] = ()
) -> Redaction:
    """Keeps these members of an object, and these of its metadata, spec and status."""

    def kept(raw: Table, selected: set[str]) -> dict[str, Any]:
        parts = {"spec": present(table(raw, "spec"), *spec), "status": present(table(raw, "status"), *status)}
        return an_object(raw, present(table(raw, "metadata"), *metadata), **parts) | present(raw, *members)

    return kept


_KEPT: Final[Mapping[str, Redaction]] = {
    "ConfigMap": _site,
    "RuntimeClass": _members("handler", "overhead", "scheduling"),
    "GPURuntime": lambda raw, selected: an_object(raw, {}, spec=dict(table(raw, "spec"))),
    "PriorityClass": _members("value", "globalDefault"),
    "GPUPool": _gpupool,
    "Namespace": _namespace,
    "Node": _node,
    "Pod": _pod,
    "ResourceQuota": _members(
        metadata=["namespace"], spec=["hard", "scopes", "scopeSelector"], status=["hard", "used"]
    ),
    "LimitRange": _members(metadata=["namespace"], spec=["limits"]),
    "PersistentVolumeClaim": _volume_claim,
    "PersistentVolume": _volume,
    "StorageClass": _storage_class,
    "GPUJobProfile": _profile,
    "GPUJob": live_job,
    "Job": child,
    **dict.fromkeys(KINDS, _of_dra),
}
"""How each kind is redacted, in the order in which they are written; other kinds are left out."""


def _ours(key: object) -> bool:
    """Whether the planner, or a later one, may read a node's label."""
    text, of_key = str(key), domain(key)
    if text.startswith(TELLING) or text in _NODE_POOLS or text in _OF_HEALTH:
        return True
    return any(of_key == known or of_key.endswith("." + known) for known in LABEL_DOMAINS)
