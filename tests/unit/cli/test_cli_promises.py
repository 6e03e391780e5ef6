"""Pods of GPUJobs that have no node yet hold their devices: plan, pools, explain and capture say what the operator says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_room import CATALOG, MIXED, Command, manifest

from gpujob.values.names import child_name

UID = "7d9f2c1e-0000-4000-8000-000000000001"
H100 = "h100-sxm-p5-48xlarge-ondemand"
TWO_NODES = {"nodes": 1, "gpusPerNode": 8, "placement": {"accelerators": {"allow": ["H100-SXM"]}}}


def child(attempt: int = 1, **changes: Any) -> dict[str, Any]:
    """The child Job of a gang of 1x8 on the H100 node that is free; none of its pods is there yet."""
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["h100-0"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pin]}}
    labels = {"gpujob.dev/job-uid": UID, "gpujob.dev/attempt": str(attempt)}
    pod = {
        "affinity": {"nodeAffinity": required},
        "containers": [
            {
                "name": "train",
                "image": "hunter2",
                "args": ["hunter2"],
                "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "8", "memory": "64Gi"}},
            }
        ],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": child_name("big", UID, attempt),
            "namespace": "team",
            "uid": "hunter2",
            "labels": labels,
            "annotations": {"team.example/token": "hunter2"},
            "ownerReferences": [{"kind": "GPUJob", "name": "big", "uid": UID, "controller": True}],
        },
        "spec": {"completions": 1, "template": {"spec": pod}},
        **changes,
    }


def gpujob_itself() -> dict[str, Any]:
    metadata = {"name": "big", "namespace": "team", "uid": UID}
    spec = TWO_NODES | {"command": ["hunter2"], "env": [{"name": "T", "value": "hunter2"}]}
    status = {"state": "Placed", "jobName": child_name("big", UID, 1), "attempt": 1}
    return {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": metadata, "spec": spec, "status": status}


def queued() -> dict[str, Any]:
    status = {"state": "Queued", "conditions": [{"type": "Placed", "status": "False", "message": "hunter2"}]}
    metadata = {"name": "next", "namespace": "team", "creationTimestamp": "2026-11-28T00:00:00Z", "uid": "hunter2"}
    spec = TWO_NODES | {
        "command": ["hunter2"],
        "env": [{"name": "T", "value": "hunter2"}],
        "images": {"cuda": {"image": "hunter2/x:1"}},
        "code": {"image": {"reference": "hunter2/code:1"}},
    }
    return {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": metadata, "spec": spec, "status": status}


def cluster(path: Path, *objects: dict[str, Any]) -> Path:
    path.write_text(MIXED.read_text() + "\n---\n" + yaml.safe_dump_all(objects))
    return path


def free(gpujob: Command, file: Path) -> str:
    """FREE/TOTAL of the H100 pool."""
    answer = gpujob("pools", "--cluster", file, "--catalog", CATALOG)
    return next(line.split()[4] for line in answer.out.splitlines() if line.startswith("h100-sxm "))


def test_a_gang_whose_pods_have_no_node_holds_its_devices(gpujob: Command, tmp_path: Path) -> None:
    held = cluster(tmp_path / "c.yaml", child(), gpujob_itself())
    assert free(gpujob, MIXED) == "12/16"
    assert free(gpujob, held) == "4/16"
    answer = gpujob("plan", "-f", "-", "--cluster", held, "--catalog", CATALOG, stdin=manifest(**TWO_NODES))
    assert answer.code == 3
    assert "needs 8 free GPUs on one node, 4 of 16 are free" in answer.out


def test_a_job_that_only_says_that_it_is_a_child_holds_nothing(gpujob: Command, tmp_path: Path) -> None:
    forged = [child(attempt=3), child() | {"metadata": child()["metadata"] | {"name": "mine"}}]
    forged.append(child() | {"metadata": child()["metadata"] | {"namespace": "another"}})
    for job in forged:
        file = cluster(tmp_path / "c.yaml", job, gpujob_itself())
        assert free(gpujob, file) == "12/16"
        gpujob("capture", "--cluster", file, "-o", tmp_path / "captured.json")
        assert free(gpujob, tmp_path / "captured.json") == "12/16"


def test_a_pod_that_came_is_counted_once(gpujob: Command, tmp_path: Path) -> None:
    job = child()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "big-1-0", "namespace": "team", "labels": job["metadata"]["labels"]},
        "spec": job["spec"]["template"]["spec"] | {"nodeName": "h100-0"},
    }
    assert free(gpujob, cluster(tmp_path / "c.yaml", job, pod)) == "4/16"
    unbound = pod | {"spec": job["spec"]["template"]["spec"]}
    assert free(gpujob, cluster(tmp_path / "c.yaml", job, unbound)) == "4/16"


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(child(status={"conditions": [{"type": "Complete", "status": "True"}]}), id="it has ended"),
        pytest.param(child(metadata={"name": "big-1", "namespace": "team"}), id="it is a Job of another owner"),
        pytest.param(child(spec=["broken"]), id="it cannot be read"),
        pytest.param(child(apiVersion="other.example/v1"), id="it is no Job of Kubernetes"),
    ],
)
def test_what_holds_nothing_takes_nothing(gpujob: Command, tmp_path: Path, job: dict[str, Any]) -> None:
    assert free(gpujob, cluster(tmp_path / "c.yaml", job)) == "12/16"


def test_a_job_is_explained_without_what_was_promised_to_itself(gpujob: Command, tmp_path: Path) -> None:
    held = cluster(tmp_path / "c.yaml", child(), gpujob_itself())
    answer = gpujob("explain", "big", "--cluster", held, "--catalog", CATALOG)
    assert answer.code == 0
    assert f"Placed  big: {H100}" in answer.out


def test_a_quota_counts_pods_to_come_once(gpujob: Command, tmp_path: Path) -> None:
    amounts = {"requests.nvidia.com/gpu": "10"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "team"},
        "spec": {"hard": amounts},
        "status": {"hard": amounts, "used": {"requests.nvidia.com/gpu": "0"}},
    }
    four = manifest(nodes=1, gpusPerNode=4, placement=TWO_NODES["placement"])
    arguments = ("plan", "-n", "team", "-f", "-", "--catalog", CATALOG, "--cluster")
    answer = gpujob(*arguments, cluster(tmp_path / "c.yaml", quota, child()), stdin=four)
    assert "ResourceQuota gpus: requests.nvidia.com/gpu needs 4, 2 left of 10" in answer.out
    # The pod is there without a node: the quota has counted it.
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": child()["metadata"], "spec": {"containers": []}}
    counted = quota | {"status": {"hard": amounts, "used": {"requests.nvidia.com/gpu": "8"}}}
    answer = gpujob(*arguments, cluster(tmp_path / "d.yaml", counted, child(), pod), stdin=four)
    assert "ResourceQuota gpus: requests.nvidia.com/gpu needs 4, 2 left of 10" in answer.out


def test_a_capture_carries_what_is_promised_and_who_waits(gpujob: Command, tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team", "labels": child()["metadata"]["labels"]},
        "spec": {"containers": []},
    }
    ended = child(attempt=2, status={"conditions": [{"type": "Failed", "status": "True"}]})
    held = cluster(tmp_path / "c.yaml", child(), ended, gpujob_itself(), queued(), pod)
    answer = gpujob("capture", "--cluster", held, "-o", tmp_path / "captured.json")
    assert answer.code == 0
    text = (tmp_path / "captured.json").read_text()
    assert "hunter2" not in text
    kinds = [(item["kind"], item["metadata"]["name"]) for item in json.loads(text)["items"]]
    assert {("Job", child_name("big", UID, 1)), ("GPUJob", "next"), ("Pod", "p")} <= set(kinds)
    assert ("Job", child_name("big", UID, 2)) not in kinds
    assert ("GPUJob", "big") in kinds, "a capture says too what each job holds"
    before, after = (
        gpujob("plan", "-f", "-", "--cluster", file, "--catalog", CATALOG, "-o", "json", stdin=manifest(**TWO_NODES))
        for file in (held, tmp_path / "captured.json")
    )
    assert (before.code, before.out) == (after.code, after.out)
    assert free(gpujob, tmp_path / "captured.json") == "4/16"


def test_pods_that_wait_for_any_node_of_a_pool_are_in_a_capture_too(gpujob: Command, tmp_path: Path) -> None:
    job = child()
    del job["spec"]["template"]["spec"]["affinity"]
    placement = {
        "pool": H100, "vendor": "NVIDIA", "accelerator": "H100-SXM", "nodes": 1, "gpusPerNode": 8,
        "image": "hunter2", "runtime": "hunter2", "provision": True,
    }  # fmt: skip
    job["metadata"]["annotations"] = {"gpujob.dev/placement": json.dumps(placement)}
    held = cluster(tmp_path / "c.yaml", job)
    assert gpujob("capture", "--cluster", held, "-o", tmp_path / "captured.yaml").code == 0
    assert "hunter2" not in (tmp_path / "captured.yaml").read_text()
    assert free(gpujob, held) == free(gpujob, tmp_path / "captured.yaml") == "4/16"


DISK = {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "hunter2"}, "claimRef": {"name": "hunter2"}}
FILES = {"nfs": {"server": "hunter2", "path": "/hunter2"}}
SHARE = {"csi": {"driver": "efs.csi.aws.com", "volumeHandle": "hunter2"}}
MANY = {"accessModes": ["ReadWriteOnce", "ReadWriteMany"], **DISK}


@pytest.mark.parametrize(("bound", "source"), [(False, DISK), (True, DISK), (True, FILES), (True, SHARE), (True, MANY)])
def test_a_capture_plans_with_the_claims_that_pods_mount(
    gpujob: Command, tmp_path: Path, bound: bool, source: dict[str, Any]
) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "team"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "pv"},
    }
    volumes = [{"name": "hunter2", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "hunter2", "emptyDir": {}}]
    job = child()
    job["spec"]["template"]["spec"]["volumes"] = volumes
    job["metadata"]["annotations"]["gpujob.dev/job-name"] = "big"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "big-0", "namespace": "team", "labels": job["metadata"]["labels"]},
        "spec": job["spec"]["template"]["spec"] | {"nodeName": "h100-0"},
        "status": {"phase": "Running"},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": source}
    held = cluster(tmp_path / "c.yaml", claim, volume, job, gpujob_itself(), *([pod] if bound else ()))
    assert gpujob("capture", "--cluster", held, "-o", tmp_path / "captured.yaml").code == 0
    assert "hunter2" not in (tmp_path / "captured.yaml").read_text()
    mounts = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
              "volumeMounts": [{"name": "v", "mountPath": "/v"}]}  # fmt: skip
    asked = manifest(**mounts, placement=TWO_NODES["placement"])
    told = [
        gpujob("plan", "-n", "team", "-f", "-", "--cluster", file, "--catalog", CATALOG, stdin=asked)
        for file in (held, tmp_path / "captured.yaml")
    ]
    assert told[0].out == told[1].out
    if source is not DISK:
        assert "PersistentVolumeClaim" not in told[0].out
        return
    user = "is mounted on node h100-0 by pod big-0" if bound else "will be mounted on node h100-0 by job big"
    assert f"PersistentVolumeClaim data {user}, and one" in " ".join(told[0].out.split())
    assert "Held by: job team/big holds PersistentVolumeClaim data on h100-0" in told[0].out
