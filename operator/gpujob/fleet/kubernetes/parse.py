"""Node and Pod objects as records, read once from what the API server sends.

Everything in them is hostile input: an unreadable figure is left out and reported, never used and never raised, so that one
malformed object does not stop the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from sys import intern
from typing import Any, Final

import orjson

from gpujob.fleet.health.conditions import read_conditions
from gpujob.fleet.kubernetes.image_volumes import image_mounts
from gpujob.fleet.kubernetes.objects import (
    DEVICE_FILES,
    EXTENDED_STATUS,
    HOST_DEVICES,
    MOST_DEVICES,
    TERMINAL_PHASES,
    Labels,
    Node,
    Pod,
    Taint,
    vendor_of,
)
from gpujob.fleet.kubernetes.pod_requests import effective_requests
from gpujob.fleet.kubernetes.quantities import read_amount, read_node_devices, read_node_resources, read_others
from gpujob.fleet.kubernetes.runtime_classes import read_handlers
from gpujob.values.quantity import parse_bytes
from gpujob.values.untrusted import one_line, table, tables, whole_number
from gpujob.values.vocabulary import Annotation, Label

_ORACLE: Final = "ocid1."
"""The prefix of Oracle's ids, which have no scheme."""


def provider_of(provider_id: str) -> str:
    """The scheme of a node's provider id (aws of aws:///us-east-1a/i-0), empty if it has none."""
    scheme, found, _ = provider_id.partition("://")
    return scheme[:32] if found else "oci" if provider_id.startswith(_ORACLE) else ""


USUAL_PODS: Final = 110
"""The default limit of a kubelet for its node."""


def read_node(raw: Mapping[str, Any]) -> Node:
    """The record of a Node object; never raises for its contents."""
    metadata, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    unread: list[str] = []
    # As the API server does, capacity stands for an absent allocatable, and the kubelet's 110 for pods.
    allocatable = table(status, "allocatable" if "allocatable" in status else "capacity")
    allocatable = {"pods": USUAL_PODS, **allocatable}
    others = read_others(allocatable)
    labels = table(metadata, "labels")
    annotations = table(metadata, "annotations")
    price = _text(annotations.get(Annotation.PRICE_PER_GPU_HOUR), f"annotation {Annotation.PRICE_PER_GPU_HOUR}", unread)
    return Node(
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        labels=_labels(labels, unread),
        taints=tuple(_taints(spec, unread)),
        ready=_is_ready(status),
        cordoned=_is_cordoned(spec, unread),
        leaving=bool(metadata.get("deletionTimestamp")),
        provider=provider_of(str(spec.get("providerID") or "")),
        price=price,
        allocatable=read_node_resources(allocatable, unread),
        devices=read_node_devices(allocatable, unread),
        capacity=read_node_devices(table(status, "capacity"), unread),
        others=others,
        image_mounts=image_mounts(status),
        handlers=read_handlers(status, unread),
        kernel=_reported(status, "kernelVersion"),
        system=_reported(status, "osImage"),
        platform=(_reported(status, "operatingSystem"), _reported(status, "architecture")),
        created=str(metadata.get("creationTimestamp") or "")[:32],
        pods_per_card=pods_per_card(annotations),
        split_as=_split_as(others),
        conditions=read_conditions(status),
        # Capacity repeats what allocatable says.
        unread=tuple(dict.fromkeys(unread)),
    )


OF_SPLITTING: Final = ("hami.io/node-nvidia-register", "4pd.io/node-nvidia-register", "volcano.sh/node-vgpu-register")
"""Annotations in which schedulers that split NVIDIA cards list them: HAMi (pkg/device/nvidia, v2.7: JSON; before, id,count,… for each
card and a colon) and Volcano's vGPU plugin (docs/config.md, v1.11: the same text).
"""
SPLIT: Final = ("volcano.sh/vgpu-", "volcano.sh/gpu-", "aliyun.com/gpu-", "tencent.com/vcuda-")
"""How resources begin with which schedulers split NVIDIA cards: Volcano's vGPU and GPU sharing plugins (docs, v1.11), Alibaba Cloud's
GPU sharing (AliyunContainerService/gpushare-device-plugin), Tencent's GPU manager (tkestack/gpu-manager).
"""
LONGEST_REGISTER: Final = 65536
"""Characters of such an annotation that are read; a card takes about 150."""


def _split_as(others: Mapping[str, int]) -> str:
    """The resource with which another scheduler splits a node's cards, the last by name (number before memory in Volcano's); empty
    if there is none."""
    return max((name for name, count in others.items() if count and name.startswith(SPLIT)), default="")


def pods_per_card(annotations: Mapping[str, Any]) -> int:
    """The number of pods that another scheduler lets share a card, the largest of all cards; 0 if none says so."""
    written = (annotations.get(name) for name in OF_SPLITTING if name in annotations)
    counts = (count for text in written if isinstance(text, str) for count in _counts(text[:LONGEST_REGISTER]))
    return max((count for count in counts if 0 < count <= MOST_DEVICES), default=0)


def _counts(register: str) -> Iterator[int]:
    try:
        cards = orjson.loads(register)
    except orjson.JSONDecodeError:
        cards = [{"count": each[1]} for card in register.split(":") if len(each := card.split(",")) > 1]
    for card in cards if isinstance(cards, list) else ():
        yield (whole_number(card.get("count")) or 0) if isinstance(card, Mapping) else 0


