"""Single decisions of rendering, one narrative each; whole children are in test_golden_children.py."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from samples import H100, MI300X, UID, choice_of, job_of

from gpujob.api.kinds.gpujob import GPUJob
from gpujob.api.kinds.gpujob_status import PlacementStatus
from gpujob.fleet.kubernetes.objects import Resources
from gpujob.fleet.kubernetes.parse import read_pod
from gpujob.placement.scoring.candidate import Choice
from gpujob.render.children import render
from gpujob.values.quantity import GI, MI
from gpujob.values.vocabulary import Annotation, CapacityType


def pod_of(job: GPUJob, choice: Choice, *classes: str) -> dict[str, Any]:
    spec: dict[str, Any] = render(job, choice, 1, frozenset(classes)).job["spec"]["template"]["spec"]
    return spec


def pod_metadata(job: GPUJob, choice: Choice) -> dict[str, Any]:
    metadata: dict[str, Any] = render(job, choice, 1).job["spec"]["template"]["metadata"]
    return metadata


# --- RuntimeClass


def test_the_runtime_class_nvidia_is_named_where_it_exists() -> None:
    assert pod_of(job_of(), choice_of(H100, "n"), "nvidia")["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in pod_of(job_of(), choice_of(H100, "n"))


def test_the_pools_own_runtime_class_comes_first() -> None:
    pool = replace(H100, runtime_class="nvidia-cdi")
    assert pod_of(job_of(), choice_of(pool, "n"), "nvidia", "nvidia-cdi")["runtimeClassName"] == "nvidia-cdi"


def test_amd_pods_never_name_a_runtime_class() -> None:
    pool = replace(MI300X, runtime_class="nvidia")
    assert "runtimeClassName" not in pod_of(job_of(), choice_of(pool, "n"), "nvidia")


# --- ServiceAccount


@pytest.mark.parametrize("pool", [H100, MI300X])
def test_a_named_service_account_is_the_pods_and_its_token_is_not(pool: Any) -> None:
    pod = pod_of(job_of(serviceAccountName="reader"), choice_of(pool, "n"))
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("reader", False)
    assert "serviceAccountName" not in pod_of(job_of(), choice_of(pool, "n"))


# --- Groups, users


def test_device_groups_follow_the_users_own_groups_on_amd_only() -> None:
    job = job_of(securityContext={"supplementalGroups": [2000]})
    pool = {"supplemental_groups": (106, 44)}
    assert pod_of(job, choice_of(replace(MI300X, **pool), "n"))["securityContext"]["supplementalGroups"] == [
        2000,
        106,
        44,
    ]
    assert pod_of(job, choice_of(replace(H100, **pool), "n"))["securityContext"]["supplementalGroups"] == [2000]
    assert "supplementalGroups" not in pod_of(job_of(), choice_of(H100, "n"))["securityContext"]


def test_root_is_the_users_choice_and_keeps_every_other_restriction() -> None:
    pod = pod_of(job_of(securityContext={"runAsUser": 0}), choice_of(H100, "n"))
    assert pod["securityContext"]["runAsUser"] == 0
    assert pod["securityContext"]["runAsNonRoot"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    asked = pod_of(job_of(securityContext={"runAsUser": 0, "runAsNonRoot": True}), choice_of(H100, "n"))
    assert asked["securityContext"]["runAsNonRoot"] is True, "the kubelet refuses such a pod"


def test_a_uid_that_is_not_root_says_so_even_where_the_user_does_not_ask() -> None:
    pod = pod_of(job_of(securityContext={"runAsNonRoot": False}), choice_of(H100, "n"))
    assert pod["securityContext"]["runAsNonRoot"] is True


# --- Volumes


def test_the_users_own_shared_memory_replaces_ours() -> None:
    job = job_of(
        volumes=[{"name": "big", "emptyDir": {"medium": "Memory"}}],
        volumeMounts=[{"name": "big", "mountPath": "/dev/shm"}],
    )
    mounts = pod_of(job, choice_of(H100, "n"))["containers"][0]["volumeMounts"]
    assert [mount["name"] for mount in mounts if mount["mountPath"] == "/dev/shm"] == ["big"]


def test_the_users_own_home_replaces_ours() -> None:
    job = job_of(
        volumes=[{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}],
        volumeMounts=[{"name": "cache", "mountPath": "/gpujob/home"}],
    )
    assert [v["name"] for v in pod_of(job, choice_of(H100, "n"))["volumes"]] == ["gpujob-shm", "cache"]


def test_our_volumes_make_way_for_a_volume_of_the_same_name() -> None:
    job = job_of(
        volumes=[{"name": "gpujob-shm", "emptyDir": {}}], volumeMounts=[{"name": "gpujob-shm", "mountPath": "/x"}]
    )
    pod = pod_of(job, choice_of(H100, "n"))
    mounted = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert (mounted["/dev/shm"], mounted["/x"]) == ("gpujob-shm-x", "gpujob-shm")


def test_core_shapes_arrive_as_they_were_written() -> None:
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Ti"}},
    }
    volumes = [
        {"name": "empty", "emptyDir": {}},
        {"name": "config", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}], "defaultMode": 256}},
        {"name": "secret", "secret": {"secretName": "s", "optional": False}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
        {"name": "csi", "csi": {"driver": "d", "volumeAttributes": {"a": "b"}, "nodePublishSecretRef": {"name": "s"}}},
        {"name": "both", "projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]}},
        {"name": "image", "image": {"reference": "r", "pullPolicy": "Always"}},
    ]  # fmt: skip
    mounts = [{"name": v["name"], "mountPath": f"/{v['name']}", "subPath": "x", "readOnly": False} for v in volumes]
    pod = pod_of(job_of(volumes=volumes, volumeMounts=mounts), choice_of(H100, "n"))
    assert pod["volumes"][-len(volumes) :] == volumes
    assert pod["containers"][0]["volumeMounts"][-len(mounts) :] == mounts


# --- What the pod takes


def test_copying_code_does_not_raise_what_the_pod_takes() -> None:
    code = {"configMap": {"name": "c"}}
    for needs in (Resources(12_000, 230 * GI, 20 * GI, 1), Resources(500, 256 * MI, None, 1)):
        with_code = read_pod({"spec": pod_of(job_of(code=code), choice_of(H100, "n", needs=needs))})
        without = read_pod({"spec": pod_of(job_of(), choice_of(H100, "n", needs=needs))})
        assert (with_code.needs, with_code.devices) == (without.needs, without.devices)
        assert with_code.needs == needs._replace(storage=needs.storage or 0)


def test_the_pools_real_resource_name_is_asked() -> None:
    pool = replace(MI300X, resource="amd.com/spx_nps1")
    resources = pod_of(job_of(gpusPerNode=4), choice_of(pool, "n", gpus=4))["containers"][0]["resources"]
    assert resources["limits"]["amd.com/spx_nps1"] == resources["requests"]["amd.com/spx_nps1"] == "4"


# --- Where it runs


def test_every_chosen_node_is_a_term_of_its_own() -> None:
    affinity = pod_of(job_of(nodes=2), choice_of(H100, "n", "m"))["affinity"]
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["n"], ["m"]]
    assert all(term["matchExpressions"][0]["values"] == ["amd64"] for term in terms)


def test_only_a_gang_keeps_its_pods_apart_and_has_a_service() -> None:
    single, gang = render(job_of(), choice_of(H100, "n"), 1), render(job_of(nodes=2), choice_of(H100, "n", "m"), 1)
    assert single.service is None
    assert "podAntiAffinity" not in single.job["spec"]["template"]["spec"]["affinity"]
    assert gang.service is not None
    template = gang.job["spec"]["template"]
    apart = template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    selectors = (apart[0]["labelSelector"]["matchLabels"], gang.service["spec"]["selector"])
    assert all(selector.items() <= template["metadata"]["labels"].items() for selector in selectors)
    assert template["spec"]["subdomain"] == gang.service["metadata"]["name"] == gang.job["metadata"]["name"]


def test_only_the_choices_taints_are_tolerated() -> None:
    choice = choice_of(H100, "n", tolerations=(("nvidia.com/gpu", "NoSchedule"), ("team", "NoExecute")))
    assert pod_of(job_of(), choice)["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Exists", "effect": "NoExecute"},
    ]
    assert "tolerations" not in pod_of(job_of(), choice_of(H100, "n"))


def of_new_nodes(pool: Any = H100, **more: Any) -> Choice:
    """The choice of a node that an autoscaler has to add."""
    choice = choice_of(pool, "", **more)
    return replace(choice, candidate=choice.candidate._replace(provision=True))


def test_of_new_nodes_the_possible_taints_are_tolerated_once() -> None:
    pool = replace(H100, tolerated=(("team", "ml", "NoSchedule"), ("any", None, "NoExecute")))
    known = (("nvidia.com/gpu", "NoSchedule"),)
    assert pod_of(job_of(), of_new_nodes(pool, tolerations=known))["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
        {"key": "any", "operator": "Exists", "effect": "NoExecute"},
    ]


def test_of_new_nodes_those_are_excluded_that_the_job_leaves_out() -> None:
    def fields(choice: Choice) -> Any:
        rules = pod_of(job_of(), choice)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        return [term.get("matchFields") for term in rules["nodeSelectorTerms"]]

    assert fields(of_new_nodes()) == [None]
    assert fields(replace(of_new_nodes(), not_on=("a", "b"))) == [
        [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in ("a", "b")]
    ]


# --- Labels, annotations, owner


@pytest.mark.parametrize(
    ("capacity", "asks"), [(CapacityType.SPOT, False), (CapacityType.ON_DEMAND, True), (CapacityType.RESERVED, True)]
)
def test_nodes_are_asked_to_stay_unless_they_are_spot(capacity: CapacityType, asks: bool) -> None:
    annotations = pod_metadata(job_of(), choice_of(replace(H100, capacity_type=capacity), "n"))["annotations"]
    assert ("karpenter.sh/do-not-disrupt" in annotations) is asks
    assert ("cluster-autoscaler.kubernetes.io/safe-to-evict" in annotations) is asks


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_meshes_stay_out_unless_the_user_wants_them(where: str) -> None:
    choice = choice_of(H100, "n")
    plain = pod_metadata(job_of(), choice)
    assert plain["labels"]["sidecar.istio.io/inject"] == plain["annotations"]["sidecar.istio.io/inject"] == "false"
    assert plain["annotations"]["linkerd.io/inject"] == "disabled"
    wanted = pod_metadata(job_of(podMetadata={where: {"sidecar.istio.io/inject": "true"}}), choice)
    assert {part.get("sidecar.istio.io/inject") for part in wanted.values()} == {"true", None}


def test_children_belong_to_the_job_in_its_own_namespace() -> None:
    name = "x" * 100 + ".y"
    children = render(job_of(name=name, nodes=2), choice_of(H100, "n", "m"), 1)
    assert children.service is not None
    for child in (children.job, children.service):
        metadata = child["metadata"]
        assert metadata["namespace"] == "research"
        assert metadata["annotations"][Annotation.JOB_NAME] == name
        assert [tuple(owner.values()) for owner in metadata["ownerReferences"]] == [
            ("gpujob.dev/v1alpha1", "GPUJob", name, UID, True, False)
        ]


def test_the_hint_is_a_placement_status() -> None:
    choice = choice_of(MI300X, "n", "m", price_per_hour=33_600_000, gpus=8)
    annotations = render(job_of(nodes=2, gpusPerNode=8), choice, 1, digest="abc").job["metadata"]["annotations"]
    assert annotations[Annotation.DIGEST] == "abc"
    assert PlacementStatus.model_validate_json(annotations[Annotation.PLACEMENT]) == PlacementStatus(
        pool=MI300X.name,
        vendor="AMD",
        accelerator="MI300X",
        nodes=2,
        gpus_per_node=8,
        node_names=("n", "m"),
        image="registry.example/pytorch-rocm:2.10",
        runtime="pytorch-rocm",
        price_per_hour="33.60",
        price_source="GPUPool mi300x",
        digest="abc",
    )


def test_the_callers_hint_is_taken_as_it_is() -> None:
    hint = {"pool": "p", "message": "the only one"}
    annotations = render(job_of(), choice_of(H100, "n"), 1, hint=hint).job["metadata"]["annotations"]
    assert json.loads(annotations[Annotation.PLACEMENT]) == hint


def test_the_hint_of_a_very_large_gang_leaves_the_nodes_to_the_affinity() -> None:
    nodes = [f"{'node' * 20}-{number}" for number in range(1024)]
    job = render(job_of(nodes=1024), choice_of(H100, *nodes), 1).job
    hint = json.loads(job["metadata"]["annotations"][Annotation.PLACEMENT])
    assert (hint["nodes"], hint["nodeNames"]) == (1024, [])


@pytest.mark.parametrize(("more", "kept"), [(0, True), (1, False)])
def test_a_hint_has_at_most_60000_characters(more: int, kept: bool) -> None:
    name = "n" * (60_000 - len('{"nodeNames":[""]}') + more)
    annotations = render(job_of(), choice_of(H100, "n"), 1, hint={"nodeNames": [name]}).job["metadata"]["annotations"]
    assert json.loads(annotations[Annotation.PLACEMENT]) == {"nodeNames": [name] if kept else []}


# --- The program


def test_command_and_arguments_are_untouched_and_the_code_folder_is_where_it_starts() -> None:
    choice = choice_of(H100, "n")
    job = job_of(command=["sh", "-c", "echo $HOME"], args=["", "--a b"], code={"configMap": {"name": "c"}})
    train = pod_of(job, choice)["containers"][0]
    assert (train["command"], train["args"], train["workingDir"]) == (
        ["sh", "-c", "echo $HOME"],
        ["", "--a b"],
        "/gpujob/code",
    )
    bare = pod_of(job_of(), choice)["containers"][0]
    assert not {"command", "args", "workingDir"} & set(bare)
    own = job_of(workingDir="/gpujob/code/src", code={"configMap": {"name": "c"}})
    assert pod_of(own, choice)["containers"][0]["workingDir"] == "/gpujob/code/src"


@pytest.mark.parametrize("pool", [MI300X, H100])
def test_copying_code_asks_for_no_gpu_and_sees_none(pool: Any) -> None:
    copying = pod_of(job_of(code={"configMap": {"name": "c"}}), choice_of(pool, "n"))["initContainers"][0]
    assert copying["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert not [key for key in copying["resources"]["limits"] if "/" in key]
    assert copying["image"] == pod_of(job_of(), choice_of(pool, "n"))["containers"][0]["image"]
