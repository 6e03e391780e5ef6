"""Nodes and pods as any user might write them: nothing raises, what cannot be read is left out and said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from builders import (
    ANY_IMAGES,
    H100,
    Object,
    device_class,
    fleet,
    gpupool,
    node,
    pod,
    resource_claim,
    resource_slice,
    runtime_class,
    taint_rule,
)
from hypothesis import given
from hypothesis import strategies as st

from gpujob.fleet.kubernetes.objects import Resources, vendor_of
from gpujob.fleet.kubernetes.parse import read_node, read_pod
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.values.vocabulary import Reason, Vendor

GIB = 1024**3
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
parts = st.fixed_dictionaries({}, optional={"metadata": junk, "spec": junk, "status": junk})


@given(raw=parts)
def test_any_document_is_read(raw: dict[str, Any]) -> None:
    read_node(raw)
    read_pod(raw)


@given(member=st.sampled_from(["labels", "annotations", "name", "uid", "deletionTimestamp"]), value=junk)
def test_any_metadata_is_read(member: str, value: Any) -> None:
    read_node({"metadata": {"name": "n", member: value}})
    read_pod({"metadata": {"name": "n", member: value}})


@given(value=junk)
@pytest.mark.parametrize("member", ["allocatable", "capacity", "conditions", "phase"])
def test_any_status_is_read(member: str, value: Any) -> None:
    read_node({"metadata": {"name": "n"}, "status": {member: value}})
    read_pod({"metadata": {"name": "n"}, "status": {member: value}})


@pytest.mark.parametrize(
    ("amounts", "said"),
    [
        ({"nvidia.com/gpu": "many"}, "nvidia.com/gpu: 'many' is not a quantity"),
        ({"nvidia.com/gpu": "-1"}, "nvidia.com/gpu: '-1' is not a whole number of at least 0"),
        ({"nvidia.com/gpu": "1.5"}, "nvidia.com/gpu: '1.5' is not a whole number of at least 0"),
        ({"nvidia.com/gpu": True}, "nvidia.com/gpu: True is not a quantity"),
        ({"nvidia.com/gpu": [8]}, "nvidia.com/gpu: '[8]' is not a quantity"),
        ({"nvidia.com/gpu": 1.5}, "nvidia.com/gpu: '1.5' is not a whole number of at least 0"),
        ({"nvidia.com/gpu": "1e30"}, "nvidia.com/gpu: more than 100000 devices on one node are not believed"),
        ({"memory": "lots"}, "memory: 'lots' is not a quantity"),
    ],
)
def test_a_figure_that_cannot_be_read_is_left_out_and_said(amounts: dict[str, Any], said: str) -> None:
    found = read_node({"metadata": {"name": "n"}, "status": {"allocatable": amounts}})
    assert not any(found.devices.values())
    assert found.allocatable.memory == 0
    assert found.unread[0].startswith(said)


def test_a_label_that_is_no_text_is_left_out_and_said() -> None:
    found = read_node({"metadata": {"name": "n", "labels": {"nvidia.com/gpu.product": ["H100"], "c": 535.1, "a": "b"}}})
    assert found.labels == {"a": "b"}
    assert found.unread == (
        "label nvidia.com/gpu.product is no text; put it in quotes",
        "label c is no text; put it in quotes",
    )


def test_whole_numbers_and_truths_without_quotes_are_what_they_look_like() -> None:
    labels = {"nvidia.com/gpu.count": 8, "nvidia.com/gpu.present": True}
    found = read_node({"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": 8.0}}})
    assert found.labels == {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.present": "true"}
    assert (found.devices, found.unread) == ({"nvidia.com/gpu": 8}, ())


@pytest.mark.parametrize(
    ("written", "read", "told"),
    [
        (2.1, "2.1", ()),
        (2, "2", ()),
        ("2.10", "2.10", ()),
        (None, None, ()),
        ([2], None, ("annotation gpujob.dev/price-per-gpu-hour is no text; put it in quotes",)),
        (True, None, ("annotation gpujob.dev/price-per-gpu-hour is no text; put it in quotes",)),
    ],
)
def test_a_price_without_quotes_is_a_price(written: Any, read: str | None, told: tuple[str, ...]) -> None:
    annotations = {"gpujob.dev/price-per-gpu-hour": written}
    found = read_node({"metadata": {"name": "n", "annotations": annotations}})
    assert (found.price, found.unread) == (read, told)


UNSURE = ("spec.unschedulable is neither true nor false; the node is taken as cordoned",)


@pytest.mark.parametrize(
    ("written", "cordoned", "told"),
    [
        (True, True, ()),
        ("true", True, ()),
        ("False", False, ()),
        (None, False, ()),
        (1, True, UNSURE),
        ("", True, UNSURE),
    ],
)
def test_whether_a_node_is_cordoned_is_read_or_told(written: Any, cordoned: bool, told: tuple[str, ...]) -> None:
    found = read_node({"metadata": {"name": "n"}, "spec": {"unschedulable": written}})
    assert (found.cordoned, found.unread) == (cordoned, told)


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        (None, True),
        ([], True),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": True}], True),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "Ready"}], False),
        ([{"type": "MemoryPressure", "status": "False"}], False),
    ],
)
def test_a_node_is_ready_that_says_so_or_says_nothing(conditions: Any, ready: bool) -> None:
    assert read_node({"metadata": {"name": "n"}, "status": {"conditions": conditions}}).ready is ready


@pytest.mark.parametrize("bad", [{"key": "a"}, {"effect": "NoSchedule"}, {"key": 5, "effect": "NoSchedule"}, "x", None])
def test_a_taint_that_cannot_be_read_keeps_everybody_away_and_is_told(bad: Any) -> None:
    found = read_node({"metadata": {"name": "n"}, "spec": {"taints": [bad, {"key": "b", "effect": "NoExecute"}]}})
    assert [taint.effect for taint in found.taints] == ["NoSchedule", "NoExecute"]
    assert found.unread == ("a taint has no key or no effect, and keeps every pod away",)


def test_a_pod_whose_request_cannot_be_read_is_told_once() -> None:
    wanted = {"resources": {"requests": {"nvidia.com/gpu": "eight"}, "limits": {"nvidia.com/gpu": "eight"}}}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": {"containers": [wanted, wanted]}}
    told = read_cluster([pod]).unread
    assert told == (
        "Pod a/p: nvidia.com/gpu: 'eight' is not a quantity; write a number with a unit, for example 80G or 64Gi",
    )


H100_LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
ODD: list[tuple[dict[str, str], list[str]]] = [
    *(
        ({"nvidia.com/gpu.memory": odd}, [f'label nvidia.com/gpu.memory is "{odd}"'])
        for odd in ("-5", "NaN", "9999999999", "0", "80Gi", "")
    ),
    ({"nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.count": "8"}, []),
    ({"nvidia.com/gpu.count": "-8"}, ['label nvidia.com/gpu.count is "-8"']),
    ({"nvidia.com/gpu.replicas": "two"}, ['label nvidia.com/gpu.replicas is "two"']),
    ({"cloud.google.com/gke-accelerator-count": "1e9"}, ['label cloud.google.com/gke-accelerator-count is "1e9"']),
]


@pytest.mark.parametrize(("labels", "told"), ODD, ids=str)
def test_a_figure_in_a_label_that_can_be_none_is_a_warning(labels: dict[str, str], told: list[str]) -> None:
    device = node("h", labels={**H100_LABELS, **labels}, devices={"nvidia.com/gpu": "8"})
    (pool,) = fleet(device).pools
    warnings = [found.message for found in pool.warnings if found.reason is Reason.LABEL_UNREADABLE]
    assert warnings == [f"{label}, which is no figure that can be; it is not used" for label in told]
    assert pool.problem is None


@pytest.mark.parametrize("key", ["amd.com/gpu.vram", "beta.amd.com/gpu.vram", "amd.com/gpu.vram.192G"])
def test_an_amd_figure_that_can_be_none_is_a_warning(key: str) -> None:
    device = node("m", labels={"amd.com/gpu.device-id": "74a1", key: "-1"}, devices={"amd.com/gpu": "8"})
    (pool,) = fleet(device).pools
    warnings = [found.message for found in pool.warnings if found.reason is Reason.LABEL_UNREADABLE]
    assert warnings == [f'label {key} is "-1", which is no figure that can be; it is not used']


def test_capacity_stands_for_an_allocatable_that_is_not_there() -> None:
    raw = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "8", "memory": "1Gi", "amd.com/gpu": "2"}}}
    found = read_node(raw)
    assert found.allocatable == Resources(8000, GIB, None, 110)
    assert found.devices == {"amd.com/gpu": 2}


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "Ready"}], False),
        ([], True),
        (None, True),
    ],
)
def test_ready_is_what_the_condition_says(conditions: Any, ready: bool) -> None:
    assert read_node({"status": {"conditions": conditions}}).ready is ready


def test_a_node_that_is_deleted_cordoned_or_priced() -> None:
    raw = node("n", H100, cordoned=True, price="2.10")
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = read_node(raw)
    assert (found.cordoned, found.leaving, found.price) == (True, True, "2.10")


@pytest.mark.parametrize(
    ("resource", "vendor"),
    [
        ("nvidia.com/gpu", Vendor.NVIDIA),
        ("nvidia.com/gpu.shared", Vendor.NVIDIA),
        ("nvidia.com/mig-1g.5gb", Vendor.NVIDIA),
        ("nvidia.com/gpumem", None),
        ("amd.com/gpu", Vendor.AMD),
        ("amd.com/cpx_nps4", Vendor.AMD),
        ("amd.com/nic", None),
        ("gpu.intel.com/i915", None),
        ("cpu", None),
        ("", None),
    ],
)
def test_which_resources_are_gpus(resource: str, vendor: Vendor | None) -> None:
    assert vendor_of(resource) is vendor


def container(cpu: str, gpus: int = 0, **more: Any) -> dict[str, Any]:
    requests = {"cpu": cpu} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"name": "c", "resources": {"requests": requests}, **more}


@pytest.mark.parametrize(
    ("spec", "millicores", "gpus"),
    [
        ({"containers": [container("1", 1), container("2", 1)]}, 3000, 2),
        ({"containers": [container("1", 1)], "initContainers": [container("4", 1)]}, 4000, 1),
        ({"containers": [container("1")], "initContainers": [container("2", restartPolicy="Always")]}, 3000, 0),
        (
            {
                "containers": [container("1", 1)],
                "initContainers": [container("2", 1, restartPolicy="Always"), container("3", 2)],
            },
            5000,
            3,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250, 0),
        ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}, 0, 2),
        ({"containers": "none"}, 0, 0),
        ({"containers": [None, 5, {"resources": {"requests": {"cpu": "x"}}}]}, 0, 0),
    ],
)
def test_what_a_pod_takes_is_what_the_scheduler_counts(spec: dict[str, Any], millicores: int, gpus: int) -> None:
    found = read_pod({"spec": spec})
    assert (found.needs.millicores, found.devices.get("nvidia.com/gpu", 0)) == (millicores, gpus)


@pytest.mark.parametrize(
    ("phase", "terminal"),
    [("Running", False), ("Pending", False), ("Succeeded", True), ("Failed", True), ("Unknown", False), (["x"], False)],
)
def test_terminal_pods(phase: Any, terminal: bool) -> None:
    assert read_pod(pod("p", "n", phase=phase)).terminal is terminal


def _plain(kind: str, api: str = "v1", namespace: str = "", **parts: Any) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "o", "namespace": namespace}, **parts}


IN_ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z"]}
DEVICE = {
    "name": "gpu-0",
    "memory": "80Gi",
    "type": "gpu",
    "productName": "NVIDIA H100 80GB HBM3",
    "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
    "consumesCounters": [{"counterSet": "s", "counters": {"m": {"value": "1"}}}],
}
CLUSTER = [
    node("a", H100, labels={"pool": "x"}, taints=["a=b:NoSchedule"], price="2.5"),
    node("c", labels={}),
    pod("p", "a", {"nvidia.com/gpu": 1}, cpu="1", memory="1Gi"),
    resource_slice("c", "gpu.nvidia.com", DEVICE),
    resource_claim("k", "gpu.nvidia.com", "c", "gpu-0", pod_uid="uid-of-p"),
    device_class("gpu.nvidia.com", "device.driver == 'gpu.nvidia.com'"),
    taint_rule("t", driver="gpu.nvidia.com", pool="c"),
    gpupool("x", {"pool": "x"}, tolerations=[{"key": "a", "value": "b", "effect": "NoSchedule"}], fabric={}),
    runtime_class("nvidia", "nvidia"),
    _plain("Namespace"),
    _plain("PriorityClass", "scheduling.k8s.io/v1", value=5, globalDefault=False),
    _plain(
        "ResourceQuota",
        namespace="team",
        spec={"scopes": ["NotTerminating"], "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass"}]}},
        status={"hard": {"pods": "1"}, "used": {"pods": "1"}},
    ),
    _plain("PersistentVolumeClaim", namespace="team", spec={"accessModes": ["ReadWriteOnce"], "volumeName": "o"}),
    _plain(
        "PersistentVolume",
        spec={"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [IN_ZONE]}]}}},
    ),
]


def _with(there: Any, junk: Any) -> Iterator[Any]:
    """A value with one member after the other, at any depth, written as junk."""
    if isinstance(there, (dict, list)):
        for key, value in list(there.items() if isinstance(there, dict) else enumerate(there)):
            for other in (junk, *_with(value, junk)):
                changed = there.copy()
                changed[key] = other
                yield changed


@pytest.mark.parametrize("junk", [[], {}, 1.5], ids=repr)
@pytest.mark.parametrize("index", range(len(CLUSTER)), ids=lambda index: str(CLUSTER[index]["kind"]))
def test_one_malformed_member_never_stops_the_reading(index: int, junk: Any) -> None:
    rest = [*CLUSTER[:index], *CLUSTER[index + 1 :]]
    for changed in _with(CLUSTER[index], junk):
        fleet_of(read_cluster([*rest, changed]), ANY_IMAGES)
