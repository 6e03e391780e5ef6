"""What ResourceQuotas leave to a namespace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from builders import ANY_IMAGES, H100, demand, device_class, fleet, node, resource_slice

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.policy.quota_scopes import PodTraits
from gpujob.fleet.policy.resource_quota import counted_as, objects_of, quotas_of, read_quota, shortages, taken_by_pods
from gpujob.placement.engine.decide import decide
from gpujob.placement.report import summary
from gpujob.schedule.pending_job import PendingJob
from gpujob.schedule.queue import place_all
from gpujob.values.quantity import GI
from gpujob.values.vocabulary import Reason, Verdict

NEEDS = taken_by_pods((counted_as("amd.com/gpu"),), 8, Resources(96_000, 512 * GI, 20 * GI, 1), 2)
NEEDS |= objects_of(2, by_claim=False)


def quota(name: str = "q", used: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A ResourceQuota object."""
    return {"metadata": {"name": name}, "spec": spec, "status": {"hard": spec.get("hard", {}), "used": used or {}}}


def said(*raws: dict[str, Any]) -> tuple[str, bool]:
    found, never = shortages([read_quota(raw) for raw in raws], NEEDS)
    return "; ".join(finding.message for finding in found), never


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
        ({"ephemeral-storage": "30Gi"}, {}, "ResourceQuota q: ephemeral-storage needs 40Gi, 30Gi left of 30Gi", True),
        ({"services": "3"}, {"services": "3"}, "ResourceQuota q: services needs 1, 0 left of 3", False),
        ({"count/services": "0"}, {}, "ResourceQuota q: count/services needs 1, 0 left of 0", True),
        ({"requests.nvidia.com/gpu": "0"}, {}, "", False),
        ({"persistentvolumeclaims": "0", "configmaps": "1"}, {"configmaps": "1"}, "", False),
        ({"persistentvolumeclaims": "many", "requests.nvidia.com/gpu": "many"}, {}, "", False),
        ({"pods": "many", "cpu": "400"}, {}, "ResourceQuota q: pods is many, which is not a quantity; fix the quota", True),
        ({"requests.amd.com/gpu": ["16"]}, {},
         "ResourceQuota q: requests.amd.com/gpu is ['16'], which is not a quantity; fix the quota", True),
        ({"cpu": "400"}, {"cpu": "some"}, "ResourceQuota q: cpu is some, which is not a quantity; fix the quota", True),
    ],
)  # fmt: skip
def test_what_a_quota_says(hard: dict[str, Any], used: dict[str, Any], sentence: str, never: bool) -> None:
    assert said(quota(hard=hard, used=used)) == (sentence, never)


@pytest.mark.parametrize("odd", [None, True, 5])
def test_a_resource_whose_name_is_no_text_is_passed_over(odd: Any) -> None:
    found = read_quota(quota(hard={odd: "1", "pods": "2"}, used={odd: "1"}))
    assert (dict(found.hard), dict(found.unread)) == ({"pods": 2}, {})


def test_a_job_of_one_pod_takes_no_service() -> None:
    assert objects_of(1, by_claim=False)["services"] == 0


def test_a_quota_that_never_fits_is_told_before_one_that_will() -> None:
    waits = quota("a", {"pods": "1"}, hard={"pods": "2"})
    assert said(waits, quota("b", hard={"pods": "1"})) == ("ResourceQuota b: pods needs 2, 1 left of 1", True)


def test_every_resource_that_is_short_is_told() -> None:
    hard = {"pods": "4", "requests.memory": "1Gi", "requests.amd.com/gpu": "8"}
    told = said(quota("a", hard=hard), quota("b", hard={"requests.amd.com/gpu": "15"}))
    assert told == (
        "ResourceQuota a: requests.amd.com/gpu needs 16, 8 left of 8; "
        f"{said(quota('a', hard={'requests.memory': '1Gi'}))[0]}; "
        "ResourceQuota b: requests.amd.com/gpu needs 16, 15 left of 15",
        True,
    )
    now = quota("a", {"pods": "4", "requests.amd.com/gpu": "1"}, hard={"pods": "4", "requests.amd.com/gpu": "16"})
    assert said(now) == (
        "ResourceQuota a: pods needs 2, 0 left of 4; ResourceQuota a: requests.amd.com/gpu needs 16, 15 left of 16",
        False,
    )


