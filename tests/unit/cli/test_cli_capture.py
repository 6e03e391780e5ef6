"""A capture holds what the planner reads and nothing else: it plans alike, and can be shown to strangers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import H100, Object, node, pod
from cli_room import CATALOG, MIXED, Command, manifest

from gpujob.cli.cluster_file.projection import made_claims
from gpujob.fleet.devices.group import TELLING
from gpujob.fleet.dra.resource_slices import EXTENDED_CLAIM, read_claim
from gpujob.fleet.kubernetes.parse import new_claims, read_pod
from gpujob.fleet.labels.cloud import ACCELERATOR_LABELS, FORMS, MACHINE_COUNTS
from gpujob.fleet.pools.autoscaling import NODE_POOL_LABELS
from gpujob.fleet.storage.volume_records import PersistentVolume, read_storage_class, read_volume, read_volume_claim
from gpujob.values.names import child_name

SECRET = "hunter2"


def raw_cluster() -> list[dict[str, Any]]:
    """The mixed cluster as an API server sends it, with much that the planner does not need."""
    objects = list(yaml.safe_load_all(MIXED.read_text()))
    noise = {"managedFields": [{"manager": SECRET}], "annotations": {"team.example/contact": SECRET}, "uid": SECRET}
    for item in objects:
        kept = item["metadata"].get("annotations", {})
        item["metadata"] |= noise | {"annotations": {**noise["annotations"], **kept}}
        item["metadata"].setdefault("labels", {})["team.example/owner"] = SECRET
        if item["kind"] == "Node":
            item["metadata"]["labels"]["team.example/reserved"] = "yes"
            item["metadata"]["labels"]["team.example/rack"] = "r1"
            item["status"] |= {
                "addresses": [{"address": SECRET}],
                "nodeInfo": {
                    "machineID": SECRET,
                    "kubeletVersion": "v1.37.1",
                    "containerRuntimeVersion": "cri-o://1.30.1",
                },
                "images": [SECRET],
                "runtimeHandlers": [{"name": "nvidia", "features": {SECRET: True}}, {"name": ""}],
            }
            item.setdefault("spec", {})["podCIDR"] = SECRET
            if "providerID" in item["spec"]:
                item["spec"]["providerID"] += f"/subscriptions/{SECRET}"
        if item["kind"] == "Pod":
            item["spec"] |= {"serviceAccountName": SECRET, "volumes": [{"name": SECRET}]}
            for container in item["spec"]["containers"]:
                container |= {"image": SECRET, "args": [SECRET], "env": [{"name": "TOKEN", "value": SECRET}]}
    done = {"namespace": "x", "name": SECRET}
    objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": done, "spec": {"nodeName": "h100-0"},
                    "status": {"phase": "Succeeded"}})  # fmt: skip
    objects.append({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"x": SECRET}})
    objects.append(
        {
            "apiVersion": "gpujob.dev/v1alpha1",
            "kind": "GPUPool",
            "metadata": {"name": "reserved", "creationTimestamp": "2026-01-01T00:00:00Z", **noise},
            "spec": {
                "nodeSelector": {
                    "matchLabels": {"team.example/reserved": "yes"},
                    "matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-L4"]}],
                },
                "env": [{"name": "NCCL_KEY", "value": SECRET}],
                "price": {"perGPUHour": "0.10"},
            },
        }
    )
    zone = [{"matchExpressions": [{"key": "team.example/rack", "operator": "Exists"}]}]
    objects.append(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv", **noise},
            "spec": {
                "nodeAffinity": {"required": {"nodeSelectorTerms": zone}},
                "csi": {"volumeHandle": SECRET, "driver": "d"},
                "claimRef": {"name": SECRET},
            },
        }
    )
    objects.append(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default", **noise},
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "pv", "storageClassName": SECRET},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
        }
    )
    objects.append(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": "fast",
                **noise,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true", "note": SECRET},
            },
            "parameters": {"pool": SECRET},
        }
    )
    objects.append(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "ends", **noise},
            "status": {"phase": "Terminating"},
        }
    )
    objects.append(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high", **noise},
            "value": 7,
            "description": SECRET,
        }
    )
    return objects


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "raw.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": raw_cluster()}))
    return path


@pytest.mark.parametrize("suffix", ["yaml", "json"])
@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"gpusPerNode": 8},
        {"nodes": 2, "gpusPerNode": 8},
        {"gpuMemory": "500G"},
        {"requires": ["BF16"]},
        {"priorityClassName": "high", "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        {"priorityClassName": "hihg"},
        {"code": {"image": {"reference": "team.example/code:1"}}},
    ],
)
def test_a_capture_plans_as_the_cluster_does(
    gpujob: Command, raw: Path, tmp_path: Path, spec: dict[str, Any], suffix: str
) -> None:
    captured = tmp_path / f"captured.{suffix}"
    assert gpujob("capture", "--cluster", raw, "-o", captured).code == 0
    before, after = (
        gpujob("plan", "-f", "-", "--cluster", file, "--catalog", CATALOG, "-o", "json", stdin=manifest(**spec))
        for file in (raw, captured)
    )
    assert (before.code, before.out) == (after.code, after.out)
    assert "reserved" in after.out
    assert "ZoneConflict" not in after.out
    before, after = (gpujob("pools", "--cluster", file, "-o", "json") for file in (raw, captured))
    assert before.out == after.out


def test_a_capture_holds_no_secrets(gpujob: Command, raw: Path) -> None:
    answer = gpujob("capture", "--cluster", raw)
    assert answer.code == 0
    assert SECRET not in answer.out
    assert "NCCL_KEY" in answer.out  # The name of a variable is kept, its value is not.


def test_capturing_a_capture_changes_nothing(gpujob: Command) -> None:
    assert gpujob("capture", "--cluster", MIXED).out == MIXED.read_text()


def test_a_file_is_written_and_counted(gpujob: Command, tmp_path: Path) -> None:
    answer = gpujob("capture", "--cluster", MIXED, "-o", tmp_path / "c.yaml")
    assert (answer.out, answer.err.split(": ")[1][:17]) == ("", "9 nodes, 14 pods ")
    assert "; it has names of namespaces, nodes, pools, jobs, pods, claims and volumes" in answer.err


def test_without_nodes_there_is_nothing_to_capture(gpujob: Command, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"kind": "List", "apiVersion": "v1", "items": []}')
    answer = gpujob("capture", "--cluster", path)
    assert answer.code == 2
    assert answer.err == (
        "error: there is no node and no GPUPool with spec.provision to capture; use an account that may list nodes and pods\n"
    )


def growing(**provision: Any) -> Object:
    given = {
        "maxNodes": 2,
        "gpusPerNode": 8,
        "cpu": "96",
        "memory": "1000Gi",
        "driverVersion": "580.95.05",
        **provision,
    }
    return {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUPool",
        "metadata": {"name": "burst", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "nodeSelector": {"matchLabels": {"pool": "burst"}},
            "accelerator": "H100-SXM",
            "price": {"perGPUHour": "2"},
            "provision": given,
        },
    }


def replay(gpujob: Command, tmp_path: Path, objects: list[Object], *jobs: str) -> tuple[str, str, list[Object]]:
    """The plan of jobs in a cluster, in its capture, and what the capture of the capture holds."""
    first, second, wanted = (tmp_path / name for name in ("first.json", "second.yaml", "jobs.yaml"))
    first.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    wanted.write_text("".join(jobs))
    assert gpujob("capture", "--cluster", first, "-o", second).code == 0
    again = gpujob("capture", "--cluster", second).out
    kept = [each for one in yaml.safe_load_all(second.read_text()) for each in one.get("items", [one])]
    assert [each for one in yaml.safe_load_all(again) for each in one.get("items", [one])] == kept
    plans = [gpujob("plan", "-f", wanted, "--cluster", path, "--catalog", CATALOG).out for path in (first, second)]
    return plans[0], plans[1], kept


@pytest.mark.parametrize(
    "provision",
    [{}, {"maxNodes": 1}, {"gpusPerNode": 4}, {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}],
)
def test_pools_of_nodes_that_are_not_there_yet_are_captured(
    gpujob: Command, tmp_path: Path, provision: dict[str, Any]
) -> None:
    wanted = [manifest("a", gpusPerNode=4), manifest("b", nodes=2, gpusPerNode=8)]
    before, after, _ = replay(gpujob, tmp_path, [growing(**provision)], *wanted)
    assert after == before
    assert "Placed  a: burst is the only pool with room" in before


def begun(name: str, state: str, attempt: int = 1, recorded: bool = True, suspend: bool = False) -> list[Object]:
    """A GPUJob that has 4 of the GPUs of node n, and the Job that the operator made for it, whose pods are not there yet."""
    uid, child = f"uid-of-{name}", child_name(name, f"uid-of-{name}", attempt)
    pins = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    ]}}}  # fmt: skip
    main = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "4"}, "requests": {"nvidia.com/gpu": "4"}}}
    job = {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUJob",
        "metadata": {"name": name, "namespace": "default", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"gpusPerNode": 4, "command": ["x"], **({"suspend": True} if suspend else {})},
        "status": {
            "state": state, "placement": {"nodes": 1, "gpusPerNode": 4, "nodeNames": ["n"], "image": SECRET},
            **({"attempt": attempt, "jobName": child, "jobUID": f"uid-of-{child}"} if recorded else {}),
        },
    }  # fmt: skip
    made = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": child, "namespace": "default", "uid": f"uid-of-{child}",
            "labels": {"gpujob.dev/job-uid": uid, "gpujob.dev/attempt": str(attempt)},
            "ownerReferences": [{"kind": "GPUJob", "apiVersion": "gpujob.dev/v1alpha1", "controller": True, "uid": uid}],
        },
        "spec": {"completions": 1, "suspend": suspend, "template": {"spec": {"affinity": pins, "containers": [main]}}},
    }  # fmt: skip
    return [job, made]


@pytest.mark.parametrize(
    "objects",
    [
        begun("first", "Placed"),
        begun("first", "Placed", attempt=3),
        begun("first", "Starting", attempt=2),
        begun("first", "Placed", recorded=False),
        begun("first", "Suspended", suspend=True),
        begun("first", "Restarting", attempt=2),
        # Another GPUJob that holds nothing on this node: its uid in the capture excludes no other child.
        [*begun("first", "Suspended", suspend=True), *begun("gone", "Running")[:1]],
        [*begun("first", "Restarting", attempt=4), *begun("gone", "Placed")[:1]],
    ],
)
def test_what_a_job_without_pods_holds_is_promised_once_in_a_replay(
    gpujob: Command, tmp_path: Path, objects: list[Object]
) -> None:
    wanted = [manifest("whole", gpusPerNode=8), manifest("half", gpusPerNode=4)]
    before, after, kept = replay(gpujob, tmp_path, [node("n", H100, price="2"), *objects], *wanted)
    assert after == before
    assert "Waiting  whole:" in before
    assert "Placed  half:" in before
    assert SECRET not in json.dumps(kept)


def test_the_handlers_of_nodes_are_kept_by_name(gpujob: Command, raw: Path) -> None:
    answer = gpujob("capture", "--cluster", raw)
    nodes = [
        each for each in yaml.safe_load_all(answer.out) for each in each.get("items", [each]) if each["kind"] == "Node"
    ]
    told = {json.dumps(node["status"]["runtimeHandlers"]) for node in nodes}
    assert told == {'[{"name": ""}, {"name": "nvidia"}]'}


def captured(gpujob: Command, tmp_path: Path, *objects: Object) -> list[Object]:
    path = tmp_path / "some.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n", H100), *objects]}))
    answer = gpujob("capture", "--cluster", path)
    assert answer.code == 0, answer.err
    return [each for one in yaml.safe_load_all(answer.out) for each in one.get("items", [one])]


def test_every_label_that_tells_of_devices_prices_and_node_pools_is_captured(gpujob: Command, tmp_path: Path) -> None:
    keys = {key for key in TELLING if not key.endswith(("/", ".", "-"))} | {key for key, _ in NODE_POOL_LABELS}
    keys |= {*ACCELERATOR_LABELS, *MACHINE_COUNTS, *(key for form in FORMS for key in (*form.names, form.maker) if key)}
    other = node("other", labels=dict.fromkeys(keys, "x") | {"team.example/owner": SECRET})
    (found,) = (each for each in captured(gpujob, tmp_path, other) if each["metadata"]["name"] == "other")
    assert keys - found["metadata"]["labels"].keys() == set()
    assert "team.example/owner" not in found["metadata"]["labels"]


def test_that_cards_are_split_is_captured_without_their_ids(gpujob: Command, tmp_path: Path) -> None:
    other = node("other", H100, devices={"nvidia.com/gpu": "16"})
    other["metadata"]["annotations"] = {"4pd.io/node-nvidia-register": json.dumps([{"id": SECRET, "count": 2}] * 8)}
    objects = captured(gpujob, tmp_path, other)
    (found,) = (each for each in objects if each["metadata"]["name"] == "other")
    assert found["metadata"]["annotations"] == {"hami.io/node-nvidia-register": '[{"count":2}]'}


def test_of_a_waiting_job_its_shapes_are_captured_without_what_they_run(gpujob: Command, tmp_path: Path) -> None:
    shape = {"accelerator": "H100-SXM", "gpusPerNode": 4, "args": [SECRET], "env": [{"name": "T", "value": SECRET}]}
    waiting = {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUJob",
        "metadata": {"name": "w", "namespace": "x", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"command": [SECRET], "args": [SECRET], "env": [{"name": "T", "value": SECRET}], "shapes": [shape]},
        "status": {"state": "Queued"},
    }
    objects = captured(gpujob, tmp_path, waiting)
    assert SECRET not in json.dumps(objects)
    (job,) = (each for each in objects if each["kind"] == "GPUJob")
    assert job["spec"]["shapes"] == [{"accelerator": "H100-SXM", "gpusPerNode": 4}]


@pytest.mark.parametrize("of_class", ["fast", None])
def test_a_claim_that_waits_for_its_first_pod_still_does(gpujob: Command, tmp_path: Path, of_class: str | None) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of_class,
            "resources": {"requests": {"storage": "1Gi"}},
            "selector": {"matchLabels": {"team": SECRET}},
        },
        "status": {"phase": "Pending"},
    }
    objects = captured(gpujob, tmp_path, claim)
    assert SECRET not in json.dumps(objects)
    (kept,) = (each for each in objects if each["kind"] == "PersistentVolumeClaim")
    assert replace(read_volume_claim(kept), selector=()) == replace(read_volume_claim(claim), selector=())


def test_a_claim_of_a_resource_s_name_still_tells_its_pod_and_not_its_settings(gpujob: Command, tmp_path: Path) -> None:
    held = {"request": "r", "driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-0"}
    settings = [{"source": "FromClaim", "opaque": {"driver": "gpu.nvidia.com", "parameters": {"key": SECRET}}}]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "c",
            "namespace": "x",
            "annotations": {EXTENDED_CLAIM: "true"},
            "ownerReferences": [{"kind": "Pod", "name": SECRET, "uid": "u"}],
        },
        "status": {"allocation": {"devices": {"results": [held], "config": settings}}},
    }
    objects = captured(gpujob, tmp_path, claim)
    assert SECRET not in json.dumps(objects)
    (kept,) = (each for each in objects if each["kind"] == "ResourceClaim")
    assert read_claim(kept) == read_claim(claim)


def test_a_capture_keeps_the_default_class_and_the_end_of_a_namespace(
    gpujob: Command, raw: Path, tmp_path: Path
) -> None:
    captured = tmp_path / "captured.json"
    assert gpujob("capture", "--cluster", raw, "-o", captured).code == 0
    items = {(each["kind"], each["metadata"]["name"]): each for each in json.loads(captured.read_text())["items"]}
    kept = items["StorageClass", "fast"]["metadata"]["annotations"]
    assert kept == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert items["Namespace", "ends"]["status"] == {"phase": "Terminating"}


def test_a_capture_keeps_the_labels_that_a_namespace_selects_nodes_by(gpujob: Command, tmp_path: Path) -> None:
    labels = {"team.example/rack": "r1", "team.example/secret": SECRET}
    selector = {"openshift.io/node-selector": "team.example/rack=r1", "note": SECRET}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "annotations": selector}}
    objects = captured(gpujob, tmp_path, space, node("a", H100, labels=labels))
    assert SECRET not in json.dumps(objects)
    kept = {each["metadata"]["name"]: each["metadata"] for each in objects}
    assert kept["ns"]["annotations"] == {"openshift.io/node-selector": "team.example/rack=r1"}
    assert kept["a"]["labels"]["team.example/rack"] == "r1"


@pytest.mark.parametrize("infeasible", [False, True])
def test_a_capture_keeps_a_resize_that_is_not_done(gpujob: Command, tmp_path: Path, infeasible: bool) -> None:
    one = pod("p", "n", cpu="10", memory="1Gi")
    held = {"requests": {"cpu": "50", "memory": "1Gi", "note": SECRET}}
    one["status"]["containerStatuses"] = [{"name": "main", "resources": held, "image": SECRET}]
    if infeasible:
        one["status"]["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible", "message": SECRET}]
    objects = captured(gpujob, tmp_path, one)
    assert SECRET not in json.dumps(objects)
    (kept,) = (each for each in objects if each["kind"] == "Pod")
    assert read_pod(kept).needs == read_pod(one).needs
    assert read_pod(kept).needs.millicores == 50_000


@pytest.mark.parametrize("nominated", ["n", ""])
def test_a_capture_keeps_the_node_that_a_pod_is_nominated_for(gpujob: Command, tmp_path: Path, nominated: str) -> None:
    one = pod("p", "", {"nvidia.com/gpu": 2}, "Pending", cpu="10")
    one["status"] |= {"nominatedNodeName": nominated, "message": SECRET}
    kept = [each for each in captured(gpujob, tmp_path, one) if each["kind"] == "Pod"]
    assert SECRET not in json.dumps(kept)
    assert [(read_pod(each).node, read_pod(each).needs) for each in kept] == (
        [("n", read_pod(one).needs)] if nominated else []
    )


def test_a_capture_keeps_what_claims_to_come_are_bound_to(gpujob: Command, tmp_path: Path) -> None:
    rule = {"key": "team.example/rack", "values": ["r1"]}
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [rule]}],
        "parameters": {"key": SECRET},
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {
            "storageClassName": "fast",
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block",
            "claimRef": {"namespace": "default", "name": "data", "uid": SECRET},
            "csi": {"volumeHandle": SECRET},
        },
        "status": {"phase": "Available", "message": SECRET},
    }
    machine = node("a", H100, labels={"team.example/rack": "r1"})
    objects = captured(gpujob, tmp_path, machine, storage_class, volume)
    assert SECRET not in json.dumps(objects)
    kept = {each["kind"]: each for each in objects if each["metadata"]["name"] != "n"}
    assert read_storage_class(kept["StorageClass"]) == read_storage_class(storage_class)
    assert read_volume(kept["PersistentVolume"]) == read_volume(volume)
    assert kept["Node"]["metadata"]["labels"]["team.example/rack"] == "r1"


def test_a_capture_keeps_the_labels_that_a_claim_selects_its_volume_by(gpujob: Command, tmp_path: Path) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"storageClassName": "local", "selector": {"matchLabels": {"tier": "fast"}}},
        "status": {"phase": "Pending"},
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv", "labels": {"tier": "fast", "owner": SECRET}},
        "spec": {"storageClassName": "local", "capacity": {"storage": "1Gi"}},
        "status": {"phase": "Available"},
    }
    objects = captured(gpujob, tmp_path, node("a", H100), claim, volume)
    assert SECRET not in json.dumps(objects)
    kept = {each["kind"]: each for each in objects}
    assert "fast" not in json.dumps(objects)
    wants = read_volume_claim(kept["PersistentVolumeClaim"])
    assert wants.takes(read_volume(kept["PersistentVolume"]))
    assert not wants.takes(PersistentVolume(labels=(("tier", "slow"),)))


def test_a_capture_keeps_the_claims_that_pods_will_make(gpujob: Command, tmp_path: Path) -> None:
    claim = {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
    }
    template = {"metadata": {"annotations": {"a": SECRET}}, "spec": claim}
    volume = {"name": "e", "ephemeral": {"volumeClaimTemplate": template}}
    waits: Object = {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUJob",
        "metadata": {"name": "waits", "namespace": "default"},
    }
    waits |= {"spec": {"command": ["t"], "volumes": [volume]}, "status": {"state": "Queued"}}
    objects = captured(gpujob, tmp_path, waits)
    assert SECRET not in json.dumps(objects)
    (kept,) = (each for each in objects if each["kind"] == "GPUJob")
    assert kept["spec"]["volumes"] == [{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
    assert new_claims({"volumes": made_claims({"volumes": [volume]})}) == (("fast", 5 * 2**30),)
