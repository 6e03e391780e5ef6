"""What ResourceQuotas leave to a namespace."""

from __future__ import annotations

from typing import Any

import pytest

from gpujob.fleet.objects import Resources
from gpujob.fleet.quota import counted_as, quotas_of, read_quota, refusal, taken_by
from gpujob.quantity import GI

NEEDS = taken_by(counted_as("amd.com/gpu"), 8, Resources(96_000, 512 * GI, 20 * GI, 1), 2)


def quota(name: str = "q", used: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A ResourceQuota object."""
    return {"metadata": {"name": name}, "spec": spec, "status": {"hard": spec.get("hard", {}), "used": used or {}}}


def said(*raws: dict[str, Any]) -> tuple[str, bool]:
    finding, never = refusal([read_quota(raw) for raw in raws], NEEDS)
    return (finding.message if finding else ""), never


@pytest.mark.parametrize(
    ("hard", "used", "sentence", "never"),
    [
        ({"requests.amd.com/gpu": "16"}, {}, "", False),
        ({"requests.amd.com/gpu": "16"}, {"requests.amd.com/gpu": "1"},
         "ResourceQuota q: requests.amd.com/gpu needs 16, 15 left of 16", False),
        ({"requests.amd.com/gpu": "8"}, {}, "ResourceQuota q: requests.amd.com/gpu needs 16, 8 left of 8", True),
        ({"requests.amd.com/gpu": "0"}, {}, "ResourceQuota q: requests.amd.com/gpu needs 16, 0 left of 0", True),
        ({"limits.memory": "1Ti"}, {"limits.memory": "1Gi"},
         "ResourceQuota q: limits.memory needs 1024Gi, 1023Gi left of 1024Gi", False),
        ({"cpu": "100"}, {}, "ResourceQuota q: cpu needs 192, 100 left of 100", True),
        ({"pods": "2"}, {"pods": "1"}, "ResourceQuota q: pods needs 2, 1 left of 2", False),
        ({"requests.nvidia.com/gpu": "0"}, {}, "", False),
        ({"persistentvolumeclaims": "0", "configmaps": "1"}, {"configmaps": "1"}, "", False),
        ({"persistentvolumeclaims": "many", "requests.nvidia.com/gpu": "many"}, {}, "", False),
        ({"pods": "many", "cpu": "400"}, {}, "ResourceQuota q: pods is many, which is no quantity; mend the quota", True),
        ({"requests.amd.com/gpu": ["16"]}, {},
         "ResourceQuota q: requests.amd.com/gpu is ['16'], which is no quantity; mend the quota", True),
        ({"cpu": "400"}, {"cpu": "some"}, "ResourceQuota q: cpu is some, which is no quantity; mend the quota", True),
    ],
)  # fmt: skip
def test_what_a_quota_says(hard: dict[str, Any], used: dict[str, Any], sentence: str, never: bool) -> None:
    assert said(quota(hard=hard, used=used)) == (sentence, never)


def test_a_quota_that_never_fits_is_told_before_one_that_will() -> None:
    waits = quota("a", {"pods": "1"}, hard={"pods": "2"})
    assert said(waits, quota("b", hard={"pods": "1"})) == ("ResourceQuota b: pods needs 2, 1 left of 1", True)


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        ({}, True),
        ({"scopes": ["NotTerminating"]}, True),
        ({"scopes": ["NotBestEffort", "NotTerminating"]}, True),
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["BestEffort"]}, False),
        ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}}, False),
    ],
)
def test_only_quotas_that_count_the_pods_of_jobs_are_read(spec: dict[str, Any], counts: bool) -> None:
    assert bool(said(quota(hard={"pods": "0"}, **spec))[0]) is counts


@pytest.mark.parametrize(
    "raw", [{}, {"spec": []}, {"spec": {"hard": 7}}, {"metadata": None, "status": {"hard": {"widgets": {}}}}]
)
def test_a_malformed_quota_limits_nothing(raw: dict[str, Any]) -> None:
    assert refusal([read_quota(raw)], NEEDS) == (None, False)


def test_quotas_are_kept_by_namespace() -> None:
    found = quotas_of([("b", read_quota(quota(hard={"pods": "1"}))), ("a", read_quota(quota()))])
    assert list(found) == ["b"]
