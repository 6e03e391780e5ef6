"""Volumes against nodes: the terms are Kubernetes' own, and whatever a claim or a volume holds, nothing raises."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, node

from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.kubernetes.parse import read_node
from gpujob.fleet.storage.claim_volumes import Volumes
from gpujob.fleet.storage.volume_records import PersistentVolume, VolumeClaim, read_volume_claim
from gpujob.fleet.storage.volume_ties import Tie, new_node_mounts, read_tie

NODES: dict[tuple[str, str], Node] = {
    ("", name): read_node(node(name, H100, labels={"zone": zone, "size": size}))
    for name, zone, size in (("a", "east", "8"), ("b", "west", "16"), ("c", "west", "none"))
}


def tie(*terms: dict[str, Any], labels: dict[str, str] | None = None) -> Tie:
    affinity = {"required": {"nodeSelectorTerms": list(terms)}}
    return read_tie({"metadata": {"name": "pv", "labels": labels or {}}, "spec": {"nodeAffinity": affinity}})


def expression(key: str, operator: str, *values: str, of: str = "matchExpressions") -> dict[str, Any]:
    return {of: [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def mountable(found: Tie) -> str:
    volumes = Volumes({("x", "data"): VolumeClaim("pv")}, {("", "pv"): PersistentVolume(found)}, NODES, complete=True)
    volume = volumes.volume("x", "data")
    assert volume is not None
    return "any" if volume.nodes is None else "".join(sorted(volume.nodes))


@pytest.mark.parametrize(
    ("term", "nodes"),
    [
        (expression("zone", "In", "east", "north"), "a"),
        (expression("zone", "NotIn", "east"), "bc"),
        (expression("size", "Exists"), "abc"),
        (expression("rack", "DoesNotExist"), "abc"),
        (expression("rack", "Exists"), ""),
        (expression("size", "Gt", "8"), "b"),
        (expression("size", "Lt", "9"), "a"),
        (expression("metadata.name", "In", "c", of="matchFields"), "c"),
        ({**expression("zone", "In", "west"), **expression("metadata.name", "NotIn", "c", of="matchFields")}, "b"),
        ({}, ""),
        (expression("zone", "Resembles", "east"), ""),
    ],
)
def test_a_term_allows_what_kubernetes_allows(term: dict[str, Any], nodes: str) -> None:
    assert mountable(tie(term)) == nodes


def test_an_old_zone_label_asks_for_the_new_one_where_nodes_have_no_old_one() -> None:
    old = tie(labels={"failure-domain.beta.kubernetes.io/zone": "z1__z2"})
    labels = {
        "new": {"topology.kubernetes.io/zone": "z2"},
        "other": {"topology.kubernetes.io/zone": "z3"},
        "both": {"topology.kubernetes.io/zone": "z3", "failure-domain.beta.kubernetes.io/zone": "z1"},
        "none": {},
    }
    nodes = [read_node(node(name, H100, labels=found)) for name, found in labels.items()]
    assert [one.name for one in nodes if old.allows(one)] == ["new", "both"]


ZONE, EBS = "topology.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"
IN_Z1 = tie(expression(ZONE, "In", "z1"))


@pytest.mark.parametrize(
    ("ties", "selector", "mounts"),
    [
        ([IN_Z1], [], True),
        ([IN_Z1], [(ZONE, "In", ("z1",))], True),
        ([IN_Z1], [(ZONE, "In", ("z2",))], False),
        ([IN_Z1], [(ZONE, "In", ("z2", "z1"))], True),
        ([IN_Z1], [(ZONE, "NotIn", ("z1",))], False),
        ([IN_Z1], [(ZONE, "NotIn", ("z2",))], True),
        ([IN_Z1], [(ZONE, "DoesNotExist", ())], False),
        ([IN_Z1], [("failure-domain.beta.kubernetes.io/zone", "In", ("z2",))], False),
        ([tie(expression(EBS, "In", "z1"))], [(ZONE, "In", ("z2",))], False),
        ([tie(expression("topology.gke.io/zone", "In", "z1"))], [(ZONE, "In", ("z1",))], True),
        ([tie(labels={ZONE: "z1__z3"})], [(ZONE, "In", ("z2",))], False),
        ([tie(expression("rack", "In", "r"), labels={ZONE: "z1"})], [(ZONE, "In", ("z2",))], False),
        ([tie(expression(ZONE, "In", "z1"), expression(ZONE, "In", "z2"))], [(ZONE, "In", ("z2",))], True),
        ([tie(expression(ZONE, "NotIn", "z2"))], [(ZONE, "In", ("z2",))], False),
        ([tie(expression("ssd", "DoesNotExist"))], [("ssd", "In", ("yes",))], False),
        ([tie(expression("ssd", "Exists"))], [("ssd", "DoesNotExist", ())], False),
        ([tie(expression("disks", "Gt", "4"))], [("disks", "In", ("2",))], False),
        ([tie(expression("disks", "Gt", "4"))], [], True),
        ([tie(expression("kubernetes.io/hostname", "In", "a"))], [], False),
        ([tie(expression("metadata.name", "NotIn", "a", of="matchFields"))], [], True),
        ([IN_Z1, tie(expression(EBS, "In", "z2"))], [], False),
        ([IN_Z1, tie(expression(EBS, "In", "z1", "z2"))], [], True),
        ([tie({})], [], False),
    ],
)
def test_a_new_node_mounts_what_its_pool_s_selector_allows(ties: list[Tie], selector: list[Any], mounts: bool) -> None:
    assert new_node_mounts(ties, tuple(selector)) is mounts


def test_terms_are_alternatives_and_zone_labels_are_not() -> None:
    assert mountable(tie(expression("zone", "In", "east"), expression("size", "In", "16"))) == "ab"
    zoned = tie(expression("size", "Exists"), labels={"topology.kubernetes.io/zone": "z1__z2"})
    assert (mountable(zoned), str(zoned)) == ("", "size Exists, topology.kubernetes.io/zone In z1 z2")


def test_a_volume_without_ties_and_a_claim_without_a_volume_go_anywhere() -> None:
    assert mountable(tie()) == "any"
    unbound = Volumes({("x", "data"): VolumeClaim()}, {}, NODES, complete=True).volume("x", "data")
    assert unbound is not None
    assert (unbound.nodes, unbound.one_node) == (None, False)


def test_what_is_not_described_is_missing_only_where_all_claims_are_known() -> None:
    claims = {("x", "data"): VolumeClaim()}
    assert [Volumes(claims, complete=True).knows(name) for name in ("x", "y")] == [True, True]
    assert [Volumes(claims).knows(name) for name in ("x", "y")] == [True, False]


@pytest.mark.parametrize("odd", [None, 7, "text", [], [None], {"a": {}}, {"required": 1}, [{"key": 1}], True])
def test_odd_objects_are_read_as_if_they_said_nothing(odd: Any) -> None:
    assert read_volume_claim({"metadata": odd, "spec": odd, "status": odd}) == VolumeClaim()
    assert read_volume_claim({"spec": {"accessModes": odd, "volumeName": odd}}).one_node is False
    assert mountable(read_tie({"metadata": {"labels": odd}, "spec": {"nodeAffinity": odd}})) == "any"
    mountable(tie({"matchExpressions": odd, "matchFields": odd}))


@pytest.mark.parametrize(
    ("modes", "one_node"),
    [(["ReadWriteOnce"], True), (["ReadWriteOncePod"], True), (["ReadWriteOnce", "ReadWriteMany"], False), ([], False)],
)
def test_a_claim_that_one_node_can_mount(modes: list[str], one_node: bool) -> None:
    assert read_volume_claim({"spec": {"accessModes": modes}}).one_node is one_node


def test_claims_with_which_no_pod_starts() -> None:
    assert read_volume_claim({"status": {"phase": "Lost"}}).trouble == "has lost its PersistentVolume"
    assert read_volume_claim({"metadata": {"deletionTimestamp": "x"}}).trouble == "is being deleted"


@pytest.mark.parametrize(
    ("phase", "spec", "refused"),
    [
        ("Pending", {}, True),
        ("Pending", {"storageClassName": ""}, True),
        ("Pending", {"storageClassName": "fast"}, False),
        # The control plane binds it to the volume that it names.
        ("Pending", {"volumeName": "pv"}, False),
        ("Bound", {"volumeName": "pv"}, False),
        (None, {}, False),
    ],
)
def test_a_claim_without_a_class_is_bound_before_its_pods_or_never(
    phase: str | None, spec: dict[str, str], refused: bool
) -> None:
    claim = read_volume_claim({"spec": spec, "status": {"phase": phase} if phase else {}})
    found = Volumes({("x", "c"): claim}).volume("x", "c")
    words = "is not bound and names no StorageClass (`kubectl get storageclass` lists them)"
    assert found is not None
    assert found.trouble == (words if refused else "")
