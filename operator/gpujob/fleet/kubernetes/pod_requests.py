"""The resources that a pod uses on its node, as kube-scheduler counts them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.kubernetes.quantities import read_amount, read_devices, read_others, read_resources
from gpujob.values import quantity
from gpujob.values.untrusted import table, tables

RESIZED: Final = ("cpu", "memory")
"""The resources of a container that can be resized in place."""

Held = Mapping[str, Mapping[str, Any]]
"""The statuses of containers whose kubelet holds other requests than the spec says, by name."""

NONE_HELD: Final[Held] = MappingProxyType({})


def effective_requests(
    spec: Mapping[str, Any], unread: list[str], status: Mapping[str, Any] = NONE_HELD
) -> tuple[Resources, Mapping[str, int]]:
    """kube-scheduler's sum: the containers' sum or the largest init step, sidecars included, plus overhead. Of a container that is
    resized in place the larger of what the spec says and what the kubelet holds; of an infeasible resize the latter.

    The request of the pod as a whole (spec.resources) replaces the sum. Source: k8s.io/component-helpers resource.PodRequests.
    """
    # Most pods have one container: the pod itself is counted with the first.
    first, *others = tables(spec, "containers") or [{}]
    held = held_otherwise(spec, status)
    running, devices = _requests(first, unread, held, pods=1)
    for container in others:
        needs, own = _requests(container, unread, held)
        running, devices = running + needs, _sum(devices, own)
    if "initContainers" in spec:
        running, devices = _with_init_steps(spec, unread, held, running, devices)
    if "resources" in spec:
        running = _with_pod_requests(spec, unread, running)
    if "overhead" in spec:
        overhead = read_resources(table(spec, "overhead"), unread)
        running += Resources(overhead.millicores, overhead.memory, overhead.storage or 0)
    return running, devices


def held_otherwise(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Held:
    """The statuses of a pod's containers that are resized in place and not done, by name; their `infeasible` says whether the spec's
    requests do not count.
    """
    found = {}
    for name in ("containers", "initContainers"):
        statuses = tables(status, name[:-1] + "Statuses")
        seen = {str(each.get("name")): each for each in statuses if "resources" in each} if statuses else {}
        for container in tables(spec, name) if seen else ():
            mine = seen.get(str(container.get("name")), NONE_HELD)
            wanted = table(table(container, "resources"), "requests")
            held = (table(table(mine, "resources"), "requests"), table(mine, "allocatedResources"))
            if mine and any(each.get(key) != wanted.get(key) for each in held if each for key in RESIZED):
                found[str(container.get("name"))] = mine
    if found and any(
        each.get("type") == "PodResizePending" and each.get("reason") == "Infeasible"
        for each in tables(status, "conditions")
    ):
        return {name: {**each, "infeasible": True} for name, each in found.items()}
    return found or NONE_HELD


def _with_init_steps(
    spec: Mapping[str, Any], unread: list[str], held: Held, running: Resources, devices: dict[str, int]
) -> tuple[Resources, dict[str, int]]:
    """The resources of the containers with the sidecars among the init containers, or of the largest init step."""
    sidecars, sidecar_devices = Resources(), dict[str, int]()
    peak, peak_devices = Resources(), dict[str, int]()
    for container in tables(spec, "initContainers"):
        needs, own = _requests(container, unread, held)
        if container.get("restartPolicy") == "Always":
            sidecars, sidecar_devices = sidecars + needs, _sum(sidecar_devices, own)
            needs, own = Resources(), {}
        peak = peak.at_least(sidecars + needs)
        peak_devices = _largest(peak_devices, _sum(sidecar_devices, own))
    return (running + sidecars).at_least(peak), _largest(_sum(devices, sidecar_devices), peak_devices)


def _with_pod_requests(spec: Mapping[str, Any], unread: list[str], of_containers: Resources) -> Resources:
    """The containers' needs, with CPU and memory of the pod's own request where it has one."""
    resources = table(spec, "resources")
    own = read_resources({**table(resources, "limits"), **table(resources, "requests")}, unread)
    return of_containers._replace(
        millicores=own.millicores or of_containers.millicores, memory=own.memory or of_containers.memory
    )


def _requests(
    container: Mapping[str, Any], unread: list[str], held: Held, pods: int = 0
) -> tuple[Resources, dict[str, int]]:
    resources = table(container, "resources")
    wanted = {**table(resources, "limits"), **table(resources, "requests")}
    needs = Resources(
        millicores=read_amount(wanted, "cpu", quantity.parse_millicores, unread) or 0,
        memory=read_amount(wanted, "memory", quantity.parse_bytes, unread) or 0,
        storage=read_amount(wanted, "ephemeral-storage", quantity.parse_bytes, unread) or 0,
        pods=pods,
    )
    if held and (status := held.get(str(container.get("name")))):
        needs = _resized(needs, status, unread)
    devices = read_devices(wanted, unread)
    others = read_others(wanted)
    return needs, {**devices, **others} if others else devices


def _resized(needs: Resources, status: Mapping[str, Any], unread: list[str]) -> Resources:
    """The needs of a container that is resized in place."""
    each = (table(table(status, "resources"), "requests"), table(status, "allocatedResources"))
    sizes = [read_resources({key: one.get(key) for key in RESIZED}, unread) for one in each]
    sizes += [] if status.get("infeasible") else [needs]
    return needs._replace(millicores=max(size.millicores for size in sizes), memory=max(size.memory for size in sizes))


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    if not one or not other:
        return one or other
    return {key: one.get(key, 0) + other.get(key, 0) for key in {**one, **other}}


def _largest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in {**one, **other}}
