"""People without rights on nodes plan on published GPUPools: the verdict is right, node names are not made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_room import CATALOG, MIXED, Answer, Command, manifest

from gpujob.catalog.files.load import read_catalog
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.status import pools as publish

WRITTEN = "2026-01-31T10:00:00Z"


def published() -> list[dict[str, Any]]:
    """The GPUPools that the operator would publish for the mixed cluster."""
    fleet, _ = fleet_of(read_cluster(MIXED.read_text()), read_catalog(CATALOG.read_text()))
    pools = []
    for pool in fleet.pools:
        found = publish.manifest(pool)
        found["metadata"]["managedFields"] = [
            {"subresource": "status", "time": WRITTEN},
            {"time": "2027-01-01T00:00:00Z"},
        ]
        pools.append({**found, "status": publish.status(pool, fleet, {}, WRITTEN)})
    return pools


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "pools.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": published()}))
    return path


def ask(gpujob: Command, verb: str, cluster: Path, *options: str, **spec: Any) -> Answer:
    job = ["-f", "-"] if verb != "pools" else []
    return gpujob(verb, *job, "--cluster", cluster, "--catalog", CATALOG, *options, stdin=manifest(**spec))


@pytest.mark.parametrize(
    "spec",
    [{}, {"gpusPerNode": 8}, {"nodes": 2, "gpusPerNode": 8, "gpuMemory": "80G"}, {"gpuMemory": "500G"}, {"nodes": 2}],
)
def test_the_verdict_and_the_pool_are_those_of_the_nodes(gpujob: Command, cluster: Path, spec: dict[str, Any]) -> None:
    coarse, exact = (json.loads(ask(gpujob, "plan", file, "-o", "json", **spec).out) for file in (cluster, MIXED))
    assert coarse["verdict"] == exact["verdict"]
    assert (coarse["chosen"] or {}).get("pool") == (exact["chosen"] or {}).get("pool")
    assert (coarse["chosen"] or {}).get("pricePerHour") == (exact["chosen"] or {}).get("pricePerHour")


def test_the_age_of_the_figures_is_said_and_no_node_is_named(gpujob: Command, cluster: Path) -> None:
    answer = ask(gpujob, "plan", cluster, "-o", "json")
    assert answer.err == f"nodes cannot be read; published GPUPools are used: free as of {WRITTEN}\n"
    assert json.loads(answer.out)["chosen"]["nodeNames"] == []
    assert "Nodes:" not in ask(gpujob, "plan", cluster).out


def test_render_needs_nodes(gpujob: Command, cluster: Path) -> None:
    answer = ask(gpujob, "render", cluster)
    assert answer.code == 2
    assert answer.err.splitlines()[-1].startswith("error: published GPUPools name no nodes; pass --cluster FILE")


def test_pools_shows_the_published_figures(gpujob: Command, cluster: Path) -> None:
    found = {pool["pool"]: pool for pool in json.loads(ask(gpujob, "pools", cluster, "-o", "json").out)}
    exact = {pool["pool"]: pool for pool in json.loads(ask(gpujob, "pools", MIXED, "-o", "json").out)}
    assert found.keys() == exact.keys()
    for name, pool in found.items():
        for member in ("vendor", "accelerator", "nodes", "memoryPerGPU", "driver", "pricePerGPUHour", "priceSource"):
            if pool["problem"] is None:
                assert (name, member, pool[member]) == (name, member, exact[name][member])


def test_with_nodes_published_figures_do_not_count(gpujob: Command, tmp_path: Path) -> None:
    pools = published()
    for pool in pools:
        pool["status"]["gpus"] = {"total": 999, "free": 999}
    both = tmp_path / "both.yaml"
    both.write_text(MIXED.read_text() + "".join(f"\n---\n{json.dumps(pool)}" for pool in pools))
    assert json.loads(ask(gpujob, "pools", both, "-o", "json").out) == json.loads(
        ask(gpujob, "pools", MIXED, "-o", "json").out
    )
