"""What a plan says once of a job that its own sources keep on CUDA."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, H100, MI210, MI300X, Object, demand, fleet, node

from gpujob.catalog.files.load import load_catalog
from gpujob.placement.engine.decide import decide
from gpujob.placement.report import decision_json
from gpujob.placement.report.notes import PORT, notes

CATALOG = load_catalog()
H, A = node("h", H100, price="2"), node("a", A100, price="2")
M, OLDER = node("m", MI300X, price="1"), node("i", MI210, price="1")
OWN = {"cuda": {"image": "own:1"}, "rocm": {"image": "own:2"}}


def told(*objects: Object, **spec: Any) -> list[str]:
    return list(notes(decide(demand(**spec), fleet(*objects, catalog=CATALOG), CATALOG)))


def test_a_port_needs_three_things() -> None:
    for word in ("hipify", "inline PTX", "warp"):
        assert word in PORT


@pytest.mark.parametrize(
    ("objects", "spec"),
    [
        ([H, M], {"requires": ["CustomCUDAKernels"]}),
        ([A, H, M, OLDER], {"requires": ["CustomCUDAKernels"]}),
        ([H, M], {"requires": ["BF16", "CustomCUDAKernels"]}),
        ([H, M], {"requires": ["CustomCUDAKernels"], "images": OWN}),
        ([M], {"requires": ["CustomCUDAKernels"]}),
    ],
)
def test_it_is_said_once_where_the_sources_refuse_amd(objects: list[Object], spec: dict[str, Any]) -> None:
    assert told(*objects, **spec) == [PORT]


@pytest.mark.parametrize(
    ("objects", "spec"),
    [
        ([H, M], {}),
        ([H], {"requires": ["CustomCUDAKernels"]}),
        ([H, M], {"requires": ["FlashAttention"]}),
        ([H, M], {"requires": ["OpenSourceStack"]}),
    ],
)
def test_it_is_not_said_where_nothing_else_keeps_the_job_on_cuda(objects: list[Object], spec: dict[str, Any]) -> None:
    assert told(*objects, **spec) == []


def test_json_has_it() -> None:
    found = decide(demand(requires=["CustomCUDAKernels"]), fleet(H, M, catalog=CATALOG), CATALOG)
    assert decision_json.plan(found)["notes"] == [PORT]