def term(scope: Any, operator: Any = "Exists", *values: Any) -> dict[str, Any]:
    return {"scopeSelector": {"matchExpressions": [{"scopeName": scope, "operator": operator, "values": list(values)}]}}


@pytest.mark.parametrize(
    ("spec", "without_class", "high"),
    [
        ({}, True, True),
        ({"scopes": ["NotTerminating"]}, True, True),
        ({"scopes": ["NotBestEffort", "NotTerminating"]}, True, True),
        ({"scopes": ["NotBestEffort", "Terminating"]}, False, False),
        ({"scopes": ["BestEffort"]}, False, False),
        ({"scopes": ["PriorityClass"]}, False, True),
        ({"scopes": ["VolumeAttributesClass"]}, False, False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, False, False),
        (term("PriorityClass"), False, True),
        (term("PriorityClass", "DoesNotExist"), True, False),
        (term("PriorityClass", "In", "high", "other"), False, True),
        (term("PriorityClass", "In", "other"), False, False),
        (term("PriorityClass", "NotIn", "high"), True, False),
        (term("PriorityClass", "NotIn", "other"), True, True),
        (term("NotTerminating"), True, True),
        # All must hold.
        ({"scopes": ["NotTerminating"], **term("PriorityClass", "In", "high")}, False, True),
        ({"scopes": ["Terminating"], **term("Weather")}, False, False),
        # Nothing is known of these.
        ({"scopes": ["Weather"]}, None, None),
        (term("Weather"), None, None),
        (term("PriorityClass", "Like", "h"), None, None),
        (term("NotTerminating", "In", "x"), None, None),
        ({"scopes": [7]}, None, None),
        ({"scopes": "NotTerminating"}, True, True),
        ({"scopes": {"NotTerminating": True}}, None, None),
        ({"scopeSelector": {"matchExpressions": "all"}}, None, None),
        ({"scopeSelector": {"matchExpressions": [[]]}}, None, None),
    ],
)  # fmt: skip
def test_which_pods_of_jobs_a_quota_counts(spec: dict[str, Any], without_class: bool | None, high: bool | None) -> None:
    read = read_quota(quota(hard={"pods": "0"}, **spec))
    assert (read.counts(PodTraits()), read.counts(PodTraits("high"))) == (without_class, high)


@pytest.mark.parametrize("length", [63, 64, 253])
def test_a_scope_names_classes_as_long_as_they_can_be(length: int) -> None:
    name = length * "x"
    read = read_quota(quota(hard={"pods": "0"}, **term("PriorityClass", "In", name)))
    assert (read.counts(PodTraits(name)), read.counts(PodTraits(name[:-1]))) == (True, False)


def test_pods_that_avoid_those_of_other_namespaces_are_counted_by_the_scope_for_it() -> None:
    read = read_quota(quota(hard={"pods": "0"}, scopes=["CrossNamespacePodAffinity"]))
    assert read.counts(PodTraits(across_namespaces=True)) is True


def test_a_quota_with_scopes_counts_pods_alone() -> None:
    jobs = {"count/jobs.batch": "0", "gpu.deviceclass.resource.k8s.io/devices": "0"}
    assert said(quota(hard=jobs))[0] == "ResourceQuota q: count/jobs.batch needs 1, 0 left of 0"
    assert said(quota(hard=jobs, scopes=["NotTerminating"])) == ("", False)


