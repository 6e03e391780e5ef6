"""Future nodes: what an autoscaler can add to an admin's pool, and node pools that may grow on their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gpujob.fleet.gpupools.selection import AdminPool, Provision
from gpujob.fleet.kubernetes.objects import Labels, Resources
from gpujob.fleet.pools.node import Growth, PoolNode
from gpujob.values.finding import Finding, listed
from gpujob.values.quantity import GI
from gpujob.values.vocabulary import Reason

UNCOUNTED: Final = Resources(millicores=10**9, memory=2**60, storage=2**60, pods=10**6)
"""The assumed other resources of a node, each if it is unknown: never a reason to reject."""

SHARE_PER_GPU: Final = Resources(millicores=4_500, memory=18 * GI, storage=30 * GI, pods=0)
"""The basis of a GPU's share if the node's resources are unknown: pods get 4 cores and 16Gi for each."""

OF_KARPENTER: Final = "karpenter.sh/nodepool"
"""The label of nodes that Karpenter adds. It passes over pods whose affinity names nodes or host names (kubernetes-sigs/karpenter
pkg/controllers/provisioning/provisioner.go, v1): such pods would never be bound."""

NODE_POOL_LABELS: Final = (
    (OF_KARPENTER, "Karpenter node pool"),
    ("karpenter.sh/provisioner-name", "Karpenter provisioner"),
    ("eks.amazonaws.com/nodegroup", "EKS node group"),
    ("alpha.eksctl.io/nodegroup-name", "EKS node group"),
    ("cloud.google.com/gke-nodepool", "GKE node pool"),
    ("kubernetes.azure.com/agentpool", "AKS node pool"),
    ("agentpool", "AKS node pool"),
    ("doks.digitalocean.com/node-pool", "DigitalOcean node pool"),
    ("doks.digitalocean.com/node-pool-id", "DigitalOcean node pool"),
    ("nebius.com/node-group-id", "Nebius node group"),
    ("sagemaker.amazonaws.com/instance-group-name", "HyperPod instance group"),
    ("oke.oraclecloud.com/pool.name", "OKE node pool"),
    ("compute.coreweave.com/node-pool", "CoreWeave node pool"),
    ("ibm-cloud.kubernetes.io/worker-pool-name", "IBM Cloud worker pool"),
    ("alibabacloud.com/nodepool-id", "Alibaba Cloud node pool"),
    ("vke.vultr.com/node-pool", "Vultr node pool"),
    ("lke.linode.com/pool-id", "Linode node pool"),
    ("k8s.scaleway.com/pool-name", "Scaleway node pool"),
    ("worker.gardener.cloud/pool", "Gardener worker pool"),
    ("kops.k8s.io/instancegroup", "kOps instance group"),
)
"""Labels of nodes that another system creates and may create more of (sources: docs/pools.md)."""


def growth_of(admin: AdminPool, nodes: Sequence[PoolNode]) -> Growth | None:
    """The nodes that can be added to a pool with these nodes; None if the admin allows none.

    A new node equals the largest existing one; spec.provision overrides that.
    """
    provision, gpus = admin.provision, gpus_of_new(admin, (node.total or node.healthy for node in nodes))
    if provision is None or not gpus:
        return None
    return Growth(_template(provision, gpus, nodes), max(0, provision.max_nodes - len(nodes)))


def gpus_of_new(admin: AdminPool, there: Iterable[int]) -> int:
    """The GPUs of a new node: spec.provision's, else those of the largest existing node; 0 if unknown."""
    if admin.provision is None:
        return 0
    return admin.provision.gpus_per_node or max(there, default=0)


def unknown_of_new(admin: AdminPool, *, known: bool) -> Finding | None:
    """The unknown facts about nodes that can be added to a pool without nodes, whose model may be known; None if all are known."""
    said = (
        ("spec.accelerator", known),
        ("spec.provision.gpusPerNode", admin.provision and admin.provision.gpus_per_node),
    )
    missing = [field for field, value in said if not value]
    if not missing:
        return None
    sentence = "no existing node shows what spec.provision adds; set {}"
    return Finding(Reason.DEVICE_UNKNOWN, sentence, (" and ".join(missing),))


def _template(provision: Provision, gpus: int, nodes: Sequence[PoolNode]) -> PoolNode:
    like = max(nodes, key=lambda node: (node.allocatable.memory, node.name), default=None)
    known = Resources(
        provision.millicores or (like.allocatable.millicores if like else 0),
        provision.memory or (like.allocatable.memory if like else 0),
        provision.storage or (like.allocatable.storage if like else UNCOUNTED.storage),
        like.allocatable.pods if like else 110,
    )
    taints = provision.taints if provision.taints is not None else like.taints if like else ()
    share = Resources(
        known.millicores or SHARE_PER_GPU.millicores * gpus,
        known.memory or SHARE_PER_GPU.memory * gpus,
        (SHARE_PER_GPU.storage or 0) * gpus if lacks_disk(known) else known.storage,
        known.pods,
    )
    has = known._replace(millicores=known.millicores or UNCOUNTED.millicores, memory=known.memory or UNCOUNTED.memory)
    return PoolNode("", gpus, gpus, gpus, has, share, has, taints, coming=True)


def lacks_disk(known: Resources) -> bool:
    """Whether the disk of a node that can be added is unknown."""
    return known.storage == UNCOUNTED.storage


def warnings_of(growth: Growth | None) -> tuple[Finding, ...]:
    """The warnings about unknown facts of nodes that an autoscaler can add."""
    if growth is None or not growth.count:
        return ()
    has = growth.template.allocatable
    sizes = (
        ("CPU", "cpu", has.millicores == UNCOUNTED.millicores),
        ("memory", "memory", has.memory == UNCOUNTED.memory),
    )
    unknown = [(name, f"spec.provision.{field}") for name, field, lacks in sizes if lacks]
    if not unknown:
        return ()
    names, fields = (listed(words) for words in zip(*unknown, strict=True))
    sentence = "{} of nodes to be added " + ("is" if len(unknown) == 1 else "are") + " unknown; set {}"
    return (Finding(Reason.NODE_UNKNOWN, sentence, (names, fields)),)


def node_pool_of(labels: Labels) -> str:
    """The owner of these nodes, if a cloud or Karpenter may add more of them; empty without such a label."""
    found = ((words, labels[key]) for key, words in NODE_POOL_LABELS if labels.get(key))
    return next((f"{words} {name}" for words, name in found), "")
