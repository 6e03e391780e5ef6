"""A job that failed by its own fault is not tried on another pool, whatever else it says of pools."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import ANY_IMAGES, H100, MI300X, demand, fleet, node

from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.decision_json import plan
from gpujob.values.vocabulary import Outcome, Reason, Verdict

CHEAP, DEAR = node("cheap", H100, price="1"), node("dear", MI300X, price="9")
H100_POOL, MI300X_POOL = "h100-sxm-ondemand", "mi300x-ondemand"


def test_the_pool_of_the_failed_attempt_is_taken_again_although_another_is_cheaper() -> None:
    here = fleet(CHEAP, DEAR, catalog=ANY_IMAGES)
    again = replace(demand(), stays_on=MI300X_POOL)
    assert plan(decide(demand(), here, ANY_IMAGES))["chosen"]["nodeNames"] == ["cheap"]
    assert plan(decide(again, here, ANY_IMAGES))["chosen"]["nodeNames"] == ["dear"]
    assert choose(again, here, ANY_IMAGES).choice == decide(again, here, ANY_IMAGES).choice


@pytest.mark.parametrize("pools", [None, {"allow": [H100_POOL, MI300X_POOL]}, {"deny": [H100_POOL]}])
def test_it_waits_for_that_pool_and_says_why(pools: object) -> None:
    here = fleet(CHEAP, node("dear", MI300X, price="9", cordoned=True), catalog=ANY_IMAGES)
    placement = {"placement": {"pools": pools}} if pools else {}
    found = decide(replace(demand(**placement), stays_on=MI300X_POOL), here, ANY_IMAGES)
    assert found.verdict is Verdict.WAITING
    (other,) = {c.pool.name: c for c in found.candidates if c.pool.name != MI300X_POOL}.values()
    assert (other.outcome, other.reasons[0].reason) == (Outcome.REJECTED, Reason.POOL_EXCLUDED)
    assert other.reasons[0].message == (
        f"the job failed by its own fault on pool {MI300X_POOL}, which is not repeated on another pool"
    )
