"""Pods see the devices that they asked for and no others, and open them by their group and by nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.api_server import NAMESPACES, NODES, PODS, ApiServer, Refused
from tests.e2e.cluster import eventually
from tests.e2e.node import store
from tests.e2e.node.devices import RENDER_GROUP
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]

LOOK = """
import errno, glob, json, os, sys
def tried(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        # The simulated devices have no driver. The kernel says so only to those who may open them.
        return "opens" if error.errno == errno.ENXIO else errno.errorcode[error.errno]
    return "opens"
kinds = ("/dev/kfd", "/dev/dri/*", "/dev/nvidia*", "/host/*", "/host/dri/*")
paths = {path for kind in kinds for path in glob.glob(kind) if not os.path.isdir(path)} | {"/dev/kfd"}
print(json.dumps({"uid": os.getuid(), "groups": os.getgroups(), "visible": os.environ.get("NVIDIA_VISIBLE_DEVICES"),
                  "devices": {path: tried(path) for path in sorted(paths)}}))
"""
"""Prints who the process is and what becomes of opening each device that it sees."""


def seen(team: Trainers, name: str, **spec: Any) -> dict[str, Any]:
    """What a job of one pod sees."""
    uid = team.run(name, "python3", "-c", LOOK, **spec)
    state, (printed,) = team.result(name, uid)
    assert state == "Succeeded", printed
    found: dict[str, Any] = json.loads(printed)
    return found


def test_the_pools_group_opens_amd_devices_for_a_job_that_is_not_root(
    operator: OperatorProcess, team: Trainers, amd_group: None
) -> None:
    found = seen(team, "opens", placement={"vendors": ["AMD"]})
    assert found["uid"] == 1000
    assert RENDER_GROUP in found["groups"]
    (render,) = {path for path in found["devices"] if path.startswith("/dev/dri/")}
    assert found["devices"] == {"/dev/kfd": "opens", render: "opens"}


def test_without_the_group_amd_devices_are_seen_but_do_not_open(operator: OperatorProcess, team: Trainers) -> None:
    found = seen(team, "closed", placement={"vendors": ["AMD"]})
    assert found["groups"] == [1000]
    assert set(found["devices"].values()) == {"EACCES"}
    assert len(found["devices"]) == 2


def test_nvidia_devices_open_for_everybody_and_are_only_those_asked_for(
    operator: OperatorProcess, team: Trainers
) -> None:
    found = seen(team, "opens", placement={"vendors": ["NVIDIA"]}, gpusPerNode=2)
    numbers = found["visible"].split(",")
    assert len(numbers) == 2
    opened = {"/dev/nvidiactl", *(f"/dev/nvidia{number}" for number in numbers)}
    assert found["devices"] == {"/dev/kfd": "ENOENT", **dict.fromkeys(opened, "opens")}


def look(namespace: str, name: str, node: str, **parts: Any) -> dict[str, Any]:
    """A pod outside any job that looks at devices on a node, with the device's group but without requests."""
    container = {
        "name": "train",
        "image": store.PYTHON,
        "command": ["python3", "-c", LOOK],
        **parts.pop("container", {}),
    }
    security = {"runAsUser": 1000, "supplementalGroups": [RENDER_GROUP], **parts.pop("security", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": security,
            "containers": [container],
            **parts,
        },
    }


RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
HOST_DEVICES = {
    "volumes": [{"name": "host", "hostPath": {"path": "/dev"}}],
    "container": {"volumeMounts": [{"name": "host", "mountPath": "/host"}]},
}


def ran(team: Trainers, pod: dict[str, Any]) -> str:
    """What a pod printed that ran to its end."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    path = PODS.format(namespace)
    team.api.create(path, pod)

    def ended() -> bool:
        return team.api.get(path, name)["status"].get("phase") in ("Succeeded", "Failed")

    eventually(ended, 30, what="a pod that ended")
    return team.api.kubectl("logs", name, f"--namespace={namespace}").stdout


def devices_of(team: Trainers, pod: dict[str, Any]) -> dict[str, str]:
    """What a pod that looks saw."""
    found: dict[str, str] = json.loads(ran(team, pod))["devices"]
    return found


@pytest.mark.parametrize("node", ["amd-0", "nvidia-0"])
def test_a_pod_that_asked_for_nothing_sees_nothing_whatever_its_groups(team: Trainers, node: str) -> None:
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = look(team.namespace, "nothing", node, security=restricted, container={"securityContext": RESTRICTED})
    assert devices_of(team, pod) == {"/dev/kfd": "ENOENT"}


@pytest.fixture(scope="package")
def lax(api: ApiServer) -> Iterator[str]:
    """A namespace that allows everything."""
    api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lax"}})
    eventually(lambda: api.find(f"{NAMESPACES}/lax/serviceaccounts", "default"), 30, what="the service account")
    yield "lax"
    api.delete(NAMESPACES, "lax")


@pytest.mark.parametrize("user", [1000, 0])
def test_mounting_the_hosts_devices_opens_none_without_privilege(team: Trainers, lax: str, user: int) -> None:
    found = devices_of(team, look(lax, f"mounts-{user}", "amd-0", security={"runAsUser": user}, **HOST_DEVICES))
    mounted = {path: what for path, what in found.items() if path.startswith(("/host/kfd", "/host/dri"))}
    assert len(mounted) == 5
    assert set(mounted.values()) == {"EPERM"}


def test_a_privileged_pod_opens_the_hosts_devices(team: Trainers, lax: str) -> None:
    pod = look(lax, "privileged", "amd-0", **HOST_DEVICES)
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    assert devices_of(team, pod)["/host/kfd"] == "opens"


def test_a_restricted_namespace_refuses_the_hosts_devices(team: Trainers) -> None:
    with pytest.raises(Refused, match=r'violates PodSecurity "restricted:latest".*"hostPath"'):
        team.api.create(PODS.format(team.namespace), look(team.namespace, "refused", "amd-0", **HOST_DEVICES))


def test_the_nodes_offer_four_devices_each(api: ApiServer) -> None:
    offered = {
        node["metadata"]["name"]: {key: count for key, count in node["status"]["allocatable"].items() if ".com/" in key}
        for node in api.items(NODES)
    }
    amd, nvidia = {"amd.com/gpu": "4"}, {"nvidia.com/gpu": "4"}
    assert offered == {"amd-0": amd, "amd-1": amd, "nvidia-0": nvidia}
