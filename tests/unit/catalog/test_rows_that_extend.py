"""`extends` of a GPURuntime: the facts of a row of the catalog, in the cluster, in a description of it, and in files of rows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from gpujob.api.manifest import read_gpuruntime
from gpujob.catalog.files.extending import Extending, extended, extends
from gpujob.catalog.files.load import extended as with_rows
from gpujob.catalog.files.load import load_catalog
from gpujob.catalog.images.runtime import Runtime
from gpujob.cluster.cache.object_cache import ObjectCache
from gpujob.cluster.cache.watched_kinds import mirrored, read_runtimes
from gpujob.cluster.index.cluster_index import ClusterIndex
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster, with_extended
from gpujob.values.errors import CatalogInvalid

SHIPPED = load_catalog()
CUDA = next(row for row in SHIPPED.runtimes if row.backend.value == "CUDA")
ROCM = next(row for row in SHIPPED.runtimes if row.backend.value == "ROCm")


def manifest(name: str = "copy", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPURuntime", "metadata": {"name": name}, "spec": spec}


def made(**spec: Any) -> Runtime:
    (row,) = Extending(manifest(**spec)).runtimes(SHIPPED.runtimes)
    return row


def alike(row: Runtime, **changes: Any) -> Runtime:
    return replace(row, name="copy", source="GPURuntime", checked_on="", stack=None, **changes)


@pytest.mark.parametrize("row", SHIPPED.runtimes, ids=lambda row: str(row.name))
def test_a_copy_has_every_fact_of_its_row(row: Runtime) -> None:
    assert made(extends=row.name) == alike(row)
    image = "registry.example/copy:1"
    assert made(extends=row.name, image=image) == alike(row, image=image)


@pytest.mark.parametrize(
    ("written", "changed"),
    [
        ({"preference": 7}, {"preference": 7}),
        ({"features": []}, {"features": frozenset()}),
        ({"runsAsNonRoot": "False"}, {"runs_as_non_root": "False"}),
        ({"python": "3.13"}, {"python": "3.13"}),
        ({"size": "20G"}, {"size_bytes": 20 * 10**9}),
    ],
)
def test_what_is_written_replaces_the_fact_of_the_row(written: dict[str, Any], changed: dict[str, Any]) -> None:
    for row in (CUDA, ROCM):
        assert made(extends=row.name, **written) == alike(row, **changed)


def test_an_unknown_row_holds_the_name_and_says_the_nearest_one() -> None:
    rows = Extending(manifest(extends=CUDA.name + "x", image="registry.example/x:1")).runtimes(SHIPPED.runtimes)
    assert {row.name for row in rows} == {"copy"}
    assert {row.unreadable for row in rows} == {
        f"extends: there is no row {CUDA.name}x in the catalog; the nearest is {CUDA.name}; kubectl gpujob catalog runtimes lists them"
    }


@pytest.mark.parametrize("wrong", [7, "", "x" * 1000, ["a"], {}])
def test_what_is_no_name_of_a_row_is_unreadable(wrong: Any) -> None:
    assert all(row.unreadable for row in Extending(manifest(extends=wrong)).runtimes(SHIPPED.runtimes))


def test_a_row_that_contradicts_the_written_fact_is_refused() -> None:
    assert (
        "architectures must be gfx names for ROCm"
        in made(extends=ROCM.name, architectures=["9.0"], backend="ROCm").unreadable
    )
    with pytest.raises(CatalogInvalid, match=r"^extends: there is no row copy in the catalog"):
        extended({"extends": "copy"}, [replace(CUDA, name="copy", unreadable="broken")])


def test_the_operator_adds_the_row_when_the_catalog_is_known() -> None:
    held = read_runtimes(manifest(extends=CUDA.name))
    assert isinstance(held, Extending)
    assert held == read_runtimes(manifest(extends=CUDA.name))
    assert held != read_runtimes(manifest(extends=ROCM.name))
    assert held.runtimes(SHIPPED.runtimes) == (alike(CUDA),)
    assert not extends(manifest(image="i"))


def test_a_description_of_a_cluster_and_a_file_of_rows_extend_too() -> None:
    objects = read_cluster([manifest(extends=CUDA.name, image="registry.example/copy:1")])
    _, catalog = fleet_of(objects, SHIPPED)
    found = {row.name: row for row in catalog.runtimes}["copy"]
    assert replace(found, stack=None) == alike(CUDA, image="registry.example/copy:1")
    own = [{"name": "copy", "extends": CUDA.name, "preference": 9}, {"name": "b", "extends": "no"}]
    rows = json.loads(json.dumps({"runtimes": own}))
    more = with_rows(SHIPPED, rows)
    assert {row.name: row.preference for row in more.runtimes}["copy"] == 9
    ((name, sentence),) = more.refused
    assert (name, sentence.startswith("runtime b: extends: there is no row no in the catalog")) == ("b", True)


def test_without_extends_each_fact_is_missed_by_its_name() -> None:
    with pytest.raises(Exception, match="backend"):
        read_gpuruntime(manifest(image="i"))


ROW_MISSING = "in the catalog; kubectl gpujob catalog runtimes lists them"
UNREADABLE = [
    ({"extends": "zz"}, f"extends: there is no row zz {ROW_MISSING}"),
    ({"extends": "copy"}, f"extends: there is no row copy {ROW_MISSING}"),
    ({"extends": 7}, f"extends: there is no row 7 {ROW_MISSING}"),
    ({"extends": ROCM.name, "backend": "CUDA"},
     f"spec.backend: CUDA, but row {ROCM.name} is ROCm; extend a CUDA row"),
    ({"extends": CUDA.name, "backend": "ROCm", "architectures": ["gfx942"]},
     f"spec.backend: ROCm, but row {CUDA.name} is CUDA; extend a ROCm row"),
    ({"extends": CUDA.name, "backend": "Metal"}, "spec.backend: must be 'CUDA' or 'ROCm', got 'Metal'"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "said"), UNREADABLE)
def test_a_description_says_once_what_makes_it_unreadable(spec: dict[str, Any], said: str) -> None:
    objects = with_extended(read_cluster([manifest(**spec)]), SHIPPED)
    assert objects.unread == (f"GPURuntime copy cannot be read, so it is not used: {said}",)
    assert with_extended(objects, SHIPPED) == objects
    _, catalog = fleet_of(objects, SHIPPED)
    assert all(row.unreadable for row in catalog.runtimes if row.name == "copy")


def test_a_written_backend_that_is_the_row_s_changes_nothing() -> None:
    for row in (CUDA, ROCM):
        assert made(extends=row.name, backend=row.backend.value) == alike(row)


def test_the_operator_logs_each_unreadable_one_once() -> None:
    mirror = ObjectCache(mirrored("gpujob-runner-x"))
    for kind in mirror.kinds:
        mirror.replace(kind, [], "1")
    book, said = ClusterIndex(mirror, SHIPPED), "GPURuntime {} cannot be read, so it is not used: {}"

    def logged(event: str, version: int, raw: dict[str, Any]) -> list[str]:
        raw["metadata"] |= {"resourceVersion": str(version), "uid": raw["metadata"]["name"]}
        mirror.apply("gpuruntimes", event, raw)
        with capture_logs() as logs:
            book.take(mirror.take_changes())
            book.fleet()
        return [entry["event"] for entry in logs]

    missing = said.format("copy", f"extends: there is no row zz {ROW_MISSING}")
    assert logged("ADDED", 2, manifest(extends="zz")) == [missing]
    assert logged("ADDED", 3, manifest("well", extends=CUDA.name)) == []
    assert logged("ADDED", 4, manifest("bare", backend="CUDA")) == [
        said.format(
            "bare",
            "spec.image: is required; spec.backendVersion: is required; spec.framework: is required; "
            "spec.architectures: is required",
        )
    ]
    assert logged("MODIFIED", 5, manifest(extends=CUDA.name)) == []
    assert logged("MODIFIED", 6, manifest(extends="zz")) == [missing]
