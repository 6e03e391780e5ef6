"""Several GPUs of a job on parts of cards: NCCL takes slices of one card as one device."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, ANY_IMAGES, H100, MI300X, T4, Object, decision, fleet, node

from gpujob.placement.report.summary import of_the_job
from gpujob.placement.suggestions.search import with_fix
from gpujob.values.vocabulary import Reason, Verdict

MIXED = {"nvidia.com/mig.strategy": "mixed"}


@pytest.mark.parametrize(
    ("each", "nodes", "verdict"),
    [(1, 1, Verdict.PLACED), (1, 2, Verdict.PLACED), (2, 1, Verdict.IMPOSSIBLE), (3, 1, Verdict.IMPOSSIBLE)],
)
def test_slices_of_one_card_form_no_group(each: int, nodes: int, verdict: Verdict) -> None:
    sliced = [node(name, A100, labels=MIXED, devices={"nvidia.com/mig-1g.10gb": "7"}) for name in ("a", "b")]
    placement: dict[str, Any] = {"devices": ["Partition"]}
    found = decision(*sliced, nodes=nodes, gpusPerNode=each, placement=placement)
    assert found.verdict is verdict
    refused = {reason.reason for candidate in found.candidates for reason in candidate.reasons}
    assert (Reason.SHARED_DEVICE in refused) is (verdict is Verdict.IMPOSSIBLE)


def test_a_warning_of_each_pool_is_one_of_the_job() -> None:
    found = decision(node("h", H100), node("a", A100), command=[])
    assert {finding.reason for finding in of_the_job(found)} >= {Reason.NO_COMMAND}
    alone = {finding.reason for finding in of_the_job(decision(node("h", H100), command=[]))}
    assert alone == set(), "of one pool all is said there"
    tried = decision(node("h", H100), node("a", A100), gpuMemory="500G", command=["x"])
    assert {finding.reason for finding in of_the_job(tried)} == set(), "each pool lacks another amount"


SLICED = node("s", A100, labels=MIXED, devices={"nvidia.com/mig-1g.10gb": "56"}, price="2")
CUT = node(
    "c", MI300X, labels={"amd.com/gpu.compute-memory-partition": "cpx_nps1"}, devices={"amd.com/gpu": "64"}, price="2"
)
TURNS = node("t", T4, labels={"nvidia.com/gpu.replicas": "8"}, devices={"nvidia.com/gpu.shared": "8"}, price="1")


@pytest.mark.parametrize(
    ("there", "spec", "change"),
    [
        # Fewer whole devices are nearer than as many parts of them.
        ((CUT, node("w", MI300X, 8, price="2")), {"gpusPerNode": 16}, ("spec.gpusPerNode", 8)),
        ((CUT, node("w", MI300X, 4, price="2")), {"gpusPerNode": 5}, ("spec.gpusPerNode", 4)),
        ((SLICED, node("w", A100, 1, price="2")), {"nodes": 2}, ("spec.nodes", 1)),
        ((TURNS, node("w", T4, 1, price="2")), {"gpusPerNode": 8}, ("spec.gpusPerNode", 1)),
        ((SLICED, node("w", T4, 1, price="2")), {"gpuMemory": "17G"}, ("spec.gpuMemory", "15G")),
        # Where nothing else helps, they are proposed with their size.
        ((CUT,), {"gpusPerNode": 16}, ("spec.placement.devices", ["Partition", "Whole"])),
        ((SLICED,), {}, ("spec.placement.devices", ["Partition", "Whole"])),
        ((TURNS,), {}, ("spec.placement.devices", ["Shared", "Whole"])),
    ],
)  # fmt: skip
def test_parts_of_devices_are_the_last_way_and_say_their_size(
    there: tuple[Object, ...], spec: dict[str, Any], change: tuple[str, object]
) -> None:
    known = fleet(*there, catalog=ANY_IMAGES)
    fix = with_fix(decision(*there, catalog=ANY_IMAGES, **spec), known, ANY_IMAGES).fix
    assert fix is not None
    assert [(each.field, each.after) for each in fix.changes] == [change]
    sizes = {"s": "9.4Gi", "c": "23.96Gi", "t": "1.85Gi"}
    assert (" with devices of " in fix.message) is (change[0] == "spec.placement.devices")
    if change[0] == "spec.placement.devices":
        assert fix.message.endswith(f" with devices of {sizes[there[0]['metadata']['name']]}")
