"""LimitRanges are read before placement: what a job asks is held against them, what it leaves open stays within them."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, MI300X, Object, demand, fleet, node, pod

from gpujob.fleet.policy.limit_range import UNLIMITED, Bound, read_limit_range, tightest
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.filters.limit_range import bounded
from gpujob.placement.scoring.candidate import Decision
from gpujob.placement.suggestions.search import with_fix
from gpujob.values.vocabulary import Reason, Verdict

GI = 2**30


def limit_range(*items: Object, name: str = "l", namespace: str = "team") -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": list(items)}}


def quota(**hard: str) -> Object:
    metadata, spec = {"name": "q", "namespace": "team"}, {"hard": hard}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec, "status": spec}


def of(kind: str = "Container", **amounts: Any) -> Object:
    return {"type": kind, **amounts}


def decided(*objects: Object, **spec: Any) -> Decision:
    """The decision for a job of the namespace, which the quick choice must equal, with its fix."""
    known = fleet(*objects, catalog=ANY_IMAGES)
    wish = bounded(demand(**spec).but(namespace="team"), known, "team")
    found, pick = decide(wish, known, ANY_IMAGES), choose(wish, known, ANY_IMAGES)
    assert (pick.verdict, pick.choice) == (found.verdict, found.choice)
    fixed = with_fix(found, known, ANY_IMAGES)
    if fixed.fix is not None:
        assert choose(fixed.fix.demand, known, ANY_IMAGES).verdict is Verdict.PLACED
    return fixed


def told(found: Decision) -> tuple[Verdict, str, object]:
    fix = found.fix and [(change.field, change.after) for change in found.fix.changes]
    return found.verdict, found.candidates[0].reasons[0].message, fix


@pytest.mark.parametrize(
    ("limit", "spec", "message", "fix"),
    [
        (
            of(max={"cpu": "8"}),
            {"resources": {"cpu": "16"}},
            "LimitRange l: at most 8 cpu for each container, the job requests 16",
            ("spec.resources.cpu", "8"),
        ),
        (
            of("Pod", max={"memory": "64Gi"}),
            {"resources": {"memory": "100Gi"}},
            "LimitRange l: at most 64Gi memory for each pod, the job requests 100Gi",
            ("spec.resources.memory", "64Gi"),
        ),
        (
            of(min={"memory": "8Gi"}),
            {"resources": {"memory": "4Gi"}},
            "LimitRange l: at least 8Gi memory for each container, the job requests 4Gi",
            ("spec.resources.memory", "8Gi"),
        ),
        (
            of(max={"nvidia.com/gpu": "2"}),
            {"gpusPerNode": 4},
            "LimitRange l: at most 2 nvidia.com/gpu for each container, the job requests 4",
            ("spec.gpusPerNode", 2),
        ),
        (
            of("Pod", min={"nvidia.com/gpu": 4}),
            {"gpusPerNode": 1},
            "LimitRange l: at least 4 nvidia.com/gpu for each pod, the job requests 1",
            ("spec.gpusPerNode", 4),
        ),
        (
            of(max={"memory": "8Gi"}),
            {"resources": {"sharedMemory": "16Gi"}},
            "LimitRange l: at most 8Gi memory for each container, the job's shared memory needs 16Gi",
            ("spec.resources.sharedMemory", "8Gi"),
        ),
    ],
)
def test_what_a_limit_range_does_not_allow_is_refused_with_numbers_and_a_fix_that_applies(
    limit: Object, spec: dict[str, Any], message: str, fix: tuple[str, object]
) -> None:
    assert told(decided(node("h", H100), limit_range(limit), **spec)) == (Verdict.IMPOSSIBLE, message, [fix])


def test_other_namespaces_other_resources_and_volumes_are_not_concerned() -> None:
    others = [
        limit_range(of(max={"cpu": "1"}), namespace="other"),
        limit_range(of(max={"amd.com/gpu": "0"})),
        limit_range(of("PersistentVolumeClaim", max={"storage": "1Gi"})),
        limit_range(of(maxLimitRequestRatio={"cpu": "2"})),
    ]
    for other in others:
        assert decided(node("h", H100), other, resources={"cpu": "16"}).verdict is Verdict.PLACED


def test_what_a_job_leaves_open_is_kept_within_them() -> None:
    free = decided(node("h", H100)).choice
    assert free is not None
    assert free.needs.millicores > 4000
    small = decided(
        node("h", H100), limit_range(of(max={"cpu": "4", "memory": "20Gi", "ephemeral-storage": "5Gi"}))
    ).choice
    assert small is not None
    assert (small.needs.millicores, small.needs.memory, small.needs.storage) == (4000, 20 * GI, 5 * GI)
    large = decided(node("h", H100), limit_range(of(min={"cpu": "100"}))).choice
    assert large is not None
    assert large.needs.millicores == 100_000
    assert decided(node("h", H100), limit_range(of(min={"cpu": "200"}))).verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize(
    ("minimum", "others", "spec", "verdict", "said"),
    [
        (
            of(min={"cpu": "200"}), [], {}, Verdict.IMPOSSIBLE,
            "needs 200 CPU (the minimum of LimitRange l) on one node, the largest node has 128",
        ),
        (
            of("Pod", min={"ephemeral-storage": "9Ti"}), [], {}, Verdict.IMPOSSIBLE,
            "needs 9216Gi ephemeral-storage (the minimum of LimitRange l) on one node, the largest node has 1000Gi",
        ),
        (
            of(min={"cpu": "100"}), [node("g", H100, allocatable={"cpu": "90"})], {"nodes": 2}, Verdict.IMPOSSIBLE,
            "needs 100 CPU (the minimum of LimitRange l) on each of 2 nodes, 1 of 2 have that",
        ),
        (
            of(min={"cpu": "100"}), [pod("p", "h", cpu="60")], {}, Verdict.WAITING,
            "GPUs are free on node h, which has too little left beside them: 68 CPU of 100 needed (the minimum of LimitRange l)",
        ),
        (
            of(min={"cpu": "60"}), [quota(**{"requests.cpu": "50"})], {}, Verdict.IMPOSSIBLE,
            "ResourceQuota q: requests.cpu needs 60, 50 left of 50 (the minimum of LimitRange l)",
        ),
        # What the job itself asks is the job's.
        (
            of(min={"cpu": "200"}), [], {"resources": {"cpu": "200"}}, Verdict.IMPOSSIBLE,
            "needs 200 CPU on one node, the largest node has 128",
        ),
    ],
)  # fmt: skip
def test_a_minimum_that_raises_what_a_pod_needs_is_named(
    minimum: Object, others: list[Object], spec: dict[str, Any], verdict: Verdict, said: str
) -> None:
    found = decided(node("h", H100), *others, limit_range(minimum), **spec)
    assert (found.verdict, found.candidates[0].reasons[0].message) == (verdict, said)


def test_of_several_ranges_the_one_that_raises_is_named() -> None:
    ranges = [limit_range(of(min={"cpu": amount}), name=f"at-least-{amount}") for amount in ("150", "300", "200")]
    assert (
        "(the minimum of LimitRange at-least-300)" in decided(node("h", H100), *ranges).candidates[0].reasons[0].message
    )


def test_shared_memory_alone_is_raised_to_the_minimum() -> None:
    found = decided(node("h", H100), limit_range(of(min={"memory": "64Gi"})), resources={"sharedMemory": "8Gi"}).choice
    assert found is not None
    assert (found.needs.memory >= 64 * GI, found.shared_memory) == (True, 8 * GI)


def test_ranges_that_leave_nothing_are_told() -> None:
    ranges = (limit_range(of(max={"cpu": "2"}), name="a"), limit_range(of(min={"cpu": "4"}), name="b"))
    found = decided(node("h", H100), *ranges)
    said = "LimitRange a: at most 2 cpu for each container, others want at least 4"
    assert (found.verdict, found.candidates[0].reasons[0].message) == (Verdict.IMPOSSIBLE, said)


def test_devices_that_containers_without_any_are_given_count() -> None:
    given = limit_range(of(default={"nvidia.com/gpu": "4"}))
    code: dict[str, Any] = {"code": {"configMap": {"name": "c"}}}
    assert decided(node("h", H100), given).verdict is Verdict.PLACED, "its one container says its devices"
    assert decided(node("h", H100), given, gpusPerNode=4, **code).verdict is Verdict.PLACED
    found = decided(node("h", H100), given, **code)
    assert found.verdict is Verdict.IMPOSSIBLE
    assert found.candidates[0].reasons[0].message == (
        "LimitRange l gives 4 nvidia.com/gpu to each container that requests none (default, else max), so that the pod takes "
        "more than its 1; set default to at most that"
    )
    by_max = decided(node("h", H100), limit_range(of(max={"nvidia.com/gpu": "4"})), **code)
    assert by_max.candidates[0].reasons[0].reason is Reason.LIMIT_RANGE
    both = limit_range(of(max={"nvidia.com/gpu": "4"}, default={"nvidia.com/gpu": "1"}))
    assert decided(node("h", H100), both, **code).verdict is Verdict.PLACED


def test_a_figure_that_is_no_quantity_concerns_those_that_ask_for_it() -> None:
    odd = limit_range(of(max={"nvidia.com/gpu": "many"}))
    found = decided(node("h", H100), odd)
    assert found.verdict is Verdict.MISCONFIGURED
    assert (
        found.candidates[0].reasons[0].message
        == "LimitRange l: nvidia.com/gpu is many, which is not a quantity; fix it"
    )
    assert decided(node("a", MI300X), odd).verdict is Verdict.PLACED


@pytest.mark.parametrize(
    "spec",
    [
        None,
        7,
        {"limits": 7},
        {"limits": [7, {"type": 7}, {"type": "Container", "max": 7}, {"type": ["Pod"]}]},
        {"limits": [{}]},
    ],
)
def test_what_is_no_list_of_limits_says_nothing(spec: Any) -> None:
    assert read_limit_range({"metadata": {"name": "l"}, "spec": spec}) == ()


def test_the_default_of_a_container_is_its_max_where_nothing_is_said() -> None:
    found = read_limit_range(limit_range(of(max={"a.b/c": "4"}), of("Pod", max={"a.b/c": "8"})))
    assert found == (
        Bound("l", "container", "a.b/c", most=4, given=4),
        Bound("l", "pod", "a.b/c", most=8),
    )
    assert tightest(found).most.millicores == UNLIMITED


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        ({}, "and no program runs in less than 0.96Mi"),
        ({"resources": {"memory": "64Gi"}}, "the job requests 64Gi"),
        ({"resources": {"sharedMemory": "2Gi"}}, "the job's shared memory needs 2Gi"),
    ],
)
def test_a_maximum_of_memory_without_its_unit_leaves_no_share(spec: dict[str, Any], needs: str) -> None:
    found = decided(node("n", H100), limit_range(of(max={"memory": "64"})), **spec)
    sentence = f"LimitRange l: at most 64 bytes memory for each container, {needs}"
    assert told(found) == (Verdict.IMPOSSIBLE, sentence, None)
