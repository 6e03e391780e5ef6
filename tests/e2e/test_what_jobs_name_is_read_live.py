"""What a job names by name is read of the living cluster: PersistentVolumeClaims tie it to nodes, PriorityClasses order it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.api_server import CLAIMS, NODES, VOLUMES, ApiServer
from tests.e2e.cluster import eventually
from tests.e2e.conftest import Fleet, Operators
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.team import Team, pinned_nodes

pytestmark = pytest.mark.e2e

STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
DATA: dict[str, Any] = {
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}


@pytest.fixture
def volume(api: ApiServer, team: Team) -> Iterator[str]:
    """The name of a PersistentVolume that goes with the test."""
    name = f"{team.namespace}-data"
    yield name
    api.delete(VOLUMES, name)


def bind(api: ApiServer, team: Team, volume: str, zone: str) -> None:
    """Makes a volume that lies in a zone, and the claim that is bound to it."""
    rule = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
    held = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    spec = held | {
        "hostPath": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}},
    }
    api.create(VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec})
    wish = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": volume}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    claims = CLAIMS.format(team.namespace)
    api.create(claims, body | {"spec": wish | {"resources": {"requests": {"storage": "1Gi"}}}})
    eventually(lambda: api.get(claims, "data").get("status", {}).get("phase") == "Bound", 30, what="a bound claim")


def test_a_job_goes_where_its_volume_is(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, volume: str
) -> None:
    first, second = fleet(h100=2)
    for name, zone in ((first, "zone-a"), (second, "zone-b")):
        api.patch(NODES, name, {"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}})
    uid = team.submit("reader", **DATA)
    # The claim is not there yet.
    assert team.until("reader", "Misconfigured", "Running", "Placed")["state"] == "Misconfigured"
    assert team.condition("reader", "Placed")["reason"] == "VolumeMissing"
    bind(api, team, volume, "zone-b")
    team.until("reader", "Running")
    (child,) = team.jobs(uid)
    assert pinned_nodes(child["spec"]["template"]["spec"]) == [second]


def test_a_job_whose_volume_is_elsewhere_says_so(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team, volume: str
) -> None:
    (only,) = fleet(h100=1)

    def label(**labels: str | None) -> None:
        """Sets labels of the node; None removes one."""
        names = {"zone": "topology.kubernetes.io/zone", "group": "eks.amazonaws.com/nodegroup"}
        named = {names[key]: value for key, value in labels.items()}
        api.patch(NODES, only, {"metadata": {"labels": named}})

    # A node of no group has no others of its kind to come.
    label(zone="zone-a", group=None)
    bind(api, team, volume, "zone-b")
    uid = team.submit("reader", **DATA)
    team.until("reader", "Impossible")
    reasons = {each["reason"]: each["message"] for each in team.status("reader")["candidates"]}
    where = "PersistentVolumeClaim data (topology.kubernetes.io/zone In zone-b) can be mounted on none of its 1 nodes; "
    assert reasons == {"ZoneConflict": where + "use a volume of the pool's zone"}
    label(group="h100")
    team.until("reader", "Queued")
    says = team.condition("reader", "Placed")
    assert says["reason"] == "MayGrow"
    lacks = "needs 1 more node that can mount PersistentVolumeClaim data (topology.kubernetes.io/zone In zone-b)"
    assert lacks in says["message"]
    assert team.jobs(uid) == []
    label(zone="zone-b")
    team.until("reader", "Running")


@pytest.fixture
def high(api: ApiServer, team: Team) -> Iterator[str]:
    """The name of a PriorityClass of 100; jobs without one have 0."""
    name = f"{team.namespace}-high"
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 100}
    api.create(PRIORITY_CLASSES, body)
    yield name
    api.delete(PRIORITY_CLASSES, name)


def test_the_job_of_higher_priority_gets_the_node_that_comes_free(
    operator: OperatorProcess, fleet: Fleet, team: Team, high: str
) -> None:
    fleet(h100=1)
    team.submit("first", gpusPerNode=8)
    team.until("first", "Running")
    team.submit("lo", gpusPerNode=8)
    team.until("lo", "Queued")
    uid = team.submit("hi", gpusPerNode=8, priorityClassName=high)
    team.submit("typo", priorityClassName=f"{high}-er")
    team.until("hi", "Queued")
    assert team.until("typo", "Misconfigured")
    assert f"the nearest is {high}" in team.condition("typo", "Placed")["message"]
    team.delete("first")
    team.until("hi", "Running")
    assert team.state("lo") == "Queued"
    (pod,) = team.pods(uid)
    assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == (high, 100)


def test_a_lower_job_leaves_alone_what_a_higher_one_waits_for(
    operator: OperatorProcess, fleet: Fleet, team: Team, high: str
) -> None:
    fleet(h100=1)
    team.submit("first", gpusPerNode=4)
    team.until("first", "Running")
    team.submit("hi", gpusPerNode=8, priorityClassName=high, runs_for="2s")
    team.until("hi", "Queued")
    uid = team.submit("lo", gpusPerNode=2)
    team.until("lo", "Queued")
    said = team.condition("lo", "Placed")
    assert said["reason"] == "QueuedBehind"
    assert "behind job hi of priority 100, which waits for 8 GPUs on one node; 4 free GPUs are" in said["message"]
    assert team.jobs(uid) == []
    team.delete("first")
    team.until("hi", "Running", "Succeeded")
    team.until("lo", "Running")
    assert team.state("hi") == "Succeeded"


@pytest.fixture
def idle_class(api: ApiServer, team: Team) -> Iterator[str]:
    """The name of a StorageClass whose volumes are never made."""
    name = f"{team.namespace}-idle"
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    api.create(STORAGE_CLASSES, body | {"provisioner": "nobody.example", "volumeBindingMode": "Immediate"})
    yield name
    api.delete(STORAGE_CLASSES, name)


def claim(api: ApiServer, team: Team, **spec: Any) -> None:
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    wish = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    api.create(CLAIMS.format(team.namespace), body | {"spec": wish | spec})


def test_pods_that_no_node_takes_give_the_gpus_of_one_pool_after_the_other_back(
    no_operator: None, operators: Operators, api: ApiServer, fleet: Fleet, team: Team, idle_class: str
) -> None:
    hasty = operators("hasty")
    hasty.settings["GPUJOB_UNBOUND_SECONDS"] = "8"
    hasty.start_without_waiting_for_the_lease()
    fleet(h100=1, mi210=1)
    claim(api, team, storageClassName=idle_class)
    uid = team.submit("vain", **DATA)
    # Both rest for three times as long, and are tried again then.
    eventually(lambda: len(team.status("vain").get("excludedPools", [])) == 2, 60, what="both pools given back")
    held = team.until("vain", "Queued", timeout=60)
    assert {each["reason"] for each in held["excludedPools"]} == {"Unschedulable"}
    assert "placement" not in held
    assert "claim needs a StorageClass" in team.condition("vain", "Placed")["message"]
    eventually(lambda: team.jobs(uid) == [], 60, what="the children gone")
    hasty.stop()
    assert hasty.errors() == []


def test_a_claim_that_is_never_bound_is_told_before_any_gpu_is_held(
    operator: OperatorProcess, api: ApiServer, fleet: Fleet, team: Team
) -> None:
    fleet(h100=1)
    claim(api, team, storageClassName="")
    eventually(
        lambda: api.get(CLAIMS.format(team.namespace), "data").get("status", {}).get("phase"), what="a pending claim"
    )
    uid = team.submit("reader", **DATA)
    team.until("reader", "Misconfigured")
    told = team.condition("reader", "Placed")
    assert (told["reason"], team.pods(uid)) == ("VolumeMissing", [])
    assert told["message"] == (
        "PersistentVolumeClaim data is not bound and names no StorageClass (`kubectl get storageclass` lists them), so "
        "no pod with it starts; create it again with a storageClassName or remove it from the job"
    )