def high_quota(**hard: str) -> dict[str, Any]:
    named = quota("for-high", hard=hard, **term("PriorityClass", "In", "high"))
    return named | {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "for-high", "namespace": "team"}}


HIGH: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 100,
}


def placed(*objects: dict[str, Any], classes: Iterable[str | None] = ("high", "high", None)) -> list[str]:
    """What becomes of jobs of one GPU with these classes, in the order of their priority."""
    asked = [demand(**({"priorityClassName": each} if each else {})) for each in classes]
    jobs = [PendingJob(str(number), "", wish, namespace="team") for number, wish in enumerate(asked)]
    known = fleet(node("n", H100), *objects, catalog=ANY_IMAGES)
    return [summary.reason(each.decision).value for each in place_all(jobs, known, ANY_IMAGES)]


def test_a_quota_for_a_class_limits_the_jobs_of_that_class_alone() -> None:
    limit = high_quota(**{"requests.nvidia.com/gpu": "1"})
    assert placed(HIGH, limit) == ["Placed", "QuotaExceeded", "Placed"]


def test_the_cluster_s_default_class_counts_where_a_job_names_none() -> None:
    limit = high_quota(**{"requests.nvidia.com/gpu": "1"})
    assert placed(HIGH | {"globalDefault": True}, limit, classes=[None, None]) == ["Placed", "QuotaExceeded"]
    assert placed(HIGH, limit, classes=[None, None]) == ["Placed", "Placed"]


def test_a_scope_that_nobody_knows_is_a_warning_and_no_refusal() -> None:
    odd = quota(hard={"pods": "0"}, scopes=["Weather"]) | {"apiVersion": "v1", "kind": "ResourceQuota"}
    odd["metadata"] = {"name": "odd", "namespace": "team"}
    known = fleet(node("n", H100), odd, catalog=ANY_IMAGES)
    (found,) = place_all([PendingJob("u", "", demand(), namespace="team")], known, ANY_IMAGES)
    assert found.verdict is found.decision.verdict is Verdict.PLACED
    assert [
        warning.message for warning in found.decision.candidates[0].warnings if warning.reason is Reason.QUOTA_UNCHECKED
    ] == ["ResourceQuota odd has the scope Weather, of which nothing is known here: what it leaves is unchecked"]


@pytest.mark.parametrize(
    "raw", [{}, {"spec": []}, {"spec": {"hard": 7}}, {"metadata": None, "status": {"hard": {"widgets": {}}}}]
)
def test_a_malformed_quota_limits_nothing(raw: dict[str, Any]) -> None:
    assert shortages([read_quota(raw)], NEEDS) == ((), False)


def test_quotas_are_kept_by_namespace() -> None:
    found = quotas_of([("b", read_quota(quota(hard={"pods": "1"}))), ("a", read_quota(quota()))])
    assert list(found) == ["b"]


def test_claims_of_a_class_that_stands_for_a_resource_count_as_the_resource_too() -> None:
    device = {"name": "g0", "memory": "80Gi", "type": "gpu", "productName": "NVIDIA A100 80GB PCIe"}
    driver = "device.driver == 'gpu.nvidia.com'"
    other = {**device, "name": "m0", "type": "mig", "profile": "3g.40gb", "memory": "40192Mi"}
    for devices, key in (
        ((device,), "gpu.deviceclass.resource.k8s.io/devices"),
        ((device, other), "requests.nvidia.com/gpu"),
    ):
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
                 "spec": {"hard": {key: "1"}}, "status": {"hard": {key: "1"}, "used": {key: "1"}}}  # fmt: skip
        offered = (node("n", devices={}), resource_slice("n", "gpu.nvidia.com", *devices))
        offering = fleet(*offered, device_class("gpu", driver, "nvidia.com/gpu"), quota, catalog=ANY_IMAGES)
        found = decide(demand().but(namespace="default"), offering, ANY_IMAGES)
        said = [reason.message for candidate in found.candidates for reason in candidate.reasons]
        assert f"ResourceQuota q: {key} needs 1, 0 left of 1" in said, (key, said)


