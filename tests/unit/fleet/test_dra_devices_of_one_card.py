"""DRA devices of one card, offered whole and in parts at once, and devices that several claims may hold."""

from __future__ import annotations

from typing import Any

import pytest
from builders import (
    A100,
    MI300X,
    Object,
    decision,
    device_class,
    fleet,
    node,
    placings,
    pool_of,
    resource_claim,
    resource_slice,
)

from gpujob.fleet.dra.resource_slices import read_slice
from gpujob.fleet.pools.fleet import Fleet
from gpujob.values.vocabulary import Reason, Verdict

AMD, NVIDIA = "gpu.amd.com", "gpu.nvidia.com"
AMD_CLASS = device_class(AMD, f"device.driver == '{AMD}'")
NVIDIA_CLASS = device_class(NVIDIA, f"device.driver == '{NVIDIA}'", "nvidia.com/gpu")
MODES = {"spx_nps1": 1, "dpx_nps2": 2, "cpx_nps4": 8}


def cut(card: int, mode: str, part: int) -> Object:
    """A part of a card, as large as the mode makes it, which takes as much of the card's counters."""
    size = {"memory": {"value": f"{196592 // MODES[mode]}Mi"}, "dies": {"value": str(8 // MODES[mode])}}
    return {
        "name": f"gpu-{card}-{mode}-{part}",
        "memory": size["memory"]["value"],
        "type": "amdgpu" if mode == "spx_nps1" else "amdgpu-partition",
        "productName": "AMD_Instinct_MI300X_OAM",
        "deviceID": "0x74a1",
        "partitionProfile": mode,
        "consumesCounters": [{"counterSet": f"gpu-{card}", "counters": size}],
    }


def cards(count: int) -> Object:
    """A slice of so many cards, each whole, in halves and in eighths at once."""
    parts = [cut(card, mode, part) for card in range(count) for mode, pieces in MODES.items() for part in range(pieces)]
    found = resource_slice("n", AMD, *parts)
    whole = {"memory": {"value": "196592Mi"}, "dies": {"value": "8"}}
    found["spec"]["sharedCounters"] = [{"name": f"gpu-{card}", "counters": whole} for card in range(count)]
    return found


def free(found: Fleet) -> dict[str, int]:
    return {pool.portion.profile or "whole": pool.free for pool in found.pools}


def after(found: Fleet, profile: str, gpus: int) -> dict[str, int]:
    """What is free of each kind once a pod was promised devices of one."""
    chosen = next(pool for pool in found.pools if pool.portion.profile == profile)
    return free(found.reserve(chosen, gpus, chosen.nodes[0].left, ["n"]))


def test_what_is_promised_of_one_kind_is_gone_from_the_others() -> None:
    found = fleet(node("n"), cards(2), AMD_CLASS)
    assert free(found) == {"whole": 2, "dpx_nps2": 4, "cpx_nps4": 16}
    assert after(found, "", 1) == {"whole": 1, "dpx_nps2": 2, "cpx_nps4": 8}
    assert after(found, "dpx_nps2", 1) == {"whole": 1, "dpx_nps2": 3, "cpx_nps4": 12}
    assert after(found, "cpx_nps4", 9) == {"whole": 0, "dpx_nps2": 1, "cpx_nps4": 7}
    assert after(found, "", 2) == {"whole": 0, "dpx_nps2": 0, "cpx_nps4": 0}


def test_what_claims_hold_is_gone_from_all_kinds() -> None:
    held = resource_claim("theirs", AMD, "n", "gpu-0-cpx_nps4-3")
    found = fleet(node("n"), cards(2), AMD_CLASS, held)
    assert free(found) == {"whole": 1, "dpx_nps2": 3, "cpx_nps4": 15}
    assert after(found, "", 1) == {"whole": 0, "dpx_nps2": 1, "cpx_nps4": 7}


def test_cards_without_common_counters_are_counted_apart() -> None:
    whole = {**cut(0, "spx_nps1", 0), "consumesCounters": []}
    found = fleet(
        node("n"), resource_slice("n", AMD, whole, {**cut(1, "dpx_nps2", 0), "consumesCounters": []}), AMD_CLASS
    )
    assert after(found, "", 1) == {"whole": 0, "dpx_nps2": 1}


def h100(**more: Any) -> Object:
    return {
        "name": "gpu-0",
        "memory": "81559Mi",
        "type": "gpu",
        "productName": "NVIDIA H100 80GB HBM3",
        "cudaComputeCapability": {"version": "9.0.0"},
        "allowMultipleAllocations": True,
        **more,
    }


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1"])
def test_a_device_that_several_claims_may_hold_is_shared(version: str) -> None:
    objects = [node("n"), resource_slice("n", NVIDIA, h100(), version=version), NVIDIA_CLASS]
    pool = pool_of(fleet(*objects), "n")
    assert (pool.kind, pool.memory) == ("Shared", None)
    found = decision(*objects)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert Reason.SHARED_DEVICE in {reason.reason for reason in found.candidates[0].reasons}


def test_its_memory_is_what_a_claim_gets_that_asks_for_none() -> None:
    published = resource_slice("n", NVIDIA, h100())
    memory = published["spec"]["devices"][0]["capacity"]["memory"]
    memory["requestPolicy"] = {"default": "10Gi", "validRange": {"min": "1Gi"}}
    pool = pool_of(fleet(node("n"), published, NVIDIA_CLASS), "n")
    assert pool.kind == "Shared"
    assert pool.memory is not None
    assert pool.memory <= 10 * 2**30


def test_partitions_that_are_counted_as_capacity_are_no_sharing() -> None:
    published = resource_slice("n", AMD, {**cut(0, "cpx_nps4", 0), "allowMultipleAllocations": True})
    published["spec"]["devices"][0]["capacity"]["partitions"] = {"value": "8"}
    assert [device.shared for device in read_slice(published).devices] == [False]


def test_where_no_labeller_runs_slices_name_what_a_device_plugin_offers() -> None:
    plugged = node("n", devices={"nvidia.com/gpu": "1"})
    own = h100(allowMultipleAllocations=False)
    pool = pool_of(fleet(plugged, resource_slice("n", NVIDIA, own), NVIDIA_CLASS), "n")
    assert (pool.accelerator_id, pool.problem, pool.total) == ("H100-SXM", None, 1)


def mig(card: int, part: int) -> Object:
    """Half an A100, of a card that its driver does not offer whole."""
    said = {"type": "mig", "productName": "NVIDIA A100 SXM4 80GB", "profile": "3g.40gb", "parentUUID": f"GPU-{card}"}
    return {
        "name": f"gpu-{card}-mig-{part}",
        "memory": "40192Mi",
        "cudaComputeCapability": {"version": "8.0.0"},
        **said,
    }


def a100(card: int) -> Object:
    said = {"type": "gpu", "productName": "NVIDIA A100 SXM4 80GB", "uuid": f"GPU-{card}"}
    return {"name": f"gpu-{card}", "memory": "81920Mi", "cudaComputeCapability": {"version": "8.0.0"}, **said}


def uncounted(card: int, mode: str) -> list[Object]:
    """A card's parts as AMD's driver v0.1 offers them: without counters."""
    return [{**cut(card, mode, part), "consumesCounters": []} for part in range(MODES[mode])]


HALF_SLICED = resource_slice("n", NVIDIA, mig(0, 0), mig(0, 1), a100(1))
HALF_CUT = resource_slice("n", AMD, *uncounted(0, "spx_nps1"), *uncounted(1, "spx_nps1"), *uncounted(2, "cpx_nps4"))
ANY_NVIDIA = device_class(NVIDIA, f"device.driver == '{NVIDIA}'")
PARTS = {"placement": {"devices": ["Partition"]}}


@pytest.mark.parametrize(
    ("objects", "spec", "gibibytes"),
    [
        ([node("n"), HALF_SLICED, ANY_NVIDIA], {}, 460),
        ([node("n"), HALF_SLICED, ANY_NVIDIA], PARTS, 230),
        ([node("n"), HALF_CUT, AMD_CLASS], {"gpusPerNode": 2}, 614),
        ([node("n"), HALF_CUT, AMD_CLASS], PARTS, 38),
        # All views of a card use one part of the node: two cards, whichever way they are cut.
        ([node("n"), cards(2), AMD_CLASS], {}, 460),
        ([node("n"), cards(2), resource_slice("n", NVIDIA, a100(0), a100(1)), AMD_CLASS, ANY_NVIDIA],
         {"placement": {"vendors": ["NVIDIA"]}}, 230),
        # A device plugin's devices beside those of a driver.
        ([node("n", MI300X, 3), resource_slice("n", NVIDIA, a100(0)), ANY_NVIDIA], {"placement": {"vendors": ["NVIDIA"]}}, 230),
        ([node("n", MI300X, 3), resource_slice("n", NVIDIA, a100(0)), ANY_NVIDIA], {"placement": {"vendors": ["AMD"]}}, 230),
    ],
)  # fmt: skip
def test_devices_of_a_node_share_its_memory_with_those_of_other_kinds(
    objects: list[Object], spec: dict[str, Any], gibibytes: int
) -> None:
    found = decision(*objects, **spec)
    assert found.choice is not None, found.verdict
    assert found.choice.needs.memory == gibibytes * 2**30


def test_a_job_leaves_the_slices_of_its_node_their_part() -> None:
    first, second, third = placings([{}, PARTS, PARTS], node("n"), HALF_SLICED, ANY_NVIDIA)
    assert [each.choice and each.choice.needs.memory // 2**30 for each in (first, second, third)] == [460, 230, 230]


@pytest.mark.parametrize(("mode", "held"), [("cpx_nps4", 0), ("cpx_nps4", 5), ("dpx_nps2", 0), ("dpx_nps2", 1)])
def test_the_number_of_devices_of_one_card_contradicts_no_label(mode: str, held: int) -> None:
    offered = uncounted(0, mode)[held:]
    pool = pool_of(fleet(node("n", price="2"), resource_slice("n", AMD, *offered), AMD_CLASS), "n")
    assert (pool.portion.profile, pool.total, pool.warnings) == (mode, len(offered), ())


BOTH = node(
    "n",
    A100,
    2,
    devices={"nvidia.com/gpu": "1", "nvidia.com/mig-3g.40gb": "2"},
    labels={"nvidia.com/mig.strategy": "mixed"},
)


@pytest.mark.parametrize(
    ("held", "whole", "slices"),
    [
        ((), 1, 2),
        (("gpu-0-mig-0",), 1, 1),
        (("gpu-0-mig-0", "gpu-0-mig-1"), 1, 0),
        (("gpu-1",), 0, 2),
        (("gpu-1", "gpu-0-mig-1"), 0, 1),
    ],
)
def test_a_claim_takes_of_the_plugin_s_resource_that_its_device_is_of(
    held: tuple[str, ...], whole: int, slices: int
) -> None:
    claim = [resource_claim("c", NVIDIA, "n", *held)] if held else []
    found = free(fleet(BOTH, HALF_SLICED, ANY_NVIDIA, *claim))
    assert found == {"whole": whole, "3g.40gb": slices}


def test_where_kinds_and_resources_do_not_agree_a_claim_takes_of_each() -> None:
    single = node("n", A100, 2, devices={"nvidia.com/gpu": "2"}, labels={"nvidia.com/mig.strategy": "single"})
    slices = resource_slice("n", NVIDIA, mig(0, 0), mig(0, 1))
    found = fleet(single, slices, ANY_NVIDIA, resource_claim("c", NVIDIA, "n", "gpu-0-mig-0"))
    assert [pool.free for pool in found.pools] == [1]
