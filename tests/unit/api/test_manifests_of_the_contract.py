"""The reader takes and refuses what the API server does: the manifests of tests/contract, each bound of an amount, and the files
that are made from the same models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpujob.api.generate import crd, fields_page
from gpujob.api.manifest import read_gpujob, read_gpupool, read_gpuruntime
from gpujob.values.errors import BadManifest

REPOSITORY = Path(__file__).parents[3]
READERS = {"GPUJob": read_gpujob, "GPUPool": read_gpupool, "GPURuntime": read_gpuruntime}
Row = dict[str, Any]


def table(name: str) -> list[Any]:
    """The rows of a file of manifests."""
    rows: list[Row] = yaml.safe_load((REPOSITORY / "tests" / "contract" / name).read_text())
    return [pytest.param(row, id=json.dumps(row["spec"])[:60]) for row in rows]


def read(row: Row) -> Any:
    kind = row.get("kind", "GPUJob")
    return READERS[kind](
        {"apiVersion": "gpujob.dev/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": row["spec"]}
    )


@pytest.mark.parametrize("row", table("refused_manifests.yaml"))
def test_a_manifest_is_refused_with_its_sentence(row: Row) -> None:
    with pytest.raises(BadManifest) as refusal:
        read(row)
    assert row["says"] in str(refusal.value)


@pytest.mark.parametrize("row", table("accepted_manifests.yaml"))
def test_a_manifest_is_read(row: Row) -> None:
    assert read(row).spec is not None


def test_the_definitions_and_the_page_of_fields_are_those_of_the_models() -> None:
    assert crd.main(["--check", str(REPOSITORY / "crds")]) == 0, "run `make generate`"
    assert fields_page.main(["--check", str(REPOSITORY / "docs" / "fields.md")]) == 0, "run `make generate`"


SELECTOR = {"nodeSelector": {"matchLabels": {"a": "b"}}}
MEMORY, CPU = "is not a memory size of at least 1M", "is not a CPU quantity"
PRICE, SUM = "is not a price in US dollars between 0 and 100000", "is not a sum of US dollars above 0, up to 1000000000"
NUMBER = "is not a number of parameters"


def of(field: str, value: Any) -> Row:
    """A spec with a value in a field, by its dotted name."""
    spec: Row = {}
    node = spec
    *path, last = field.split(".")
    for name in path:
        node = node.setdefault(name, {})
    node[last] = value
    if path[:1] != ["price"]:
        return {"spec": spec}
    node["years"] = 3
    return {"kind": "GPUPool", "spec": {**SELECTOR, **spec}}


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("gpuMemory", "1M", ""),
        ("gpuMemory", 1_000_000, ""),
        ("gpuMemory", 999_999, MEMORY),
        ("gpuMemory", "999999", MEMORY),
        ("gpuMemory", "", MEMORY),
        ("gpuMemory", True, f"true {MEMORY}"),
        ("gpuMemory", " 80G", MEMORY),
        ("gpuMemory", "1Pi", ""),
        ("gpuMemory", 1 << 50, ""),
        ("gpuMemory", (1 << 50) + 1, "is more memory than any machine has"),
        ("gpuMemory", 1 << 63, MEMORY),
        ("gpuMemory", f"{'0' * 21}80G", ""),
        ("gpuMemory", f"{'0' * 22}80G", MEMORY),
        ("gpuMemory", "x" * 80, f"{'x' * 64} {MEMORY}"),
        ("gpuMemory", 2.5, '2.5 is a bare fraction; put it in quotes: "2.5"'),
        ("gpuMemory", "80GiB", ""),
        ("resources.cpu", "1m", ""),
        ("resources.cpu", "0.0001", ""),
        ("resources.cpu", "0", CPU),
        ("resources.cpu", "-1", CPU),
        ("resources.cpu", "x", CPU),
        ("resources.cpu", True, CPU),
        ("resources.cpu", 10_000, ""),
        ("resources.cpu", "10000000m", ""),
        ("resources.cpu", 10_001, "is more CPU than any machine has; write at most 10000 cores"),
        ("resources.cpu", "10000001m", "is more CPU than any machine has"),
        ("placement.maxPricePerHour", "0", ""),
        ("placement.maxPricePerHour", 100_000, ""),
        ("placement.maxPricePerHour", "100000.000000", ""),
        ("placement.maxPricePerHour", "100000.000001", PRICE),
        ("placement.maxPricePerHour", "1.0000001", PRICE),
        ("placement.maxPricePerHour", -1, PRICE),
        ("placement.maxPricePerHour", "1e2", PRICE),
        ("placement.maxPricePerHour", True, PRICE),
        ("placement.maxPricePerHour", "", PRICE),
        ("placement.budget", "1000000000", ""),
        ("placement.budget", 1_000_000_000, ""),
        ("placement.budget", "1000000000.000001", SUM),
        ("placement.budget", "-1", SUM),
        ("placement.budget", "0", SUM),
        ("placement.budget", 0, SUM),
        ("placement.budget", "0.000000", SUM),
        ("placement.budget", "0.000001", ""),
        ("placement.budget", "x", SUM),
        ("model.parameters", "100T", ""),
        ("model.parameters", "100.1T", "is more than any model has; write at most 100T"),
        ("model.parameters", "0.01B", ""),
        ("model.parameters", "0.00B", NUMBER),
        ("model.parameters", 8, NUMBER),
        ("model.parameters", "8", NUMBER),
        ("price.ownership.gpuPurchase", "10000000", ""),
        ("price.ownership.gpuPurchase", "10000000.01", "is not an amount of US dollars from 0 to 10000000"),
        ("price.ownership.gpuPurchase", "0", ""),
        ("price.ownership.gpuPurchase", "-1", "is not an amount of US dollars from 0 to 10000000"),
    ],
)
def test_an_amount_at_its_bounds(field: str, value: Any, says: str) -> None:
    row = of(field, value)
    if not says:
        read(row)
        return
    with pytest.raises(BadManifest) as refusal:
        read(row)
    assert says in str(refusal.value)