@pytest.mark.parametrize(
    ("asked", "hard", "shown"),
    [
        (64 * GI + 1, "64Gi", "64.01Gi, 64Gi left of 64Gi"),
        (GI + 4096, "1Gi", "1.01Gi, 1Gi left of 1Gi"),
        (512 * 2**20 + 1, "512Mi", "512.01Mi, 512Mi left of 512Mi"),
        (20 * 2**40 + 1, "20Ti", "20.01Ti, 20Ti left of 20Ti"),
    ],
)
def test_what_is_asked_is_never_shown_as_what_is_left(asked: int, hard: str, shown: str) -> None:
    needs = taken_by_pods((), 0, Resources(0, asked, 0, 1), 1)
    (finding,), never = shortages([read_quota(quota(hard={"requests.memory": hard}))], needs)
    assert never
    assert finding.message == f"ResourceQuota q: requests.memory needs {shown}"


@pytest.mark.parametrize(
    ("hard", "warned"),
    [
        ({"fast.storageclass.storage.k8s.io/requests.storage": "0"}, True),
        ({"fast.storageclass.storage.k8s.io/requests.storage": "11Gi"}, True),
        ({"fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1"}, True),
        ({"fast.storageclass.storage.k8s.io/requests.storage": "12Gi"}, False),
        ({"requests.storage": "12Gi"}, False),
    ],
)
def test_claims_that_name_no_class_may_be_of_the_default_one(hard: dict[str, str], warned: bool) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "6Gi"}}}
    volumes = [{"name": "s", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    of_team = {**quota(hard=hard), "apiVersion": "v1", "kind": "ResourceQuota"}
    of_team["metadata"] = {"name": "q", "namespace": "default"}
    here = fleet(node("a", H100), node("b", H100), of_team, catalog=ANY_IMAGES)
    asked = replace(demand(nodes=2, volumes=volumes), namespace="default")
    found = decide(asked, here, ANY_IMAGES)
    assert found.verdict is Verdict.PLACED
    warnings = [each for each in found.candidates[0].warnings if each.reason is Reason.QUOTA_UNCHECKED]
    assert bool(warnings) is warned
    if warned:
        (name,) = hard
        assert warnings[0].message == (
            f"ResourceQuota q: {name} would refuse the volume claims if fast is the default StorageClass; name the class in them"
        )


def storage_class(name: str, *, created: str = "", **annotations: str) -> dict[str, Any]:
    prefix = {"default": "storageclass.kubernetes.io", "beta": "storageclass.beta.kubernetes.io"}
    said = {f"{prefix[key]}/is-default-class": value for key, value in annotations.items()}
    metadata = {"name": name, "annotations": said, **({"creationTimestamp": created} if created else {})}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": "csi.example",
    }


def volume(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {}}


def bound(name: str, to: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    spec, status = {"volumeName": to, "accessModes": ["ReadWriteOnce"]}, {"phase": "Bound"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": status}


@pytest.mark.parametrize(("named", "there", "why"), [
    ({}, [storage_class("fast"), storage_class("slow")], "it names no StorageClass and none is the default"),
    ({"storageClassName": "nosuch"}, [storage_class("fast", default="true")], "StorageClass nosuch does not exist"),
    ({"storageClassName": "nosuch"}, [storage_class("fast"), volume("pv"), bound("c", "pv")],
     "StorageClass nosuch does not exist"),
    ({"storageClassName": "nosuch"}, [storage_class("fast"), volume("pv"), volume("free"), bound("c", "pv")], None),
    ({"storageClassName": "fast"}, [storage_class("fast")], None),
    ({}, [storage_class("fast", default="true")], None),
    ({"storageClassName": "nosuch"}, [], None),
])  # fmt: skip
def test_a_claim_that_gets_no_volume_is_told_before_its_pod_waits(
    named: dict[str, str], there: list[dict[str, Any]], why: str | None
) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "6Gi"}}, **named}
    volumes = [{"name": "s", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    queue = [PendingJob("0", "", demand(volumes=volumes), namespace="default")]
    (found,) = (
        placing.decision for placing in place_all(queue, fleet(node("a", H100), *there, catalog=ANY_IMAGES), ANY_IMAGES)
    )
    assert found.verdict is (Verdict.MISCONFIGURED if why else Verdict.PLACED)
    if why:
        assert [each.message for each in found.problems] == [
            f"volumes[0].ephemeral: {why}, so its claim gets no volume; name one that `kubectl get storageclass` lists"
        ]


@pytest.mark.parametrize(("named", "there", "verdict"), [
    ({}, [storage_class("fast", default="true")], Verdict.PLACED),
    ({}, [storage_class("fast")], Verdict.MISCONFIGURED),
    ({}, [], Verdict.MISCONFIGURED),
    # An empty name is the wish for no class.
    ({"storageClassName": ""}, [storage_class("fast", default="true")], Verdict.MISCONFIGURED),
])  # fmt: skip
def test_a_claim_without_a_class_gets_the_default_one(
    named: dict[str, str], there: list[dict[str, Any]], verdict: Verdict
) -> None:
    claim = {**bound("c", ""), "spec": {"accessModes": ["ReadWriteOnce"], **named}, "status": {"phase": "Pending"}}
    volumes = [{"name": "s", "persistentVolumeClaim": {"claimName": "c"}}]
    queue = [PendingJob("0", "", demand(volumes=volumes), namespace="default")]
    here = fleet(node("a", H100), claim, *there, catalog=ANY_IMAGES)
    (found,) = (placing.decision for placing in place_all(queue, here, ANY_IMAGES))
    assert found.verdict is verdict, summary.summary(found)


OLD, NEW = "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("classes", "counted"),
    [
        ([storage_class("fast", default="true")], True),
        ([storage_class("fast", beta="true"), storage_class("slow")], True),
        # Of several defaults the newest, then the first by name.
        (
            [storage_class("fast", default="true", created=NEW), storage_class("slow", default="true", created=OLD)],
            True,
        ),
        (
            [storage_class("fast", default="true", created=OLD), storage_class("slow", default="true", created=NEW)],
            False,
        ),
        ([storage_class("fast", default="true"), storage_class("slow", default="true")], True),
        ([storage_class("fast", default="true"), storage_class("archive", default="true")], False),
        ([storage_class("fast", default="false"), storage_class("slow", default="true")], False),
        # None is the default: such a claim has no class, and no quota of a class counts it; volumes that are there may be bound.
        ([storage_class("fast"), storage_class("slow"), volume("pv"), volume("pw")], False),
    ],
)
def test_a_claim_that_names_no_class_counts_in_the_quota_of_the_default_one(
    classes: list[dict[str, Any]], counted: bool
) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}}
    volumes = [{"name": "s", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    name = "fast.storageclass.storage.k8s.io/requests.storage"
    of_team = {**quota(hard={name: "30Gi"}), "apiVersion": "v1", "kind": "ResourceQuota"}
    of_team["metadata"] = {"name": "q", "namespace": "default"}
    here = fleet(node("a", H100), of_team, *classes, catalog=ANY_IMAGES)
    queue = [PendingJob(f"{number}", "", demand(volumes=volumes), namespace="default") for number in range(2)]
    first, second = (placing.decision for placing in place_all(queue, here, ANY_IMAGES))
    assert first.verdict is Verdict.PLACED
    assert Reason.QUOTA_UNCHECKED not in {each.reason for each in first.candidates[0].warnings}
    assert second.verdict is (Verdict.WAITING if counted else Verdict.PLACED)
    if counted:
        assert summary.summary(second).endswith(f"ResourceQuota q: {name} needs 20Gi, 10Gi left of 30Gi")
