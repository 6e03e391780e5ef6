"""A pool that must be fixed concerns the jobs that could run on it then, and no others."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from builders import ANY_IMAGES, H100, L4, MI300X, Nvidia, Object, decision, demand, fleet, gpupool, node

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.summary import summary
from gpujob.placement.suggestions.search import with_fix
from gpujob.values.vocabulary import Reason, Vendor, Verdict

X = {"pool": "x"}
WITHOUT_NODES = [node("h", H100), gpupool("odd", {"no": "node"})]
WITH_A_TYPO = [node("h", H100), node("a", MI300X, labels=X), gpupool("odd", X, accelerator="MI300Z")]


@pytest.mark.parametrize(
    ("objects", "spec", "verdict"),
    [
        (WITHOUT_NODES, {"gpusPerNode": 64}, Verdict.IMPOSSIBLE),
        (WITHOUT_NODES, {"placement": {"vendors": ["AMD"]}}, Verdict.IMPOSSIBLE),
        (WITHOUT_NODES, {"placement": {"pools": {"allow": ["odd"]}}}, Verdict.MISCONFIGURED),
        (WITH_A_TYPO, {"gpuMemory": "150Gi"}, Verdict.MISCONFIGURED),
        (WITH_A_TYPO, {"placement": {"vendors": ["AMD"]}}, Verdict.MISCONFIGURED),
        (WITH_A_TYPO, {"gpuMemory": "5Ti", "placement": {"vendors": ["AMD"]}, "requires": ["FP8FNUZ"]}, Verdict.IMPOSSIBLE),
        (WITH_A_TYPO, {"requires": ["TransformerEngine"], "gpusPerNode": 64}, Verdict.IMPOSSIBLE),
        (WITH_A_TYPO, {}, Verdict.PLACED),
    ],
)  # fmt: skip
def test_only_jobs_that_mending_could_help_are_told_to_wait_for_it(
    objects: list[Object], spec: dict[str, Any], verdict: Verdict
) -> None:
    assert decision(*objects, **spec).verdict is verdict


def test_a_job_goes_on_to_name_its_pool_when_a_node_with_another_driver_joins() -> None:
    newer = node("b", H100, labels={"nvidia.com/cuda.driver-version.full": "570.10.01"})
    allowed = {"placement": {"pools": {"allow": ["h100-sxm-ondemand"]}}}
    for objects in ([node("a", H100)], [node("a", H100), newer]):
        assert decision(*objects, **allowed).verdict is Verdict.PLACED
    denied = decision(node("a", H100), newer, placement={"pools": {"deny": ["h100-sxm-ondemand"]}})
    assert denied.verdict is Verdict.IMPOSSIBLE
    assert {finding.reason for candidate in denied.candidates for finding in candidate.reasons} >= {
        Reason.POOL_EXCLUDED
    }


UNKNOWN = node("u", None, devices={"nvidia.com/gpu": "8"})
LABEL_IT = (
    "pool unknown-nvidia-ondemand must be fixed first: no label or catalog row identifies the devices of nvidia.com/gpu"
)


@pytest.mark.parametrize(
    ("objects", "spec", "fix"),
    [
        ([node("a", L4)], {"gpuMemory": "30G"}, "with spec.gpuMemory 23G instead of 30G it would fit pool l4-ondemand"),
        ([node("a", L4, 2)], {"gpusPerNode": 4}, "with spec.gpusPerNode 2 instead of 4 it would fit pool l4-ondemand"),
        ([node("a", L4)], {"gpuMemory": "40G", "gpusPerNode": 8},
         "with spec.gpuMemory 23G instead of 40G it would fit pool l4-ondemand"),
        ([], {}, ""),
    ],
)  # fmt: skip
def test_what_an_admin_must_fix_takes_no_fix_of_the_job_away(
    objects: list[Object], spec: dict[str, Any], fix: str
) -> None:
    known = fleet(*objects, UNKNOWN, catalog=ANY_IMAGES)
    found = with_fix(decide(demand(**spec), known, ANY_IMAGES), known, ANY_IMAGES)
    assert found.verdict is Verdict.MISCONFIGURED
    assert (found.fix.message if found.fix else "") == fix
    said = summary(found)
    assert said.startswith(LABEL_IT)
    assert said.endswith(f"; {fix}") or not fix


UNKNOWN_AMD = node("u", None, devices={"amd.com/gpu": "8"})
TO_COME = gpupool("new", X, provision={"maxNodes": 2})
NO_NAME = gpupool("odd", X)
ONLY_H100 = {"placement": {"accelerators": {"allow": ["H100"]}}}
ONLY_MI300X = {"placement": {"accelerators": {"allow": ["MI300X"]}}}
FOR_H100 = {"shapes": [{"accelerator": "H100", "gpusPerNode": 8}]}


@pytest.mark.parametrize(
    ("objects", "spec", "verdict"),
    [
        ([UNKNOWN], ONLY_H100, Verdict.MISCONFIGURED),
        ([UNKNOWN], FOR_H100, Verdict.MISCONFIGURED),
        ([UNKNOWN], {"placement": {"accelerators": {"allow": ["MI300X", "L4"]}}}, Verdict.MISCONFIGURED),
        ([UNKNOWN], {"placement": {"accelerators": {"deny": ["H100"]}}}, Verdict.MISCONFIGURED),
        ([UNKNOWN], ONLY_MI300X, Verdict.IMPOSSIBLE),
        ([UNKNOWN], {"shapes": [{"accelerator": "MI300X", "gpusPerNode": 8}]}, Verdict.IMPOSSIBLE),
        ([UNKNOWN_AMD], ONLY_MI300X, Verdict.MISCONFIGURED),
        ([UNKNOWN_AMD], ONLY_H100, Verdict.IMPOSSIBLE),
        ([UNKNOWN, node("t", L4)], ONLY_H100, Verdict.MISCONFIGURED),
        ([node("t", L4)], ONLY_H100, Verdict.IMPOSSIBLE),
        ([TO_COME], ONLY_H100, Verdict.MISCONFIGURED),
        ([TO_COME], ONLY_MI300X, Verdict.MISCONFIGURED),
        ([node("u", None, devices={"nvidia.com/gpu": "8"}, labels=X), NO_NAME], FOR_H100, Verdict.MISCONFIGURED),
        ([node("a", MI300X, labels=X), gpupool("odd", X, accelerator="MI300Z")], ONLY_MI300X, Verdict.MISCONFIGURED),
        ([node("u", None, devices={"nvidia.com/mig-1g.10gb": "8"})],
         {"placement": {"accelerators": {"allow": ["H100"]}, "devices": ["Partition"]}}, Verdict.MISCONFIGURED),
    ],
)  # fmt: skip
def test_devices_that_nothing_identifies_may_be_those_that_a_job_names(
    objects: list[Object], spec: dict[str, Any], verdict: Verdict
) -> None:
    known = fleet(*objects, catalog=ANY_IMAGES)
    found = with_fix(decide(demand(**spec), known, ANY_IMAGES), known, ANY_IMAGES)
    assert found.verdict is verdict, summary(found)
    assert choose(demand(**spec), known, ANY_IMAGES).verdict is verdict
    assert ", unknown]" not in summary(found)


CARD = Nvidia("NVIDIA-XYZ-9000", 81920, "hopper", (9, 0), mig=False)
"""A card whose name is known and its price is not."""


@pytest.mark.parametrize("limit", [{"maxPricePerHour": "4"}, {"maxPricePerHour": "0.01"}, {"budget": "100"}])
@pytest.mark.parametrize(
    ("objects", "verdict"),
    [
        ([UNKNOWN], Verdict.MISCONFIGURED),
        ([UNKNOWN_AMD], Verdict.MISCONFIGURED),
        ([UNKNOWN, node("t", L4, 4)], Verdict.MISCONFIGURED),
        (WITH_A_TYPO[1:], Verdict.MISCONFIGURED),
        ([TO_COME], Verdict.MISCONFIGURED),
        ([node("u", None, devices={"nvidia.com/gpu": "8"}, price="200")], None),
        ([node("x", CARD)], Verdict.IMPOSSIBLE),
    ],
)
def test_devices_that_nothing_identifies_may_have_a_list_price(
    objects: list[Object], limit: dict[str, str], verdict: Verdict | None
) -> None:
    """A price limit waits for the identity, from which the price follows; a price that is written counts at once."""
    right = verdict or (Verdict.MISCONFIGURED if "budget" in limit else Verdict.IMPOSSIBLE)
    found = decision(*objects, catalog=ANY_IMAGES, gpusPerNode=8, placement=limit)
    assert found.verdict is right, summary(found)
    assert (
        choose(demand(gpusPerNode=8, placement=limit), fleet(*objects, catalog=ANY_IMAGES), ANY_IMAGES).verdict is right
    )


@pytest.mark.parametrize("limit", [{"maxPricePerHour": "100"}, {"budget": "100"}])
@pytest.mark.parametrize(
    ("objects", "nodes"),
    [
        ([UNKNOWN, node("h", H100)], 2),
        ([UNKNOWN, node("h", H100, price="2")], 2),
        ([UNKNOWN, node("h", H100), node("c", H100, cordoned=True)], 3),
        ([UNKNOWN_AMD, node("m", MI300X)], 2),
    ],
)
def test_a_gang_over_nodes_of_which_one_is_unidentified_may_have_a_list_price(
    objects: list[Object], nodes: int, limit: dict[str, str]
) -> None:
    found = decision(*objects, gpusPerNode=8, nodes=nodes, placement=limit)
    assert found.verdict is Verdict.MISCONFIGURED, summary(found)
    assert "node u: no label or catalog row identifies the devices" in summary(found)


@pytest.mark.parametrize(
    ("nodes", "limit", "right"),
    [
        (2, "15.99", Verdict.IMPOSSIBLE),
        (2, "16", Verdict.MISCONFIGURED),
        (3, "31.99", Verdict.IMPOSSIBLE),
        (3, "32", Verdict.MISCONFIGURED),
    ],
)
def test_the_nodes_whose_price_is_known_are_the_least_that_a_gang_costs(nodes: int, limit: str, right: Verdict) -> None:
    """One node is unidentified: the others cost $16 each, whatever it is."""
    objects = [UNKNOWN, node("h", H100, price="2"), node("i", H100, price="2")]
    asked = demand(gpusPerNode=8, nodes=nodes, placement={"maxPricePerHour": limit})
    known = fleet(*objects[:nodes], catalog=ANY_IMAGES)
    found = decide(asked, known, ANY_IMAGES)
    assert (found.verdict, choose(asked, known, ANY_IMAGES).verdict) == (right, right)
    if right is Verdict.IMPOSSIBLE:
        said = [each.message for one in found.candidates for each in one.reasons]
        assert f"costs at least ${16 * (nodes - 1)}.00 an hour, placement.maxPricePerHour is ${limit}" in said


@pytest.mark.parametrize("fields", [{"deviceMode": "HostDevices"}, {"acelerator": "MI300X"}])
@pytest.mark.parametrize("spec", [{"gpusPerNode": 8}, {"gpusPerNode": 8, "nodes": 2}, {"gpuMemory": "80G"}])
def test_a_pool_that_cannot_be_read_may_say_what_its_nodes_have(fields: dict[str, Any], spec: dict[str, Any]) -> None:
    found = decision(node("a", labels=X), gpupool("odd", X, **fields), **spec)
    assert (found.verdict, found.candidates[0].reasons[0].reason) == (Verdict.MISCONFIGURED, Reason.INVALID_SPEC)
    assert decision(gpupool("odd", X, **fields), **spec).verdict is Verdict.IMPOSSIBLE


BIG = "llama-3.1-405b"
NONE_HAS_MORE = "no known NVIDIA device has more than 274.77Gi (GB300)"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"gpuMemory": "250Gi"}, ""),
        ({"gpuMemory": "500Gi"}, f"needs 500Gi usable per GPU, and {NONE_HAS_MORE}"),
        ({"model": {"name": BIG}}, f"the model needs 790.96Gi on each of 8 GPUs, and {NONE_HAS_MORE}"),
        ({"model": {"name": BIG}, "gpusPerNode": 8}, f"the model needs 790.96Gi on each of 8 GPUs, and {NONE_HAS_MORE}"),
        ({"model": {"name": "llama-3.1-70b"}, "gpusPerNode": 8}, ""),
        ({"model": {"name": "llama-3.1-70b", "sharding": "None"}, "gpusPerNode": 8},
         f"the model needs 1521.83Gi on each of 8 GPUs, and {NONE_HAS_MORE}"),
        ({"requires": ["FP8FNUZ"]}, "requires FP8FNUZ, which no known NVIDIA device has"),
        ({"requires": ["FP8OCP"]}, ""),
        ({"gpuMemory": "80Gi", "placement": {"accelerators": {"allow": ["L4", "T4"]}}},
         "needs 80Gi usable per GPU, and no NVIDIA device that the job names has more than 22.26Gi (L4)"),
        ({"gpuMemory": "80Gi", "shapes": [{"accelerator": "L4"}]},
         "needs 80Gi usable per GPU, and no NVIDIA device that the job names has more than 22.26Gi (L4)"),
        ({"gpuMemory": "280Gi", "placement": {"accelerators": {"deny": ["L4"]}}},
         "needs 280Gi usable per GPU, and no NVIDIA device that the job names has more than 274.77Gi (GB300)"),
        ({"requires": ["FP8OCP"], "placement": {"accelerators": {"allow": ["A100"]}}},
         "requires FP8OCP, which no NVIDIA device that the job names has"),
        ({"placement": {"accelerators": {"allow": ["GB10"]}}},
         "each NVIDIA device that the job names shares its memory with the host; add Integrated to placement.devices to use it"),
        ({"placement": {"accelerators": {"allow": ["GB10"]}, "devices": ["Integrated"]}}, ""),
        ({"gpuMemory": "500Gi", "placement": {"pools": {"allow": ["unknown-nvidia-ondemand"]}}},
         f"needs 500Gi usable per GPU, and {NONE_HAS_MORE}"),
    ],
)  # fmt: skip
def test_a_name_for_unidentified_devices_is_asked_for_only_where_one_helps(spec: dict[str, Any], says: str) -> None:
    """Of all names that the GPUPool may give the devices: one of them makes the job fit if and only if the plan asks for a name."""
    catalog = load_catalog()
    found = decision(UNKNOWN, catalog=catalog, **spec)
    messages = [each.message for each in found.candidates[0].reasons]
    assert messages == [says] if says else messages[0].startswith("no label or catalog row identifies the devices")
    assert found.verdict is (Verdict.IMPOSSIBLE if says else Verdict.MISCONFIGURED)
    assert choose(demand(**spec), fleet(UNKNOWN, catalog=catalog), catalog).verdict is found.verdict
    labelled, spec = node("u", None, devices={"nvidia.com/gpu": "8"}, labels=X), copy.deepcopy(spec)
    spec.get("placement", {}).pop("pools", None)
    names = [row.id for row in catalog.accelerators if row.vendor is Vendor.NVIDIA]
    helped = [
        name
        for name in names
        if decision(labelled, gpupool("p", X, accelerator=name), catalog=catalog, **spec).verdict is Verdict.PLACED
    ]
    assert bool(helped) == (not says)
