"""A claim without a volume yet: its StorageClass and the PersistentVolumes that are left decide about the nodes."""

from __future__ import annotations

from typing import Any

import pytest
from builders import ANY_IMAGES, H100, Object, demand, fleet, gpupool, node

from gpujob.fleet.kubernetes.objects import Node
from gpujob.fleet.storage.volume_ties import Tie
from gpujob.placement.engine.choose import choose
from gpujob.placement.engine.decide import decide
from gpujob.placement.filters.volumes import mounted
from gpujob.placement.report import summary
from gpujob.placement.scoring.candidate import Decision
from gpujob.values.vocabulary import Reason, Verdict

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WAITS = {"volumeBindingMode": "WaitForFirstConsumer"}


def kind_of(name: str = "std", *zones: str, **more: Any) -> Object:
    """A StorageClass whose volumes are made in these zones (none: in all)."""
    terms = {"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {**head, "provisioner": "csi.example", **({"allowedTopologies": [terms]} if zones else {}), **WAITS, **more}


LOCAL = kind_of("local", provisioner="kubernetes.io/no-provisioner")


def claim(storage_class: str | None = "std", size: str = "10Gi", volume: str = "", **more: Any) -> Object:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}, **more}
    named = {"storageClassName": storage_class} if storage_class is not None else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {**spec, **named, **({"volumeName": volume} if volume else {})},
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def volume(name: str, key: str = HOST, *values: str, phase: str = "Available", **more: Any) -> Object:
    rule = {"key": key, "operator": "In", "values": list(values)}
    spec = {"storageClassName": "local", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "10Gi"}}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**spec, "nodeAffinity": affinity, **more},
        "status": {"phase": phase},
    }


def machine(name: str, zone: str = "", **more: Any) -> Object:
    labels = {HOST: name, **({ZONE: zone} if zone else {}), **more.pop("labels", {})}
    return node(name, H100, price="1", labels=labels, **more)


A, B = machine("a", "z-a"), machine("b", "z-b")
NAMED = {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}


