"""What an admin's GPUPool gives to pods goes to the containers that work, and only where the pool says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pod_security import violations
from samples import H100, MI300X, SAMPLES, Sample, choice_of, job_of

from gpujob.fleet.kubernetes.host_ports import RENDEZVOUS, REPORTS
from gpujob.status.records.read_objects import read_pod_record
from gpujob.values.vocabulary import Label

PRIVILEGED = {"host-devices-amd", "host-devices-nvidia-gang", "fabric-gang"}


def pod_of(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = SAMPLES[name].children().job["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - PRIVILEGED - {"as-root"}))
def test_every_other_pod_passes_the_restricted_level(name: str) -> None:
    assert list(violations(pod_of(name))) == []


@pytest.mark.parametrize("name", sorted(PRIVILEGED))
def test_these_do_not(name: str) -> None:
    assert list(violations(pod_of(name)))


def test_amd_s_device_files_are_mounted_where_they_are() -> None:
    pod = pod_of("host-devices-amd")
    files = {
        volume["hostPath"]["path"]: volume["hostPath"]["type"] for volume in pod["volumes"] if "hostPath" in volume
    }
    assert files == {"/dev/kfd": "CharDevice", "/dev/dri": "Directory"}
    train = pod["containers"][0]
    assert {mount["mountPath"] for mount in train["volumeMounts"]} >= {"/dev/kfd", "/dev/dri"}
    assert train["securityContext"] == {"privileged": True}
    assert not [key for key in train["resources"]["limits"] if "/" in key]
    assert pod["securityContext"]["supplementalGroups"] == [44, 109]


def test_a_node_takes_one_pod_with_host_devices() -> None:
    children = SAMPLES["host-devices-amd"].children()
    template = children.job["spec"]["template"]
    assert template["metadata"]["labels"]["gpujob.dev/host-devices"] == "true"
    (rule,) = template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule == {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"gpujob.dev/host-devices": "true"}},
        "namespaceSelector": {},
    }


def test_nvidia_s_files_come_with_a_word_to_its_runtime_and_all_gpus_of_the_plugin() -> None:
    pod = pod_of("host-devices-nvidia-gang")
    paths = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
    assert paths == ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1"]
    assert len({volume["name"] for volume in pod["volumes"]}) == len(pod["volumes"])
    train = pod["containers"][0]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in train["env"]
    assert train["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert len(pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]) == 2


def test_containers_without_devices_get_none_of_it() -> None:
    copying = Sample(job_of(code={"configMap": {"name": "c"}}), SAMPLES["host-devices-amd"].choice).children().job
    copy = copying["spec"]["template"]["spec"]["initContainers"][0]
    assert copy["securityContext"]["allowPrivilegeEscalation"] is False
    assert not [mount for mount in copy["volumeMounts"] if mount["mountPath"].startswith("/dev/")]


def test_a_gang_gets_the_whole_fabric_and_a_single_pod_nothing() -> None:
    template = SAMPLES["fabric-gang"].children().job["spec"]["template"]
    pod, train = template["spec"], template["spec"]["containers"][0]
    assert train["resources"]["limits"]["rdma/hca"] == train["resources"]["requests"]["rdma/hca"] == "1"
    assert train["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    annotations = template["metadata"]["annotations"]
    assert annotations["k8s.v1.cni.cncf.io/networks"] == "rail-a,rail-b"
    assert annotations["team"] == "a"
    (near,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert near["topologyKey"] == "example.com/leaf"
    plain = Sample(job_of(command=["torchrun", "train.py"]), choice_of(H100, "h100-0", gpus=8)).children().job
    single = SAMPLES["fabric-single"].children().job
    assert single["spec"] == plain["spec"]


def test_a_gang_on_the_host_s_network_declares_no_port_and_serves_on_one_of_its_attempt() -> None:
    def served(asked: int, attempt: int) -> tuple[int, int | None]:
        job = job_of(nodes=2, gpusPerNode=8, telemetry={"port": asked})
        child = Sample(job, SAMPLES["fabric-gang"].choice, attempt=attempt).children().job
        pod = child["spec"]["template"]["spec"]
        train = pod["containers"][0]
        variables = {entry["name"]: entry.get("value") for entry in train["env"]}
        assert "ports" not in train
        assert (variables["GPUJOB_JOB_UID"], variables["GPUJOB_ATTEMPT"]) == (job.metadata.uid, str(attempt))
        state = read_pod_record(forged_port(pod, child["metadata"]["name"])).state
        assert state is not None
        assert state.on_host_network
        return int(variables["GPUJOB_REPORT_PORT"]), state.port

    found = [served(asked, attempt) for asked, attempt in ((9999, 1), (10250, 1), (9999, 2))]
    assert all(told == read for told, read in found)
    assert found[0] == found[1] != found[2]
    assert all(62_000 <= told < 65_000 for told, _ in found)


def forged_port(spec: dict[str, Any], child: str) -> dict[str, Any]:
    """The pod as if an attacker had sent its readers to the kubelet's port all the same."""
    train = spec["containers"][0]
    env = [{"name": "GPUJOB_REPORT_PORT", "value": "10250"}, *train["env"]]
    container = train | {"ports": [{"name": "telemetry", "containerPort": 10250}], "env": env}
    return {
        "metadata": {
            "name": "p",
            "labels": {Label.JOB_UID: "u"},
            "annotations": {"gpujob.dev/report-port": "10250"},
            "ownerReferences": [{"kind": "Job", "name": child, "uid": "c", "controller": True}],
        },
        "spec": {**spec, "containers": [container]},
        "status": {"podIP": "192.168.0.1"},
    }


