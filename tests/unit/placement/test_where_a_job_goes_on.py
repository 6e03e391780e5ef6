"""Where the next attempt goes: to the pool of a failure of the user's, and to the vendor that wrote the checkpoints."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import ANY_IMAGES, H100, MI300X, demand, fleet, node

from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.report.decision_json import plan
from gpujob.values.vocabulary import Reason, Vendor, Verdict

HERE = fleet(node("cheap", H100, price="1"), node("other", MI300X, price="9"), catalog=ANY_IMAGES)
VOLUME = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
KEPT = demand(volumes=[VOLUME], checkpoint={"volume": "v"})


@pytest.mark.parametrize(("vendor", "name"), [(None, "cheap"), (Vendor.AMD, "other"), (Vendor.NVIDIA, "cheap")])
def test_a_job_goes_on_at_the_vendor_on_which_it_ran(vendor: Vendor | None, name: str) -> None:
    asked = replace(KEPT, resumes_on=vendor)
    assert plan(decide(asked, HERE, ANY_IMAGES))["chosen"]["nodeNames"] == [name]
    choice = choose(asked, HERE, ANY_IMAGES).choice
    assert choice is not None
    assert choice.nodes == (name,)


def test_where_only_the_other_vendor_is_left_the_sentence_says_how_to_go_on_there() -> None:
    here = fleet(node("cheap", H100), catalog=ANY_IMAGES)
    found = decide(replace(KEPT, resumes_on=Vendor.AMD), here, ANY_IMAGES)
    assert found.verdict is Verdict.IMPOSSIBLE
    reason = found.candidates[0].reasons[0]
    assert (reason.reason, reason.message) == (
        Reason.VENDOR_EXCLUDED,
        "the job ran on AMD and its checkpoints stay there; set checkpoint.resumeOn: AnyVendor to go on at NVIDIA",
    )


def test_a_job_goes_on_at_any_vendor_where_it_says_so() -> None:
    assert KEPT.keeps_vendor
    assert demand(checkpoint={}).keeps_vendor
    assert not demand(checkpoint={"resumeOn": "AnyVendor"}).keeps_vendor
    assert not demand().keeps_vendor


def test_a_failure_of_the_users_is_not_repeated_on_another_pool() -> None:
    there = next(pool.name for pool in HERE.pools if pool.vendor is Vendor.AMD)
    asked = replace(demand(), stays_on=there)
    assert plan(decide(asked, HERE, ANY_IMAGES))["chosen"]["nodeNames"] == ["other"]
    choice = choose(asked, HERE, ANY_IMAGES).choice
    assert choice is not None
    assert choice.nodes == ("other",)
    gone = decide(replace(demand(), stays_on="gone"), HERE, ANY_IMAGES)
    assert gone.verdict is Verdict.IMPOSSIBLE
    assert gone.candidates[0].reasons[0].message == (
        "the job failed by its own fault on pool gone, which is not repeated on another pool"
    )
