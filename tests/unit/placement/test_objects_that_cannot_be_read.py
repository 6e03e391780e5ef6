"""Objects that their schema refuses are never passed over in silence: what they say is held, and jobs hear of it."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, MI300X, Object, demand, fleet, node

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.files.load import load_catalog
from gpujob.cli.planning.planner import informed, profiles_of
from gpujob.cluster.cache.watched_kinds import read_runtimes
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.request.profile_measurements import profile_of
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Outcome, Reason, Verdict

SHIPPED = load_catalog()
BEST = {vendor: next(row.name for row in SHIPPED.runtimes if row.backend == vendor) for vendor in ("CUDA", "ROCm")}


def runtime(name: str, **spec: Any) -> Object:
    return {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPURuntime", "metadata": {"name": name}, "spec": spec}


def planned(*objects: Object, catalog: Catalog = SHIPPED, **spec: Any) -> Decision:
    found, known = fleet_of(read_cluster(list(objects)), catalog)
    decision = decide(demand(**spec), found, known)
    pick = choose(demand(**spec), found, known)
    assert (pick.verdict, pick.choice) == (decision.verdict, decision.choice)
    return decision


def held(decision: Decision) -> dict[str, str]:
    """What is said of the runtimes that are held, by name."""
    return {
        candidate.runtime.name: reason.message
        for candidate in decision.candidates
        for reason in candidate.reasons
        if reason.reason is Reason.INVALID_SPEC
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"image": "mine:1", "backend": "ROCm"},
        {"image": "mine:1", "backend": "ROCm", "newField": 1},
        {"backend": "ROCm", "image": 7, "framework": [], "preference": "high"},
    ],
)
def test_a_shipped_row_is_not_used_under_the_name_of_a_runtime_that_cannot_be_read(spec: Object) -> None:
    before = planned(node("a", MI300X))
    assert before.choice is not None
    name = before.choice.candidate.runtime.name
    after = planned(node("a", MI300X), runtime(name, **spec))
    assert after.choice is not None
    assert after.choice.candidate.runtime.name != name
    assert list(held(after)) == [name]
    assert held(after)[name].startswith(f"GPURuntime {name} cannot be read, so it is not used: ")


def test_where_nothing_else_would_do_the_job_is_misconfigured_and_says_why() -> None:
    only = read_cluster([runtime("mine", backend="ROCm"), node("a", MI300X), node("b", H100)])
    found, known = fleet_of(only, Catalog(accelerators=SHIPPED.accelerators, features=SHIPPED.features))
    decision = decide(demand(placement={"vendors": ["AMD"]}), found, known)
    assert decision.verdict is Verdict.MISCONFIGURED
    assert {c.outcome for c in decision.candidates if c.pool.vendor == "AMD"} == {Outcome.MISCONFIGURED}


def test_an_own_image_with_such_a_runtime_waits_for_it_to_be_mended() -> None:
    images = {"rocm": {"image": "own:1", "runtime": "mine"}}
    decision = planned(node("a", MI300X), runtime("mine", backend="ROCm"), images=images)
    assert decision.verdict is Verdict.MISCONFIGURED
    assert decision.problems == ()
    assert "GPURuntime mine cannot be read" in decision.candidates[0].reasons[0].message


def test_one_whose_stack_cannot_be_read_is_held_on_both() -> None:
    decision = planned(node("a", MI300X), node("b", H100), runtime("mine", backend="OneAPI"))
    assert {c.pool.vendor for c in decision.candidates if c.runtime.name == "mine"} == {"AMD", "NVIDIA"}
    assert decision.verdict is Verdict.PLACED


@pytest.mark.parametrize("spec", [None, 7, [], "text", {"backend": ["ROCm"]}])
def test_the_operator_reads_them_as_the_file_does(spec: Any) -> None:
    raw = runtime("mine") | {"spec": spec}
    rows = read_runtimes(raw)
    assert {(row.name, bool(row.unreadable)) for row in rows} == {("mine", True)}
    assert tuple(read_cluster([node("a", H100), raw]).runtimes) == rows


def test_the_file_says_it() -> None:
    (said,) = read_cluster([node("a", H100), runtime("mine")]).unread
    assert said.startswith("GPURuntime mine cannot be read, so it is not used: ")


def profile(measurements: Any) -> Object:
    return {"kind": "GPUJobProfile", "apiVersion": "gpujob.dev/v1alpha1", "status": {"measurements": measurements},
            "metadata": {"name": "llama", "namespace": "default"}}  # fmt: skip


@pytest.mark.parametrize(
    ("measurements", "said"),
    [
        ([], ""),
        (7, "GPUJobProfile llama cannot be read, so it does not count: its measurements are no list"),
        ([{}, 3], "of the 2 measurements of GPUJobProfile llama, 2 cannot be read and do not count"),
        ([None], "of the 1 measurements of GPUJobProfile llama, 1 cannot be read and does not count"),
    ],
)
def test_measurements_that_do_not_count_are_a_warning_of_the_profiles_jobs(measurements: Any, said: str) -> None:
    raw = profile(measurements)
    assert profile_of(raw).unread == said
    objects = read_cluster([node("a", H100), raw])
    wanted = informed(_job("llama"), profiles_of(objects))
    warnings = [warning.message for warning in decide(wanted, fleet(node("a", H100)), SHIPPED).candidates[0].warnings]
    assert (said in warnings) == bool(said)
    assert informed(_job("other"), profiles_of(objects)).unread == ""


def _job(name: str) -> Any:
    from builders import job

    return job(profile=name)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"driver": None}, "it names no driver or no pool"),
        ({"pool": "p"}, "it names no driver or no pool"),
        ({"devices": {"name": "a"}}, "its devices are no list"),
        (
            {"devices": [{"name": "a"}, {"name": 7}, None]},
            "2 of its 3 devices have no name or no node, or are beyond the first 10000",
        ),
        ({"nodeName": None}, "1 of its 1 devices have no name or no node, or are beyond the first 10000"),
        ({"nodeName": None, "allNodes": True}, ""),
    ],
)
def test_devices_of_a_slice_that_cannot_be_read_are_said(change: Object, said: str) -> None:
    spec = {"driver": "gpu.example.com", "pool": {"name": "p"}, "nodeName": "a", "devices": [{"name": "a"}]} | change
    raw = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    assert read_cluster([node("a", H100), raw]).unread == ((f"ResourceSlice s: {said}",) if said else ())


def test_a_runtime_without_a_word_of_hosts_is_for_amd64() -> None:
    framework = {"name": "pytorch", "version": "2.12.0"}
    spec = {"image": "i", "backend": "CUDA", "backendVersion": "13.0", "framework": framework, "architectures": ["9.0"]}
    (row,) = read_runtimes(runtime("mine", **spec, cpuArchitectures=[]))
    assert (row.cpu_architectures, row.unreadable) == (("amd64",), "")
