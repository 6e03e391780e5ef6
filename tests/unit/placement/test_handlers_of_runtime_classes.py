"""A pool's nodes against the handler that its pods' RuntimeClass asks for."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, Object, decision, demand, fleet, gpupool, node, runtime_class

from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Outcome, Reason, Verdict

NVIDIA = runtime_class("nvidia", "nvidia")
REMEDY = (
    "install it there, as the NVIDIA container toolkit does, or set spec.runtimeClassName in a GPUPool for such nodes"
)


def h100(name: str, *handlers: str, **more: Any) -> Object:
    return node(name, H100, handlers=["", *handlers], **more)


def decided(*objects: Object, **spec: Any) -> Decision:
    """The decision, which the quick choice must equal."""
    found = decision(*objects, **spec)
    pick = choose(demand(**spec), fleet(*objects, catalog=ANY_IMAGES), ANY_IMAGES)
    assert (pick.verdict, pick.choice) == (found.verdict, found.choice)
    return found


def test_a_pool_uses_only_the_nodes_that_have_it() -> None:
    found = decided(NVIDIA, h100("bare"), h100("good", "nvidia"))
    assert found.choice is not None
    assert found.choice.nodes == ("good",)


def test_a_gang_that_the_nodes_with_it_cannot_hold_is_misconfigured() -> None:
    found = decided(NVIDIA, h100("b1"), h100("b2"), h100("good", "nvidia"), nodes=2)
    assert found.verdict is Verdict.MISCONFIGURED
    said = f"2 of 3 nodes have no handler nvidia, which RuntimeClass nvidia requires (node b1); {REMEDY}"
    assert [reason.message for reason in found.candidates[0].reasons] == [said]


def test_what_needs_only_time_is_not_misconfigured() -> None:
    found = decided(NVIDIA, h100("bare"), h100("good", "nvidia", cordoned=True))
    assert found.verdict is Verdict.WAITING
    assert [reason.message for reason in found.candidates[0].reasons] == [
        "node good is cordoned",
        f"1 of 2 nodes has no handler nvidia, which RuntimeClass nvidia requires (node bare); {REMEDY}",
    ]


@pytest.mark.parametrize("more", [{"taints": ["team=x:NoSchedule"]}, {"allocatable": {"memory": "1Gi"}}])
def test_mending_that_would_not_do_is_no_way_out(more: dict[str, Any]) -> None:
    found = decided(NVIDIA, h100("bare", **more), resources={"memory": "4Gi"})
    assert (found.verdict, found.candidates[0].outcome) == (Verdict.IMPOSSIBLE, Outcome.REJECTED)
    assert Reason.RUNTIME_HANDLER_MISSING in {reason.reason for reason in found.candidates[0].reasons}


def test_what_other_nodes_lack_does_not_matter_where_mending_would_do() -> None:
    found = decided(NVIDIA, h100("bare"), h100("closed", "nvidia", taints=["team=x:NoSchedule"]))
    assert found.verdict is Verdict.MISCONFIGURED
    assert {reason.reason for reason in found.candidates[0].reasons} == {Reason.RUNTIME_HANDLER_MISSING}


def test_a_gpupool_with_another_class_is_a_way_out() -> None:
    mine = gpupool("mine", {"pool": "x"}, runtimeClassName="plain")
    found = decided(NVIDIA, runtime_class("plain", "runc"), h100("bare", "runc", labels={"pool": "x"}), mine)
    assert found.verdict is Verdict.PLACED


def test_without_the_class_no_handler_is_asked_for() -> None:
    assert decided(h100("bare")).verdict is Verdict.PLACED


def test_a_quota_that_never_allows_the_gpus_outweighs_what_could_be_mended() -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team"},
             "status": {"hard": {"requests.nvidia.com/gpu": "0"}, "used": {"requests.nvidia.com/gpu": "0"}}}  # fmt: skip
    found, asked = fleet(NVIDIA, h100("bare"), quota, catalog=ANY_IMAGES), demand().but(namespace="team")
    assert decide(asked, found, ANY_IMAGES).verdict is Verdict.IMPOSSIBLE
    assert choose(asked, found, ANY_IMAGES).verdict is Verdict.IMPOSSIBLE
