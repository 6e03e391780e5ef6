"""What a namespace can still use: its ResourceQuotas, read before placement instead of after missing pods.

Only quotas whose scopes hold for the pods of a job count (`quota_scopes`). Figures are counts, millicores and bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.policy.quota_scopes import PodTraits, Scope, hold, read_scopes
from gpujob.values.errors import BadQuantity
from gpujob.values.finding import Cores, Finding, Need, Size
from gpujob.values.quantity import parse_bytes, parse_millicores
from gpujob.values.untrusted import one_line, table
from gpujob.values.vocabulary import GROUP, Reason

OF_GPUJOBS: Final = f"count/gpujobs.{GROUP}"
"""A quota's name for the number of GPUJob objects."""

OF_OTHER_OBJECTS: Final = (
    *("count/jobs.batch", OF_GPUJOBS, "services", ".deviceclass.resource.k8s.io/devices", "resource.k8s.io"),
    *("configmaps", "requests.storage", "persistentvolumeclaims"),
)
"""Suffixes of resource names that no pod uses; a quota with scopes counts pods only."""

OF_RESOURCE_CLAIMS: Final = "count/resourceclaims.resource.k8s.io"
OF_TEMPLATES: Final = "count/resourceclaimtemplates.resource.k8s.io"

CONFIG_MAPS: Final = ("configmaps", "count/configmaps")

OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
"""The suffix of a quota's name for the devices of a DeviceClass."""

NOTHING: Final[Mapping[str, int]] = MappingProxyType({})

OF_STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"

Claims = tuple[tuple[str, int], ...]
"""Volume claims that each pod creates: StorageClass (empty: the cluster's default) and bytes."""

Quotas = Mapping[str, tuple["Quota", ...]]
"""The quotas of each namespace that has some."""


@dataclass(frozen=True, slots=True)
class Quota:
    """One ResourceQuota: the limit and the remainder, by resource name."""

    name: str
    hard: Mapping[str, int] = field(hash=False)
    left: Mapping[str, int] = field(hash=False)
    unread: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Resources whose figures are no quantities, with their text; what they allow is unknown."""
    scopes: tuple[Scope, ...] = ()

    def counts(self, pod: PodTraits) -> bool | None:
        """Whether such a pod is counted; None if unknown."""
        return hold(self.scopes, pod)

    def after(self, needs: Mapping[str, int]) -> Quota:
        """The quota after this much is used."""
        return replace(self, left={name: amount - needs.get(name, 0) for name, amount in self.left.items()})


def read_quota(raw: Mapping[str, Any]) -> Quota:
    """The quota of a ResourceQuota object."""
    spec, status = table(raw, "spec"), table(raw, "status")
    scopes = read_scopes(spec)
    unread: dict[str, str] = {}
    hard = _amounts(table(status, "hard") or table(spec, "hard"), unread)
    used = _amounts(table(status, "used"), unread)
    if scopes:
        hard = {name: amount for name, amount in hard.items() if not name.endswith(OF_OTHER_OBJECTS)}
    return Quota(
        str(table(raw, "metadata").get("name", "")),
        hard,
        {name: amount - used.get(name, 0) for name, amount in hard.items()},
        unread,
        scopes,
    )


def quotas_of(found: Iterable[tuple[str, Quota]]) -> Quotas:
    """Quotas by namespace, sorted by name."""
    by_namespace: dict[str, list[Quota]] = {}
    for namespace, quota in found:
        if quota.hard or quota.unread:
            by_namespace.setdefault(namespace, []).append(quota)
    return {name: tuple(sorted(quotas, key=lambda quota: quota.name)) for name, quotas in by_namespace.items()}


def counted_as(resource: str, device_class: str | None = None) -> str:
    """A quota's name for GPUs: the resource's name, or the DeviceClass for ResourceClaims."""
    return f"{device_class}{OF_CLASS}" if device_class else f"requests.{resource}"


def objects_of(pods: int, by_claim: bool) -> dict[str, int]:
    """The objects of a gang of this many pods besides them, by their names in quotas: its Job, the Service by which several pods
    find each other, and with `by_claim` the template of the pods' ResourceClaims.
    """
    services = int(pods > 1)
    return {"services": services, "count/services": services, OF_TEMPLATES: int(by_claim), "count/jobs.batch": 1}


def taken_by_pods(
    counted: Iterable[str],
    gpus: int,
    needs: Resources,
    pods: int,
    claims: Claims = (),
    others: Mapping[str, int] = NOTHING,
) -> dict[str, int]:
    """What pods use of a quota: their GPUs under each of the names in `counted`, other devices of each pod, and the volume claims
    of each pod; their requests equal their limits.
    """
    cpu, memory, storage = needs.millicores, needs.memory, needs.storage or 0
    each = {
        **dict.fromkeys(counted, gpus),
        **{f"requests.{resource}": count for resource, count in others.items()},
        **(_of_claims(claims) if claims else {}),
        "cpu": cpu, "requests.cpu": cpu, "limits.cpu": cpu,
        "memory": memory, "requests.memory": memory, "limits.memory": memory,
        "ephemeral-storage": storage, "requests.ephemeral-storage": storage, "limits.ephemeral-storage": storage,
        "pods": 1, "count/pods": 1,
    }  # fmt: skip
    if any(name.endswith(OF_CLASS) for name in each):
        each[OF_RESOURCE_CLAIMS] = 1
    return {key: amount * pods for key, amount in each.items()}


def _of_claims(claims: Claims) -> dict[str, int]:
    """What the volume claims of one pod use: in total and of their StorageClass."""
    found: dict[str, int] = {}
    for storage_class, size in claims:
        for prefix in ("", f"{storage_class}{OF_STORAGE_CLASS}") if storage_class else ("",):
            found[f"{prefix}requests.storage"] = found.get(f"{prefix}requests.storage", 0) + size
            found[f"{prefix}persistentvolumeclaims"] = found.get(f"{prefix}persistentvolumeclaims", 0) + 1
    if found:
        found["count/persistentvolumeclaims"] = found["persistentvolumeclaims"]
    return found


def without_config_map(quotas: Iterable[Quota]) -> Finding | None:
    """The warning that no further ConfigMap is allowed: the runner's files need one, which may exist already."""
    for quota in quotas:
        for name in CONFIG_MAPS:
            if quota.left.get(name, 1) < 1:
                sentence = "ResourceQuota {}: {} has 0 left of {}; the job needs the runner's ConfigMap unless an earlier job left it"
                return Finding(Reason.QUOTA_UNCHECKED, sentence, (quota.name, name, quota.hard[name]))
    return None