@pytest.mark.parametrize(
    "owners", [[], [{"controller": True, "name": 7}], "x", [{"controller": True, "name": "j" * 9000}]]
)
def test_whatever_owns_a_pod_on_the_host_s_network_its_port_is_one_of_reporters(owners: Any) -> None:
    raw = forged_port(SAMPLES["fabric-gang"].children().job["spec"]["template"]["spec"], "")
    raw["metadata"]["ownerReferences"] = owners
    state = read_pod_record(raw).state
    assert state is not None
    assert state.port in REPORTS


def test_ports_on_the_host_s_network_keep_away_from_those_of_others() -> None:
    node_ports, clients = range(30_000, 32_768), range(32_768, 61_000)
    of_nodes = {2379, 2380, 6443, 9090, 9100, 9400, 9464, 9466, *range(10_248, 10_260), 29_500, 61_678, 61_679}
    for ours, other in ((RENDEZVOUS, REPORTS), (REPORTS, RENDEZVOUS)):
        assert not set(ours) & {*other, *node_ports, *clients, *of_nodes}
        assert max(ours) < 2**16


def test_gangs_on_the_host_s_network_meet_at_ports_of_their_own() -> None:
    def ports(name: str, uid: str, attempt: int = 1) -> set[str]:
        job = job_of(name=name, uid=uid, nodes=2, gpusPerNode=8)
        children = Sample(job, SAMPLES["fabric-gang"].choice, attempt=attempt).children()
        env = children.job["spec"]["template"]["spec"]["containers"][0]["env"]
        said = {entry["value"] for entry in env if entry["name"] in ("MASTER_PORT", "PET_MASTER_PORT")}
        assert children.service is not None
        return said | {str(children.service["spec"]["ports"][0]["port"])}

    found = [ports("a", "1"), ports("b", "1"), ports("a", "2"), ports("a", "1", 2)]
    assert all(len(each) == 1 for each in found)
    numbers = {int(port) for each in found for port in each}
    assert len(numbers) == 4
    assert numbers <= set(RENDEZVOUS)


@pytest.mark.parametrize(("name", "exact"), [("claimed-nvidia", True), ("claimed-amd-gang-v1beta1", False)])
def test_a_claim_template_is_written_in_the_version_that_the_cluster_has(name: str, exact: bool) -> None:
    children = SAMPLES[name].children()
    template, pool = children.claims, SAMPLES[name].choice.candidate.pool
    assert template is not None
    assert pool.request is not None
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    asked = request["exactly"] if exact else request
    assert (asked["deviceClassName"], asked["count"]) == (pool.request.device_class, 2 if exact else 8)
    assert template["metadata"] == {**children.job["metadata"], "annotations": template["metadata"]["annotations"]}
    pod = children.job["spec"]["template"]["spec"]
    assert pod["resourceClaims"] == [{"name": "gpus", "resourceClaimTemplateName": template["metadata"]["name"]}]
    assert pod["containers"][0]["resources"]["claims"] == [{"name": "gpus"}]
    assert pool.resource not in json.dumps(pod)


@pytest.mark.parametrize("pool", [MI300X, H100])
def test_without_an_admin_s_word_there_is_no_host_path_and_no_privilege(pool: Any) -> None:
    text = json.dumps(Sample(job_of(), choice_of(pool, "n")).children().job)
    assert not [
        word for word in ("hostPath", "privileged", "hostNetwork", "IPC_LOCK", "resourceClaims") if word in text
    ]
