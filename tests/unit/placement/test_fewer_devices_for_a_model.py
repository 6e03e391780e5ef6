"""A job whose number of GPUs follows from its model: what lets fewer of them hold it is a change that helps."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, Object, demand, fleet, gpupool, node

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.decide import decide
from gpujob.placement.suggestions.search import with_fix
from gpujob.values.vocabulary import Verdict

CATALOG = load_catalog()
BIG: Object = {"model": {"name": "llama-3.1-70b", "method": "LoRA", "sequenceLength": 2240}}
"""Two nodes of eight H100 hold it, one does not."""


def quota(**hard: str) -> Object:
    body = {"hard": hard}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
            "spec": body, "status": body | {"used": {}}}  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "limits"),
    [
        ([node("a", H100)], {}),
        ([node("a", H100), node("b", H100), quota(pods="1")], {}),
        ([node("a", H100), node("b", H100)], {"placement": {"maxPricePerHour": "20"}}),
        ([node("a", H100), node("b", H100, taints=["team=x:NoSchedule"])], {}),
        ([gpupool("new", {"a": "b"}, accelerator="H100-SXM", provision={"maxNodes": 1, "gpusPerNode": 8})], {}),
    ],
)
def test_a_lighter_model_is_proposed_where_too_many_devices_are_in_the_way(
    objects: list[Object], limits: dict[str, Any]
) -> None:
    found, wanted = fleet(*objects, catalog=CATALOG), demand(**BIG, **limits).but(namespace="default")
    decision = with_fix(decide(wanted, found, CATALOG), found, CATALOG)
    assert decision.verdict is Verdict.IMPOSSIBLE
    assert decision.fix is not None
    assert "spec.model.gradientCheckpointing Layers instead of None" in decision.fix.message
    assert decide(decision.fix.demand, found, CATALOG).verdict in (Verdict.PLACED, Verdict.WAITING)
