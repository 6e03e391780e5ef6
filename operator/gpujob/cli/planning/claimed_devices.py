"""Who holds the devices that ResourceClaims allocate, as the claims say it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gpujob.fleet.devices.from_slices import taken_from
from gpujob.fleet.dra.inventory import read_inventory
from gpujob.fleet.dra.resource_slices import Key, read_claim
from gpujob.values.untrusted import table, tables

if TYPE_CHECKING:
    from gpujob.catalog.catalog import Catalog
    from gpujob.fleet.kubernetes.objects import Pod
    from gpujob.fleet.sources.cluster_file import ClusterObjects


class Claimed(NamedTuple):
    """Devices of a node that a claim holds."""

    namespace: str
    name: str
    """The pod for which the claim is reserved, else the claim."""
    pod: Pod | None
    """The pod, if the cluster description has it."""
    reserved: bool
    """Whether a pod is named."""
    node: str
    devices: int


def claimed_devices(
    objects: ClusterObjects, resource: str, nodes: Collection[str] | None, catalog: Catalog
) -> Iterator[Claimed]:
    """What claims hold of a resource on these nodes (None: on all); not what their pods request by the resource's name, which is
    counted with the pods.
    """
    claims = [item for item in objects.others if item.get("kind") == "ResourceClaim"]
    if not claims:
        return
    inventory = read_inventory(objects.others, objects.pods)
    held_on: dict[Key, str] = {
        key: node.name
        for node in objects.nodes
        if nodes is None or node.name in nodes
        for key in taken_from(node, resource, inventory, catalog)
    }
    pods = {pod.uid: pod for pod in objects.pods if pod.uid}
    by_name = {(pod.namespace, pod.extended_claim) for pod in objects.pods if pod.extended_claim and not pod.terminal}
    for item in claims:
        claim, metadata = read_claim(item), table(item, "metadata")
        namespace, name = str(metadata.get("namespace") or "default"), str(metadata.get("name"))
        pod = next((pods[uid] for uid in claim.pods if uid in pods), None)
        if (claim.extended or (namespace, name) in by_name) and pod is not None and not pod.terminal:
            continue
        user = _user(item)
        for node, count in sorted(_counted(claim.devices, held_on).items()):
            yield Claimed(namespace, user or name, pod, bool(user), node, count)


def _counted(devices: tuple[Key, ...], held_on: Mapping[Key, str]) -> Mapping[str, int]:
    """How many of the devices are on each node."""
    found: dict[str, int] = defaultdict(int)
    for device in devices:
        if device in held_on:
            found[held_on[device]] += 1
    return found


def _user(claim: Mapping[str, Any]) -> str:
    """The first pod for which a claim is reserved; empty if there is none."""
    users = (
        each.get("name") for each in tables(table(claim, "status"), "reservedFor") if each.get("resource") == "pods"
    )
    return next((name for name in users if isinstance(name, str) and name), "")
