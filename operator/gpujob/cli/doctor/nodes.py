"""Checks of nodes: device plugins, labellers, runtime handlers, toolkit, kernels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from gpujob.catalog.images.versions import at_least
from gpujob.cli.doctor.facts import Facts, Raw, name_of
from gpujob.cli.doctor.finding import Found, error, fine, unknown, warning
from gpujob.fleet.kubernetes.runtime_classes import read_handlers
from gpujob.fleet.pools.runtime_class import NVIDIA_CLASS
from gpujob.values.finding import several
from gpujob.values.untrusted import one_line, table, tables
from gpujob.values.vocabulary import Vendor

PCI: Final = {Vendor.NVIDIA: "10de", Vendor.AMD: "1002"}
"""PCI vendor ids, as node-feature-discovery writes them into labels: pci-10de.present, pci-0302_10de.present."""
DISPLAYS: Final = ("0300", "0302", "0380", "1200")
"""PCI classes of GPUs: VGA, 3D and display controllers, processing accelerators. An NVIDIA network card has another."""

PLUGINS: Final = {
    Vendor.NVIDIA: ("nvidia.com/", "install NVIDIA's GPU operator or k8s-device-plugin"),
    Vendor.AMD: ("amd.com/", "install AMD's GPU operator or k8s-device-plugin"),
}
LABELLERS: Final = {
    Vendor.NVIDIA: ("nvidia.com/gpu.product", "install gpu-feature-discovery, which NVIDIA's GPU operator brings"),
    Vendor.AMD: ("amd.com/gpu.device-id", "enable the node labeller of AMD's GPU operator or device plugin"),
}
FABRICS: Final = ("rdma", "nic", "ib_", "mlx")
"""Words in resources of a vendor that are no GPUs."""

RUNTIME_CLASS: Final = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, handler: nvidia}"

SAFE_TOOLKIT: Final = "1.17.8"
"""The first NVIDIA Container Toolkit without CVE-2025-23266, by which a container takes over its node
(nvidia.custhelp.com/app/answers/detail/a_id/5659)."""
TOOLKIT_IMAGE: Final = re.compile(r"container-toolkit[^:@]*:v?([0-9]+[.][0-9]+[.][0-9]+)")

OLDEST_KERNEL: Final = "5.14"
"""The oldest kernel of the systems that ROCm 7 supports, but for 4.18 of RHEL 8
(rocm.docs.amd.com/projects/install-on-linux/en/latest/reference/system-requirements.html)."""


def device_plugins(facts: Facts) -> Iterator[Found]:
    """Nodes that have a vendor's GPU by their labels, and no device of it to give to pods."""
    check = "device-plugins"
    if not facts.nodes:
        yield unknown(check, "no node can be read", "ask for the right to list nodes, or use --cluster FILE")
        return
    # By a DRA driver or by the host's device files: no device plugin counts these.
    given = {node.name for pool in facts.fleet.whole_pools if pool.host_devices or pool.request for node in pool.nodes}
    serving, wrong = 0, False
    for vendor, (domain, remedy) in PLUGINS.items():
        without, dead = [], []
        for node in facts.nodes:
            if (devices := _devices(node, domain)) is None:
                if name_of(node) in given:
                    serving += _has_gpu(node, vendor)
                elif _has_gpu(node, vendor):
                    without.append(name_of(node))
            elif devices:
                serving += 1
            else:
                dead.append(name_of(node))
        wrong = wrong or bool(without or dead)
        if without:
            said = f"{len(without)} nodes have {vendor.value} GPUs by their labels and offer none to pods ({several(without)})"
            yield error(check, said, remedy)
        if dead:
            said = f"{len(dead)} nodes count {vendor.value} GPUs of which none is usable ({several(dead)})"
            yield error(check, said, "look at the device plugin's pods and at the driver there")
    if serving:
        yield fine(check, f"{serving} nodes offer GPUs to pods")
    elif not wrong:
        yield error(check, "no node offers GPUs to pods", "install the device plugin of each vendor on its nodes")


def labellers(facts: Facts) -> Iterator[Found]:
    """Nodes whose devices neither a label nor a GPUPool describes."""
    check, labelled = "labellers", 0
    described = {
        node.name for pool in facts.fleet.whole_pools if not pool.discovered and pool.accelerator for node in pool.nodes
    }
    for vendor, (label, remedy) in LABELLERS.items():
        nodes = [node for node in facts.nodes if _devices(node, PLUGINS[vendor][0])]
        bare = [name_of(node) for node in nodes if not _is_labelled(node, label) and name_of(node) not in described]
        labelled += len(nodes) - len(bare)
        if bare:
            yield warning(
                check,
                f"{len(bare)} nodes offer {vendor.value} GPUs without the label {label} ({several(bare)}), so model, memory "
                "and driver are guessed from other labels or unknown",
                f"{remedy}, or write a GPUPool with accelerator for them",
            )
    if labelled:
        yield fine(check, f"{labelled} nodes describe their GPUs")


