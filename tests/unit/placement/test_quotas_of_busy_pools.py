"""A quota that can never hold a job's CPU or memory rejects the job whether its GPUs are free now or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from builders import ANY_IMAGES, H100, Object, demand, fleet, node, pod

from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.engine.choose import choose
from gpujob.placement.filters.selection import FilterSelection
from gpujob.placement.request.demand import Demand
from gpujob.placement.scoring.candidate import Decision
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.vocabulary import Reason, Verdict

GPUS = "nvidia.com/gpu"
WHOLE = {"gpusPerNode": 8}


def quota(used: dict[str, str] | None = None, **hard: str) -> Object:
    named = {key.replace("_", "."): amount for key, amount in hard.items()}
    return {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": named}, "status": {"hard": named, "used": used or {}},
    }  # fmt: skip


def decided(specs: Sequence[dict[str, Any]], *objects: Object) -> list[Decision]:
    """The decisions about jobs of the namespace `default`, in their order; alone each has the verdict of `choose`."""
    known = fleet(*objects)
    jobs = [PendingJob(str(i), "", demand(**spec), namespace="default") for i, spec in enumerate(specs)]
    found = [placing.decision for placing in place_all(jobs, known, ANY_IMAGES)]
    assert choose(found[0].demand, known, ANY_IMAGES).verdict is found[0].verdict
    return found


STATES = {
    "free": [node("n", H100)],
    "one-taken": [node("n", H100), pod("p", "n", {GPUS: 1})],
    "most-taken": [node("n", H100), pod("p", "n", {GPUS: 7}, cpu="100", memory="800Gi")],
    "all-taken": [node("n", H100), *(pod(f"p{i}", "n", {GPUS: 1}, cpu="14", memory="100Gi") for i in range(8))],
    "cordoned": [node("n", H100, cordoned=True)],
    "not-ready": [node("n", H100, ready=False)],
    "faulty": [node("n", H100, allocatable={GPUS: "7"})],
}
QUOTAS = [
    (quota(requests_cpu="40"), {}, "requests.cpu needs 115, 40 left of 40"),
    (quota(limits_cpu="40"), {}, "limits.cpu needs 115, 40 left of 40"),
    (quota(requests_cpu="40"), {"resources": {"cpu": 90}}, "requests.cpu needs 90, 40 left of 40"),
    (quota(memory="64Gi"), {}, "memory needs 921Gi, 64Gi left of 64Gi"),
    (quota(requests_memory="64Gi"), {"resources": {"memory": "65Gi"}}, "requests.memory needs 65Gi, 64Gi left of 64Gi"),
]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("limit", "spec", "says"), QUOTAS)
def test_a_quota_that_never_suffices_rejects_in_every_state_of_the_node(
    state: str, limit: Object, spec: dict[str, Any], says: str
) -> None:
    (found,) = decided([{**WHOLE, **spec}], *STATES[state], limit)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert [why.message for why in found.candidates[0].reasons] == [f"ResourceQuota q: {says}"]


@pytest.mark.parametrize("before", range(1, 8))
def test_jobs_before_it_in_the_queue_change_nothing(before: int) -> None:
    specs = [{"gpusPerNode": before, "resources": {"cpu": 1, "memory": "1Gi"}}, WHOLE]
    first, last = decided(specs, node("n", H100), quota(requests_cpu="40"))
    assert (first.verdict, last.verdict) == (Verdict.PLACED, Verdict.IMPOSSIBLE)


def test_a_fix_counts_what_the_pods_will_have_on_a_busy_node() -> None:
    objects = (*STATES["one-taken"], quota(requests_cpu="40"))
    (found,) = decided([{"gpusPerNode": 16}], *objects)
    assert found.fix is not None
    assert {change.field: change.after for change in found.fix.changes} == {
        "spec.gpusPerNode": 8,
        "spec.resources.cpu": "40",
    }


def test_a_quota_that_others_use_now_is_a_reason_beside_the_busy_gpus() -> None:
    limit = quota({"requests.cpu": "100"}, requests_cpu="120")
    (found,) = decided([WHOLE], *STATES["one-taken"], limit)
    assert found.verdict is Verdict.WAITING
    assert [why.reason for why in found.candidates[0].reasons] == [Reason.NOT_ENOUGH_FREE, Reason.QUOTA_EXCEEDED]


def test_what_pods_leave_that_stay_on_the_node_is_what_the_share_comes_from() -> None:
    """Four pods take nearly all CPU for half of the GPUs: a gang of the other half gets a quarter of its share."""
    crowd = [pod(f"p{i}", "n", {GPUS: 1}, cpu="31") for i in range(4)]
    limit = quota(requests_cpu="40")
    (now,) = decided([{"gpusPerNode": 4}], node("n", H100), *crowd, limit)
    (later,) = decided([{"gpusPerNode": 4}], node("n", H100), *crowd, pod("q", "n", {GPUS: 1}, cpu="1m"), limit)
    assert (now.verdict, later.verdict) == (Verdict.WAITING, Verdict.WAITING)
    (alone,) = decided([{"gpusPerNode": 4}], node("n", H100), limit)
    assert alone.verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize(("namespace", "asked"), [("default", 0), ("other", 1)])
def test_pools_whose_gpus_a_quota_never_allows_are_left_out_at_once(
    namespace: str, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A choice runs no filter of such a pool; in a namespace without a quota it runs them."""
    run = list[str]()
    first_refusal = FilterSelection.first_refusal

    def counted(self: FilterSelection, wish: Demand, pool: Pool, known: Fleet) -> Any:
        run.append(pool.name)
        return first_refusal(self, wish, pool, known)

    monkeypatch.setattr(FilterSelection, "first_refusal", counted)
    known = fleet(node("n", H100), quota(**{"requests.nvidia.com/gpu": "2"}))
    wish = demand(**WHOLE).but(namespace=namespace)
    assert choose(wish, known, ANY_IMAGES).verdict is (Verdict.PLACED if asked else Verdict.IMPOSSIBLE)
    assert len(run) == asked
