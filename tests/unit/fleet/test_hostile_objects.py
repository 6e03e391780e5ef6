"""Nodes and pods as somebody might write them: nothing raises, what cannot be read is left out and said."""

from __future__ import annotations

from typing import Any

import pytest
from builders import H100, node, pod
from hypothesis import given
from hypothesis import strategies as st

from gpujob.fleet.objects import Resources, read_node, read_pod, vendor_of
from gpujob.vocabulary import Vendor

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
        ({"nvidia.com/gpu": [8]}, "nvidia.com/gpu: '?' is not a quantity"),
        ({"nvidia.com/gpu": "1e30"}, "nvidia.com/gpu: more than 10000 devices on one node are not believed"),
        ({"memory": "lots"}, "memory: 'lots' is not a quantity"),
    ],
)
def test_a_figure_that_cannot_be_read_is_left_out_and_said(amounts: dict[str, Any], said: str) -> None:
    found = read_node({"metadata": {"name": "n"}, "status": {"allocatable": amounts}})
    assert found.devices == {}
    assert found.allocatable.memory == 0
    assert found.unread[0].startswith(said)


def test_a_label_that_is_no_text_is_left_out_and_said() -> None:
    found = read_node({"metadata": {"name": "n", "labels": {"nvidia.com/gpu.count": 8, "a": "b"}}})
    assert (found.labels, found.unread) == ({"a": "b"}, ("label nvidia.com/gpu.count is no text",))


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
