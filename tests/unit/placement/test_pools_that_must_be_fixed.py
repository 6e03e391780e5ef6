"""A pool that must be fixed concerns the jobs that could run on it then, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, MI300X, Object, decision, gpupool, node

from gpujob.values.vocabulary import Reason, Verdict

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
