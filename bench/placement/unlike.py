"""Measures the fleet after a change of one node where all nodes differ, in a GPUPool and as discovered pools that are joined.

    python -m bench.placement.unlike [NODES]

Facts: the price of a node changes, so its pools are built again. State: a node is cordoned. Best of three, seconds of the CPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from bench.placement import world
from gpujob.api.manifest import read_gpupool
from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.devices.group import groups_of
from gpujob.fleet.gpupools.selection import admin_pool
from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.sources.incremental import FleetIndex
from gpujob.values.vocabulary import Annotation

RUNS: Final = 3
TYPES: Final = ("on-demand", "spot", "reserved")
POOL: Final = {
    "apiVersion": "gpujob.dev/v1alpha1",
    "kind": "GPUPool",
    "metadata": {"name": "mix", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"nodeSelector": {"matchLabels": {"rack": "mix"}}},
}


def node(number: int, dollars: str) -> Node:
    """A node of 8 L4 that differs from others in price, memory, driver or capacity type."""
    raw = next(
        each for each in world.nodes() if each["metadata"]["labels"].get("nvidia.com/gpu.product") == "NVIDIA-L4"
    )
    metadata = raw["metadata"]
    metadata["name"] = f"n{number:03}"
    metadata["labels"] |= {
        "rack": "mix",
        "karpenter.sh/capacity-type": TYPES[number % len(TYPES)],
        "nvidia.com/gpu.memory": str(23034 - number % 50),
        "nvidia.com/cuda.driver-version.full": f"580.{70 + number % 20}.0{number % 3}",
    }
    for word in ("driver-version.major", "driver-version.minor", "driver.major", "driver.minor"):
        del metadata["labels"][f"nvidia.com/cuda.{word}"]
    metadata["annotations"][Annotation.PRICE_PER_GPU_HOUR] = dollars
    return read_node(raw)


def changed(index: FleetIndex, catalog: Catalog, nodes: Iterator[Node]) -> float:
    """Seconds of the fastest of some changes, each of one node."""
    times = []
    for each in nodes:
        index.put_node(each, groups_of(each, catalog))
        began = time.thread_time()
        index.fleet()
        times.append(time.thread_time() - began)
    return min(times)


def main(count: int) -> None:
    """Prints a line for each way to hold the nodes: the pools, and what a change costs."""
    catalog = load_catalog()
    of_price: Callable[[int], str] = lambda number: f"{1 + number % 37}.{number % 10}"  # noqa: E731
    nodes = [node(number, of_price(number)) for number in range(count)]
    print(f"{count} nodes {'':16} {'pools':>6} {'facts, s':>9} {'state, s':>9}")
    for name, admins in (("in a GPUPool", [admin_pool(read_gpupool(POOL))]), ("discovered, joined", [])):
        index = FleetIndex(catalog)
        index.put_admin_pools(admins)
        for each in nodes:
            index.put_node(each, groups_of(each, catalog))
        pools = len(index.fleet().pools)
        facts = changed(index, catalog, (node(7, f"{50 + run}.0") for run in range(RUNS)))
        state = changed(index, catalog, (replace(nodes[8], cordoned=bool(run % 2)) for run in range(1, RUNS + 1)))
        print(f"{name:26} {pools:6} {facts:9.3f} {state:9.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