def _reported(status: Mapping[str, Any], member: str) -> str:
    """What a kubelet reports of its host, bounded; many nodes report the same."""
    found = table(status, "nodeInfo").get(member)
    return intern(found[:LONGEST_REPORT]) if isinstance(found, str) else ""


LONGEST_REPORT: Final = 80
"""Characters of what a kubelet reports of its host that are kept."""


def read_pod(raw: Mapping[str, Any]) -> Pod:
    """The record of a Pod object; never raises for its contents."""
    metadata, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    unread: list[str] = []
    needs, counted = effective_requests(spec, unread, status)
    labels = table(metadata, "labels")
    devices = {resource: count for resource, count in counted.items() if vendor_of(resource)}
    others = {resource: count for resource, count in counted.items() if resource not in devices}
    if _mounts_device_files(metadata, spec):
        devices[HOST_DEVICES] = MOST_DEVICES
    return Pod(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        node=str(spec.get("nodeName") or status.get("nominatedNodeName") or ""),
        job_uid=str(labels.get(Label.JOB_UID, "")),
        terminal=str(status.get("phase")) in TERMINAL_PHASES,
        needs=needs,
        devices=devices,
        attempt=whole_number(labels.get(Label.ATTEMPT)) or 0,
        others=others,
        extended_claim=str(table(status, EXTENDED_STATUS).get("resourceClaimName") or "")[:253]
        if EXTENDED_STATUS in status
        else "",
        volume_claims=volume_claims(spec),
        unread=tuple(dict.fromkeys(unread)) if unread else (),
    )


def volume_claims(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The PersistentVolumeClaims that a pod names in its volumes, each once, by name."""
    found = (table(volume, "persistentVolumeClaim").get("claimName") for volume in tables(spec, "volumes"))
    return tuple(sorted({intern(name[:253]) for name in found if isinstance(name, str) and name}))


def new_claims(spec: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """The StorageClass (empty: the default) and the bytes of each claim that is made for a pod alone (an ephemeral volume)."""
    found = [
        table(table(each, "ephemeral"), "volumeClaimTemplate")
        for each in tables(spec, "volumes")
        if "ephemeral" in each
    ]
    claims = ((table(each, "spec"), table(table(table(each, "spec"), "resources"), "requests")) for each in found)
    return tuple(
        (intern(str(claim.get("storageClassName") or "")[:253]), read_amount(amounts, "storage", parse_bytes, []) or 0)
        for claim, amounts in claims
    )


def _mounts_device_files(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    """Whether a pod uses the host's device files; agents of a DaemonSet only monitor them."""
    paths = (str(table(volume, "hostPath").get("path", "")) for volume in tables(spec, "volumes"))
    if not any(path.startswith(DEVICE_FILES) for path in paths):
        return False
    return not any(owner.get("kind") == "DaemonSet" for owner in tables(metadata, "ownerReferences"))


def _labels(labels: Mapping[Any, Any], unread: list[str]) -> Labels:
    """Labels as texts: whole numbers, true and false without quotes in YAML become their text."""
    found = {}
    for key, value in labels.items():
        if isinstance(value, int) and value.bit_length() < 64:
            value = str(value).lower()
        if isinstance(key, str) and isinstance(value, str):
            found[key] = value
        elif value is not None:
            unread.append(f"label {one_line(str(key)[:63])} is no text; put it in quotes")
    return found


def _taints(spec: Mapping[str, Any], unread: list[str]) -> Iterable[Taint]:
    """The taints; an unreadable one keeps all pods away, because it may be any taint."""
    taints = spec.get("taints") or []
    for taint in taints if isinstance(taints, list) else [taints]:
        key, effect = (taint.get("key"), taint.get("effect")) if isinstance(taint, dict) else (None, None)
        if isinstance(key, str) and isinstance(effect, str):
            yield Taint(key, str(taint.get("value") or ""), effect)
        else:
            unread.append("a taint has no key or no effect, and keeps every pod away")
            yield Taint(key if isinstance(key, str) else "unreadable", "", "NoSchedule")


def _is_ready(status: Mapping[str, Any]) -> bool:
    """Ready is True; a node without conditions (written by hand or by a capture) counts as ready."""
    conditions = tables(status, "conditions")
    ready = [condition.get("status") for condition in conditions if condition.get("type") == "Ready"]
    return not conditions or (bool(ready) and all(state in ("True", True) for state in ready))


def _is_cordoned(spec: Mapping[str, Any], unread: list[str]) -> bool:
    """Whether the node accepts no new pods; an unreadable value counts as true."""
    word = spec.get("unschedulable")
    said = {"true": True, "false": False, "none": False}.get(str(word).lower())
    if said is None:
        unread.append("spec.unschedulable is neither true nor false; the node is taken as cordoned")
    return said is not False


def _text(value: Any, what: str, unread: list[str]) -> str | None:
    """A text, or a number without quotes in YAML; None for anything else, which is reported."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if value is not None and not isinstance(value, str):
        unread.append(f"{what} is no text; put it in quotes")
    return value[:64] if isinstance(value, str) else None
