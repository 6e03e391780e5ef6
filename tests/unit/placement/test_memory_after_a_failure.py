"""A job whose attempt ran out of GPU memory asks for larger GPUs, where spec.retries.memoryFactor says so."""

from __future__ import annotations

from dataclasses import replace

from builders import ANY_IMAGES, H100, MI300X, demand, fleet, node

from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.decision_json import plan
from gpujob.values.vocabulary import Reason, Verdict

CHEAP, LARGE = node("cheap", H100, price="1"), node("large", MI300X, price="9")
FLOOR = 117 * 10**9


def test_a_larger_gpu_is_taken_although_a_smaller_one_is_cheaper() -> None:
    here = fleet(CHEAP, LARGE, catalog=ANY_IMAGES)
    asked = replace(demand(), memory_floor=FLOOR)
    decision = decide(asked, here, ANY_IMAGES)
    assert plan(decision)["chosen"]["nodeNames"] == ["large"]
    assert choose(asked, here, ANY_IMAGES).choice == decision.choice
    (other,) = (c for c in decision.candidates if c.outcome.value == "Rejected" and len(c.reasons) == 1)
    assert other.reasons[0].reason is Reason.MEM_RAN_OUT
    assert other.reasons[0].message.startswith(
        "the job ran out of GPU memory and asks for 108.97Gi since (retries.memoryFactor), H100-SXM has "
    )


def test_where_no_gpu_is_that_large_the_job_is_impossible() -> None:
    here = fleet(CHEAP, catalog=ANY_IMAGES)
    assert decide(replace(demand(), memory_floor=FLOOR), here, ANY_IMAGES).verdict is Verdict.IMPOSSIBLE


def test_a_pool_of_unknown_memory_is_never_taken_to_hold_it() -> None:
    here = fleet(node("u", devices={"nvidia.com/gpu": "8"}), catalog=ANY_IMAGES)
    reasons = decide(replace(demand(), memory_floor=FLOOR), here, ANY_IMAGES).candidates[0].reasons
    assert Reason.MEM_UNKNOWN in {each.reason for each in reasons}
