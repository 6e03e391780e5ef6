"""Several GPUs of a job on parts of cards: NCCL takes slices of one card as one device."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, H100, decision, node

from gpujob.placement.report.summary import of_the_job
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
