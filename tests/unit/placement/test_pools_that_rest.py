"""A pool to whose nodes the scheduler did not bind the job's pods is left alone for a while, although it has room."""

from __future__ import annotations

from dataclasses import replace

from builders import ANY_IMAGES, H100, MI300X, demand, fleet, node

from gpujob.placement.engine.decide import decide
from gpujob.placement.report.decision_json import plan
from gpujob.values.vocabulary import Outcome, Verdict

UNTIL = "2026-11-28T12:00:00Z"
WHY = "pod j-1-0 is bound to no node: 0/3 nodes are available"
CHEAP, DEAR = node("cheap", H100, price="1"), node("dear", MI300X, price="9")


def test_the_next_pool_is_taken() -> None:
    rested = replace(demand(), pools_resting=(("h100-sxm-ondemand", UNTIL, WHY), ("h100-ondemand", UNTIL, WHY)))
    here = fleet(CHEAP, DEAR, catalog=ANY_IMAGES)
    assert plan(decide(demand(), here, ANY_IMAGES))["chosen"]["nodeNames"] == ["cheap"]
    assert plan(decide(rested, here, ANY_IMAGES))["chosen"]["nodeNames"] == ["dear"]


def test_where_there_is_no_other_the_job_waits_and_says_until_when() -> None:
    here = fleet(CHEAP, catalog=ANY_IMAGES)
    found = decide(replace(demand(), pools_resting=((here.pools[0].name, UNTIL, WHY),)), here, ANY_IMAGES)
    assert (found.verdict, found.candidates[0].outcome) == (Verdict.WAITING, Outcome.BUSY)
    assert [reason.message for reason in found.candidates[0].reasons] == [
        f"its nodes did not take the job's pods ({WHY}); tried again at {UNTIL}"
    ]


def test_a_job_that_became_too_large_is_refused_for_that() -> None:
    here = fleet(CHEAP, catalog=ANY_IMAGES)
    large = replace(demand(nodes=9), pools_resting=((here.pools[0].name, UNTIL, WHY),))
    assert decide(large, here, ANY_IMAGES).verdict is Verdict.IMPOSSIBLE