def of_pod(storage_class: str | None = "std", size: str = "1Gi") -> dict[str, Any]:
    named = {"storageClassName": storage_class} if storage_class else {}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **named}
    return {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def place(*objects: Object, mounts: dict[str, Any] = NAMED, **spec: Any) -> Decision:
    """The decision, which the choice alone agrees with."""
    known = fleet(*objects, catalog=ANY_IMAGES)
    asked = mounted(demand(volumes=[mounts], **spec), known, "default")
    found = decide(asked, known, ANY_IMAGES)
    assert choose(asked, known, ANY_IMAGES).verdict is found.verdict
    return found


def outcome(found: Decision) -> str:
    """The chosen nodes, or the verdict and the reasons."""
    if found.choice is not None:
        return ",".join(found.choice.nodes)
    problems = found.problems or [each for candidate in found.candidates for each in candidate.reasons]
    return " ".join(dict.fromkeys([found.verdict.name, *(each.reason.name for each in problems)]))


NOWHERE, TO_BE_MADE = "IMPOSSIBLE ZONE_CONFLICT", "MISCONFIGURED VOLUME_MISSING"


@pytest.mark.parametrize(("objects", "right"), [
    ([claim(), kind_of("std", "z-b"), A, B], "b"),
    ([claim(), kind_of("std", "z-b"), A], NOWHERE),
    ([claim(), kind_of("std", "z-a", "z-b"), A, B], "a"),
    ([claim(), kind_of(), A, B], "a"),
    # The default class.
    ([claim(None), kind_of("std", "z-b", metadata={"name": "std", "annotations": {
        "storageclass.kubernetes.io/is-default-class": "true"}}), A, B], "b"),
    # One that binds at once has a volume before its pods, on nodes that only the provisioner knows.
    ([claim(), kind_of("std", "z-b", volumeBindingMode="Immediate"), A, B], "a"),
    # A bound claim is where its volume is.
    ([claim(volume="pv"), volume("pv", ZONE, "z-a", phase="Bound"), kind_of("std", "z-b"), A, B], "a"),
    # A PersistentVolume that is left is bound too.
    ([claim(), volume("pv", ZONE, "z-a", storageClassName="std"), kind_of("std", "z-b"), A], "a"),
    ([claim(), volume("pv", ZONE, "z-a", storageClassName="std", phase="Bound"), kind_of("std", "z-b"), A], NOWHERE),
    ([claim(), kind_of(allowedTopologies=[{}]), A], NOWHERE),
    ([claim(), kind_of(allowedTopologies="z-b"), A], "a"),
    ([claim("nope"), kind_of(), A], TO_BE_MADE),
    ([claim("nope"), A], "a"),
    # The class of a claim in an older capture is hidden.
    ([claim("redacted"), kind_of(), A], "a"),
    # The documented way to bind to volumes that an admin makes: a class that is a name alone.
    ([claim("manual"), volume("pv", HOST, "b", storageClassName="manual"), kind_of(), A, B], "b"),
    ([claim(""), volume("pv", HOST, "b", storageClassName=""), kind_of(), A, B], "b"),
    ([claim(""), volume("pv", HOST, "b"), LOCAL, A, B], TO_BE_MADE),
    # A description by hand says no phase: a claim is what it is once it is applied.
    ([claim(None) | {"status": {}}, A], "a"),
    ([claim("") | {"status": {}}, A], "a"),
    ([claim("nope") | {"status": {}}, A], "a"),
    ([claim(None) | {"status": {}}, kind_of("std", "z-b"), A, B], TO_BE_MADE),
    ([claim("") | {"status": {}}, volume("pv", HOST, "b", storageClassName=""), kind_of(), A, B], "b"),
    ([claim("local") | {"status": {}}, volume("pv", HOST, "b"), LOCAL, A, B], "b"),
    ([claim("local") | {"status": {}}, LOCAL, A, B], TO_BE_MADE),
])  # fmt: skip
def test_a_class_decides_where_the_volume_of_its_claim_can_be(objects: list[Object], right: str) -> None:
    assert outcome(place(*objects)) == right


@pytest.mark.parametrize(("volumes", "right"), [
    ([volume("pv", HOST, "b")], "b"),
    ([volume("p", HOST, "b"), volume("q", HOST, "a")], "a"),
    ([volume("pv", HOST, "gone")], TO_BE_MADE),
    ([], TO_BE_MADE),
    ([volume("pv", HOST, "b", phase="Bound")], TO_BE_MADE),
    ([volume("pv", HOST, "b", phase="Released")], TO_BE_MADE),
    ([volume("pv", HOST, "b", storageClassName="other")], TO_BE_MADE),
    ([volume("pv", HOST, "b", capacity={"storage": "9Gi"})], TO_BE_MADE),
    ([volume("pv", HOST, "b", accessModes=["ReadWriteOnce"])], TO_BE_MADE),
    ([volume("pv", HOST, "b", volumeMode="Block")], TO_BE_MADE),
    ([volume("pv", HOST, "b", claimRef={"namespace": "default", "name": "other"})], TO_BE_MADE),
    ([volume("pv", HOST, "b", claimRef={"namespace": "default", "name": "c"})], "b"),
    ([volume("p", HOST, "b", capacity={"storage": "9Gi"}), volume("q", HOST, "a", capacity={"storage": "1Ti"})], "a"),
])  # fmt: skip
@pytest.mark.parametrize("mode", ["WaitForFirstConsumer", "Immediate"])
def test_a_class_that_makes_no_volumes_leaves_those_that_there_are(
    volumes: list[Object], right: str, mode: str
) -> None:
    assert outcome(place(claim("local"), {**LOCAL, "volumeBindingMode": mode}, A, B, *volumes)) == right


@pytest.mark.parametrize(("there", "spec", "right"), [
    ([A, machine("b", "z-b", taints=["x:NoSchedule"])], {}, f"{TO_BE_MADE} TAINT_NOT_TOLERATED"),
    ([A, node("b", labels={HOST: "b"})], {}, TO_BE_MADE),
    ([A, node("b", H100, 4, labels={HOST: "b"}, price="1")], {"gpusPerNode": 8}, TO_BE_MADE),
    ([A, machine("c"), B], {"nodes": 2}, TO_BE_MADE),
    # With a volume on each node it is impossible all the same.
    ([A, machine("b")], {"gpusPerNode": 16}, "IMPOSSIBLE POOL_TOO_SMALL ZONE_CONFLICT"),
    ([A], {"nodes": 2}, "IMPOSSIBLE POOL_TOO_SMALL ZONE_CONFLICT"),
])  # fmt: skip
def test_a_volume_where_the_job_cannot_run_is_no_worse_than_none(
    there: list[Object], spec: dict[str, Any], right: str
) -> None:
    found = place(claim("local"), LOCAL, *there, volume("pv", HOST, "b"), **spec)
    assert outcome(found) == right
    assert ("; create such a PersistentVolume on " in summary.summary(found)) is right.startswith(TO_BE_MADE)


@pytest.mark.parametrize(("objects", "warns"), [
    ([A], True),
    ([A, kind_of()], True),
    ([A, kind_of(), claim() | {"metadata": {"name": "c", "namespace": "other"}}], True),
    ([A, kind_of(), claim()], False),
    ([A, {"kind": "PersistentVolumeClaimList", "apiVersion": "v1", "items": [claim()]}, kind_of()], False),
])  # fmt: skip
def test_a_claim_of_which_nothing_is_known_is_a_warning(objects: list[Object], warns: bool) -> None:
    found = place(*objects)
    assert found.choice is not None
    said = [each.message for each in found.choice.candidate.warnings if each.reason is Reason.VOLUME_MISSING]
    sentence = "nothing is known of the PersistentVolumeClaims of the job's namespace here, c is unchecked"
    assert said == [sentence] * warns


def labelled(name: str, *values: str, **more: Any) -> Object:
    """A local volume with the label t of its name."""
    made = volume(name, HOST, *values, **more)
    return {**made, "metadata": {"name": name, "labels": {"t": name}}}


def rule(operator: str, *values: str, key: str = "t") -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(("selector", "right"), [
    ({}, "a"),
    ({"matchLabels": {"t": "y"}}, "b"),
    (rule("In", "y", "w"), "b"),
    (rule("NotIn", "x"), "b"),
    (rule("Exists"), "a"),
    (rule("NotIn", "x", key="other"), "a"),
    ({"matchLabels": {"t": "y"}, **rule("DoesNotExist", key="other")}, "b"),
    ({"matchLabels": {"t": "y"}, **rule("Exists", key="other")}, TO_BE_MADE),
    ({"matchLabels": {"t": "z"}}, TO_BE_MADE),
    (rule("DoesNotExist"), TO_BE_MADE),
    ({"matchLabels": {"t": 1}, "matchExpressions": "y"}, "a"),
])  # fmt: skip
def test_the_labels_of_a_volume_are_those_that_its_claim_selects(selector: Object, right: str) -> None:
    volumes = [labelled("x", "a"), labelled("y", "b")]
    assert outcome(place(claim("local", selector=selector), LOCAL, A, B, *volumes)) == right


@pytest.mark.parametrize(("labels", "right"), [({"t": "y"}, "b"), ({"t": "x"}, TO_BE_MADE), (None, TO_BE_MADE)])
def test_no_volume_is_made_for_a_claim_with_a_selector(labels: Object | None, right: str) -> None:
    made = volume("v", HOST, "b", storageClassName="std") | {"metadata": {"name": "v", "labels": labels}}
    wants = claim("std", selector={"matchLabels": {"t": "y"}})
    found = place(wants, kind_of("std"), A, B, *([made] if labels else []))
    assert outcome(found) == right
    said = "StorageClass std makes no volumes for a claim with a selector and has no PersistentVolume left that fits"
    assert (said in summary.summary(found)) is (right == TO_BE_MADE)


def test_a_volume_that_is_kept_for_a_claim_needs_no_labels() -> None:
    kept = labelled("x", "a", claimRef={"namespace": "default", "name": "c"})
    selector = {"matchLabels": {"t": "y"}}
    assert outcome(place(claim("local", selector=selector), LOCAL, A, B, kept, labelled("z", "b"))) == "a"


@pytest.mark.parametrize(("objects", "mounts", "right"), [
    ([kind_of("std", "z-b"), A, B], of_pod(), "b"),
    ([kind_of("std", "z-b"), A], of_pod(), NOWHERE),
    ([kind_of(), A], of_pod(), "a"),
    ([LOCAL, volume("pv", HOST, "b"), A, B], of_pod("local"), "b"),
    ([LOCAL, volume("pv", HOST, "b"), A, B], of_pod("local", "11Gi"), TO_BE_MADE),
    ([LOCAL, A, B], of_pod("local"), TO_BE_MADE),
    ([kind_of(), A], of_pod("nope"), TO_BE_MADE),
    ([A], of_pod("nope"), "a"),
])  # fmt: skip
def test_a_claim_of_the_pod_itself_follows_the_same_rules(
    objects: list[Object], mounts: dict[str, Any], right: str
) -> None:
    assert outcome(place(*objects, mounts=mounts)) == right


def test_both_kinds_of_claims_count_together() -> None:
    known = fleet(A, B, claim(volume="pv"), volume("pv", ZONE, "z-a", phase="Bound"), kind_of("std", "z-b"),
                  catalog=ANY_IMAGES)  # fmt: skip
    wanted = demand(volumes=[NAMED, {**of_pod(), "name": "e"}])
    assert outcome(decide(mounted(wanted, known, "default"), known, ANY_IMAGES)) == NOWHERE


@pytest.mark.parametrize(("objects", "sentence"), [
    ([claim(), kind_of("std", "z-b"), A],
     "PersistentVolumeClaim c (StorageClass std: topology.kubernetes.io/zone In z-b) can be mounted on none of its 1 nodes"),
    ([claim("nope"), kind_of(), A],
     "PersistentVolumeClaim c is not bound, and StorageClass nope does not exist, so no pod with it starts; create it again "
     "with a StorageClass that exists (`kubectl get storageclass` lists them) or remove it from the job"),
    ([claim(""), kind_of(), A],
     "PersistentVolumeClaim c is not bound and names no StorageClass (`kubectl get storageclass` lists them), so no pod with it "
     "starts; create it again with a storageClassName or remove it from the job"),
    ([claim("local"), LOCAL, A],
     "PersistentVolumeClaim c is not bound, and StorageClass local makes no volumes and has no PersistentVolume left that "
     "fits, so no pod with it starts; create such a PersistentVolume or remove it from the job"),
])  # fmt: skip
def test_the_sentence_names_the_class(objects: list[Object], sentence: str) -> None:
    assert sentence in summary.summary(place(*objects))


@pytest.mark.parametrize(("objects", "remedy"), [
    ([machine("a", "z-a")], "; use a volume of the pool's zone"),
    ([machine("a")], f"; its nodes lack the label {ZONE}"),
    ([machine("a", labels={"failure-domain.beta.kubernetes.io/zone": "z-a"})], "; use a volume of the pool's zone"),
    ([machine("a"), machine("b", "z-a")], "; use a volume of the pool's zone"),
])  # fmt: skip
def test_where_no_node_has_the_label_of_a_zone_that_is_what_lacks(objects: list[Object], remedy: str) -> None:
    said = summary.summary(place(claim(), kind_of("std", "z-b"), *objects))
    assert f"can be mounted on none of its {len(objects)} nodes{remedy}" in said


def grown(**selector: str) -> Object:
    provision = {"maxNodes": 1, "gpusPerNode": 8}
    return gpupool("p", selector, provision=provision, price={"perGPUHour": "1"}, accelerator="H100-SXM")


@pytest.mark.parametrize(("zone", "verdict"), [("z-a", Verdict.IMPOSSIBLE), ("z-b", Verdict.PLACED)])
def test_the_zone_of_nodes_to_be_added_counts(zone: str, verdict: Verdict) -> None:
    assert place(claim(), kind_of("std", "z-b"), grown(**{ZONE: zone})).verdict is verdict
    assert place(kind_of("std", "z-b"), grown(**{ZONE: zone}), mounts=of_pod()).verdict is verdict


BOUND_ELSEWHERE = (claim(volume="pv"), volume("pv", ZONE, "z-c", phase="Bound"))
GROWS = ("karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool",
         "kubernetes.azure.com/agentpool")  # fmt: skip


@pytest.mark.parametrize("label", GROWS)
def test_a_pool_that_may_grow_may_grow_in_the_zone_of_a_volume(label: str) -> None:
    a, plain = machine("a", "z-a", labels={label: "g"}), machine("a", "z-a")
    found = place(a, *BOUND_ELSEWHERE)
    assert (found.verdict, outcome(found)) == (Verdict.WAITING, "WAITING MAY_GROW")
    assert (
        "needs 1 more node that can mount PersistentVolumeClaim c (topology.kubernetes.io/zone In z-c), the pool has none"
        in (summary.summary(found))
    )
    assert outcome(place(plain, *BOUND_ELSEWHERE)) == NOWHERE
    assert outcome(place(a, claim(), kind_of("std", "z-c"))) == "WAITING MAY_GROW"


@pytest.mark.parametrize(("pool", "right"), [
    ({ZONE: "z-a"}, NOWHERE),
    ({GROWS[0]: "g"}, "WAITING MAY_GROW"),
])  # fmt: skip
def test_the_selector_of_a_gpupool_may_fix_the_zone(pool: dict[str, str], right: str) -> None:
    a = machine("a", "z-a", labels={GROWS[0]: "g"})
    assert outcome(place(a, gpupool("p", pool), *BOUND_ELSEWHERE)) == right


def test_no_new_node_has_the_name_that_a_volume_lists() -> None:
    a = machine("a", "z-a", labels={GROWS[0]: "g"})
    assert outcome(place(a, claim(volume="pv"), volume("pv", HOST, "b", phase="Bound"))) == NOWHERE


def test_a_gang_waits_for_as_many_nodes_as_the_zone_lacks() -> None:
    nodes = [machine(name, zone, labels={GROWS[0]: "g"}) for name, zone in (("a", "z-a"), ("b", "z-b"), ("c", "z-c"))]
    found = place(*nodes, *BOUND_ELSEWHERE, nodes=3, gpusPerNode=8)
    assert "needs 2 more nodes that can mount" in summary.summary(found)
    assert {each.reason for candidate in found.candidates for each in candidate.reasons} == {Reason.MAY_GROW}


@pytest.mark.parametrize(
    ("named", "holder", "says"),
    [
        ("theirs", {"namespace": "other", "name": "c"}, "PersistentVolume theirs is another claim's"),
        ("ghost", {}, "PersistentVolume ghost does not exist"),
    ],
)
def test_a_claim_that_names_a_volume_which_it_never_gets_starts_nothing(
    named: str, holder: dict[str, str], says: str
) -> None:
    pending = claim("local", volume=named) | {"status": {"phase": "Pending"}}
    theirs = volume("theirs", HOST, "b", phase="Bound", claimRef=holder or {"namespace": "other", "name": "c"})
    found = place(machine("a"), machine("b"), LOCAL, pending, theirs)
    assert found.verdict is Verdict.MISCONFIGURED
    message = summary.summary(found)
    assert f"is not bound, and {says}" in message
    assert HOST not in message, "what another namespace's volume requires is not said"


def test_a_claim_that_names_a_volume_which_is_kept_for_it_goes_to_its_node() -> None:
    pending = claim("local", volume="mine") | {"status": {"phase": "Pending"}}
    mine = volume("mine", HOST, "b", claimRef={"namespace": "default", "name": "c"})
    found = place(machine("a"), machine("b"), LOCAL, pending, mine)
    assert found.choice is not None
    assert found.choice.nodes == ("b",)


def test_a_local_disk_is_held_against_its_own_node_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node of a large cluster has several: every disk against every node took 11 s of 5,000."""
    seen: list[str] = []
    allows = Tie.allows

    def counted(tie: Tie, node: Node) -> bool:
        seen.append(node.name)
        return allows(tie, node)

    monkeypatch.setattr(Tie, "allows", counted)
    names = [f"n{number:02d}" for number in range(40)]
    disks = [volume(f"disk-{name}-{each}", HOST, name) for name in names for each in range(3)]
    found = place(*map(machine, names), LOCAL, claim("local"), *disks)
    assert found.verdict is Verdict.PLACED
    assert len(seen) == len(names)


def test_no_node_of_another_region_comes_to_a_pool() -> None:
    elsewhere = volume("v", "topology.kubernetes.io/region", "eu-1", storageClassName="std", phase="Bound")
    bound = claim("std", volume="v")
    here = {"topology.kubernetes.io/region": "us-1", "karpenter.sh/nodepool": "g"}
    assert place(machine("a", labels=here), kind_of(), bound, elsewhere).verdict is Verdict.IMPOSSIBLE
    there = here | {"topology.kubernetes.io/region": "eu-1", ZONE: "eu-1a"}
    other_zone = volume("v", ZONE, "eu-1b", storageClassName="std", phase="Bound")
    assert place(machine("a", labels=there), kind_of(), bound, other_zone).verdict is Verdict.WAITING