def of_default_class(quotas: Iterable[Quota], claims: Claims, pods: int) -> Finding | None:
    """The warning that a quota of one StorageClass would refuse claims that name none: the API server gives them the cluster's
    default class, which is unknown here.
    """
    sizes = [size for storage_class, size in claims if not storage_class]
    needed = {"requests.storage": sum(sizes) * pods, "persistentvolumeclaims": len(sizes) * pods}
    for quota in quotas if sizes else ():
        for name in sorted(quota.left):
            storage_class, of_class, what = name.partition(OF_STORAGE_CLASS)
            if of_class and quota.left[name] < needed.get(what, 0):
                sentence = (
                    "ResourceQuota {}: {} would refuse the volume claims if {} is the default StorageClass; "
                    "name the class in them"
                )
                return Finding(Reason.QUOTA_UNCHECKED, sentence, (quota.name, name, storage_class))
    return None


def is_used_by_pods(name: str) -> bool:
    """Whether pods use a resource of a quota while they run; volumes and other objects may outlive them."""
    of_volumes = name.endswith(("requests.storage", "persistentvolumeclaims"))
    return not of_volumes and name != "services" and (name == "count/pods" or not name.startswith("count/"))


def quotas_after(quotas: Quotas, namespace: str, needs: Mapping[str, int], pod: PodTraits) -> Quotas:
    """The quotas after a reservation for a gang of such pods of this namespace."""
    if namespace not in quotas:
        return quotas
    after = (quota.after(needs) if quota.counts(pod) else quota for quota in quotas[namespace])
    return {**quotas, namespace: tuple(after)}


def shortages(quotas: Iterable[Quota], needs: Mapping[str, int]) -> tuple[tuple[Finding, ...], bool]:
    """Every resource that quotas do not grant in this amount, and whether they never will (the request exceeds the limit); then
    only those that never will.

    A quota that cannot be read grants nothing until it is fixed.
    """
    quotas = tuple(quotas)
    for quota in quotas:
        for name in sorted(quota.unread):
            if needs.get(name, 0) > 0:
                sentence = "ResourceQuota {}: {} is {}, which is not a quantity; fix the quota"
                return (Finding(Reason.INVALID_SPEC, sentence, (quota.name, name, quota.unread[name])),), True
    short = [
        (needs[name] <= quota.hard[name], quota, name)
        for quota in quotas
        for name in sorted(quota.hard)
        if needs.get(name, 0) > max(quota.left[name], 0) and needs.get(name, 0) > 0
    ]
    if not short:
        return (), False
    fits_when_empty = all(fits for fits, _, _ in short)
    ordered = sorted(short, key=lambda entry: (entry[0], entry[1].name, entry[2]))
    return tuple(
        _short(quota, name, needs[name]) for fits, quota, name in ordered if fits is fits_when_empty
    ), not fits_when_empty


def _short(quota: Quota, name: str, needed: int) -> Finding:
    show = _shown(name)
    asked = Need if show is Size else show
    sentence = "ResourceQuota {}: {} needs {}, {} left of {}"
    if name == OF_GPUJOBS:
        sentence += ", so the API server refuses the GPUJob"
    numbers = (quota.name, name, asked(needed), show(max(quota.left[name], 0)), show(quota.hard[name]))
    return Finding(Reason.QUOTA_EXCEEDED, sentence, numbers)


def _shown(name: str) -> Any:
    if name.endswith("cpu"):
        return Cores
    return Size if name.endswith(("memory", "storage")) else str


def _amounts(found: Mapping[str, Any], unread: dict[str, str]) -> dict[str, int]:
    """The figures by resource; unreadable ones go to `unread`."""
    amounts = {}
    for name, text in found.items():
        if not isinstance(name, str):
            continue  # YAML reads an unquoted `on` or `5` as no text, which is no resource name.
        parse = parse_millicores if name.endswith("cpu") else parse_bytes
        try:
            amounts[name] = int(parse(str(text)))
        except (BadQuantity, ValueError, OverflowError):
            unread[str(name)[:253]] = one_line(str(text)[:24])
    return amounts