def runtime_classes(facts: Facts) -> Iterator[Found]:
    """Whether pods on NVIDIA nodes reach their devices: the RuntimeClass, and its handler on each node."""
    check = "runtime-class"
    nodes = {name_of(node): _handlers(node) for node in facts.nodes if _devices(node, PLUGINS[Vendor.NVIDIA][0])}
    if not nodes:
        return
    known = facts.fleet.runtime_classes.get(NVIDIA_CLASS)
    if known is None:
        with_handler = [name for name, handlers in nodes.items() if handlers and NVIDIA_CLASS in handlers]
        if with_handler:
            yield warning(
                check,
                f"{len(with_handler)} nodes have the handler nvidia ({several(with_handler)}) and there is no RuntimeClass "
                "nvidia, so pods use it only where it is the default runtime",
                f"echo '{RUNTIME_CLASS}' | kubectl create -f -, or make it the default runtime",
            )
        else:
            yield fine(check, "there is no RuntimeClass nvidia: pods use the default runtime of the nodes")
        return
    lacking = [name for name, handlers in nodes.items() if handlers is not None and known.handler not in handlers]
    if lacking:
        handler, named = one_line(known.handler), several(lacking)
        said = f"{len(lacking)} nodes lack the handler {handler} of RuntimeClass nvidia ({named}), and pods do not start there"
        yield error(check, said, "run nvidia-ctk runtime configure on these nodes and restart the container runtime")
    else:
        yield fine(
            check, f"RuntimeClass nvidia is there, and no node is known to lack its handler {one_line(known.handler)}"
        )


def toolkits(facts: Facts) -> Iterator[Found]:
    """NVIDIA Container Toolkits that let a container take over its node, by the images of the pods that install them."""
    check, found = "container-toolkit", defaultdict[str, list[str]](list)
    for pod in facts.pods:
        spec = table(pod, "spec")
        for container in (*tables(spec, "containers"), *tables(spec, "initContainers")):
            if match := TOOLKIT_IMAGE.search(str(container.get("image", ""))[:512]):
                found[match[1]].append(str(spec.get("nodeName", "")))
    for version, nodes in sorted(found.items()):
        if at_least(version, SAFE_TOOLKIT) is False:
            named = sorted(filter(None, set(nodes)))
            where = several(named) or "a node"
            said = (
                f"NVIDIA Container Toolkit {version} on {where} has CVE-2025-23266: a container can take over its node"
            )
            yield error(
                check, said, f"update the toolkit to {SAFE_TOOLKIT} or newer, the GPU operator to 25.3.1 or newer"
            )
        else:
            yield fine(check, f"NVIDIA Container Toolkit {version} on {len(set(nodes))} nodes")
    if not found and any(_devices(node, PLUGINS[Vendor.NVIDIA][0]) for node in facts.nodes):
        said = "no pod installs NVIDIA's container toolkit, so its version is unknown"
        yield unknown(check, said, f"run nvidia-ctk --version on the NVIDIA nodes; it must be {SAFE_TOOLKIT} or newer")


def kernels(facts: Facts) -> Iterator[Found]:
    """Kernels of AMD nodes that no system of ROCm 7 has."""
    check, versions = "amd-kernel", defaultdict[str, list[str]](list)
    for node in facts.nodes:
        if _devices(node, PLUGINS[Vendor.AMD][0]):
            info = table(table(node, "status"), "nodeInfo")
            versions[one_line(str(info.get("kernelVersion", ""))[:100])].append(name_of(node))
    for version, nodes in sorted(versions.items()):
        release = re.match(r"[0-9]+[.][0-9]+", version)
        if release is None:
            yield unknown(check, f"{several(nodes)} do not report their kernel", "run uname -r there")
        elif at_least(release[0], OLDEST_KERNEL) is False and not (release[0] == "4.18" and ".el8" in version):
            said = f"kernel {version} of {several(nodes)} is older than any that AMD lists for ROCm 7 ({OLDEST_KERNEL}; 4.18 on RHEL 8)"
            yield warning(check, said, "update the nodes to a system of ROCm's system requirements")
        else:
            yield fine(check, f"kernel {version} on {len(nodes)} AMD nodes")


def _devices(node: Raw, domain: str) -> int | None:
    """Usable GPUs of a vendor; None where the node counts none at all."""
    status = table(node, "status")
    counts: dict[str, int] = {}
    for part in ("capacity", "allocatable"):
        for key, value in table(status, part).items():
            if key.startswith(domain) and not any(word in key for word in FABRICS):
                text = str(value)
                counts[key] = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    return sum(counts.values()) if counts else None


def _has_gpu(node: Raw, vendor: Vendor) -> bool:
    """Whether labels of node-feature-discovery, or of the vendor's own agents, say so."""
    labels, pci = table(table(node, "metadata"), "labels"), PCI[vendor]
    wanted = [
        f"feature.node.kubernetes.io/pci-{form}{pci}.present" for form in ("", *(f"{each}_" for each in DISPLAYS))
    ]
    own = {Vendor.NVIDIA: "nvidia.com/gpu.present", Vendor.AMD: "feature.node.kubernetes.io/amd-gpu"}[vendor]
    return any(labels.get(key) == "true" for key in (*(wanted[1:] if vendor is Vendor.NVIDIA else wanted), own))


def _is_labelled(node: Raw, label: str) -> bool:
    labels = table(table(node, "metadata"), "labels")
    return any(key == label or key.startswith((f"{label}.", f"beta.{label}")) for key in labels)


def _handlers(node: Raw) -> frozenset[str] | None:
    return read_handlers(table(node, "status"), [])
