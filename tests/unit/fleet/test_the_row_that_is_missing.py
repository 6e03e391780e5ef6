"""The row that the message for an unknown device names, pasted into a catalog, makes it known."""

from __future__ import annotations

import re

import pytest
from builders import node

from gpujob.catalog.files.load import load_catalog, read_catalog
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.sources.build import read_fleet

GKE = "cloud.google.com/gke-accelerator"
KARPENTER = "karpenter.k8s.aws/instance-gpu"


@pytest.mark.parametrize(
    ("labels", "resource", "name"),
    [
        ({"amd.com/gpu.product-name": "AMD_Instinct_MI440X_OAM", "amd.com/gpu.vram": "216G"}, "amd.com/gpu", "MI440X"),
        ({"beta.amd.com/gpu.device-id.75ff": "8"}, "amd.com/gpu", "75ff"),
        ({f"{KARPENTER}-name": "mi440x", f"{KARPENTER}-manufacturer": "amd"}, "amd.com/gpu", "mi440x"),
        ({"nvidia.com/gpu.product": "NVIDIA-R300", "nvidia.com/gpu.count": "8"}, "nvidia.com/gpu", "R300"),
        ({GKE: "nvidia-r300"}, "nvidia.com/gpu", "r300"),
        ({f"{KARPENTER}-name": "r300", f"{KARPENTER}-manufacturer": "nvidia"}, "nvidia.com/gpu", "r300"),
    ],
)
def test_the_row_that_a_device_lacks_makes_it_known(labels: dict[str, str], resource: str, name: str) -> None:
    raw = node("n", labels=labels, devices={resource: "8"})
    (pool,) = read_fleet([read_node(raw)], [], load_catalog()).pools
    assert pool.problem is not None
    row = re.search(r"add to the catalog's accelerators: (\{.*\})", pool.problem.message)
    assert row, pool.problem.message
    architecture = "gfx942" if resource.startswith("amd") else "9.0"
    filled = row[1].replace("gfx...", architecture).replace(": ...,", f": {architecture},").replace("...Gi", "216Gi")
    catalog = read_catalog(f"accelerators:\n  - {filled}\n")
    assert catalog.refused == ()
    (pool,) = read_fleet([read_node(raw)], [], catalog).pools
    assert (pool.accelerator_id, pool.problem) == (name, None)
