"""Where a job fits on a pool, what its pods get, and why it fits never or not now."""

from __future__ import annotations

from typing import Any

import pytest
from builders import A100, H100, L4, MI210, MI300X, Object, demand, fleet, node, pod

from gpujob.fleet.kubernetes.objects import Resources
from gpujob.placement.capacity.node_fit import NodeFit, find_room
from gpujob.placement.capacity.pod_resources import node_needs, shared_memory
from gpujob.values.quantity import GI

GPU = "nvidia.com/gpu"


def room(*objects: Object, image: int | None = None, **spec: Any) -> NodeFit:
    """Where a job fits on the only pool of some objects."""
    found = fleet(*objects)
    assert len(found.pools) == 1
    return find_room(demand(**spec), found.pools[0], image)


def said(found: NodeFit) -> list[str]:
    return [f"{finding.reason}: {finding.message}" for finding in (*found.never, *found.busy)]


def chosen(found: NodeFit) -> list[str]:
    return [one.name for one in found.nodes]


def test_a_pod_gets_its_gpus_share_of_the_node_less_a_tenth() -> None:
    found = room(node("n", A100), gpusPerNode=2)
    assert found.needs == Resources(28_000, 230 * GI, 20 * GI, 1)


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        ({"gpusPerNode": 8}, Resources(115_000, 921 * GI, 20 * GI, 1)),
        ({"gpusPerNode": 1}, Resources(14_000, 115 * GI, 20 * GI, 1)),
        ({"resources": {"cpu": "3", "memory": "10Gi"}}, Resources(3_000, 10 * GI, 20 * GI, 1)),
        ({"resources": {"ephemeralStorage": "50Gi"}}, Resources(14_000, 115 * GI, 50 * GI, 1)),
    ],
)
def test_what_the_job_asks_wins_over_the_share(spec: Object, needs: Resources) -> None:
    assert room(node("n", A100), **spec).needs == needs


def test_the_share_is_cut_from_what_daemons_leave() -> None:
    daemon = pod("daemon", "n", cpu="16", memory="224Gi")
    assert room(node("n", A100), daemon, gpusPerNode=2).needs == Resources(25_000, 180 * GI, 20 * GI, 1)


def test_a_greedy_neighbour_shrinks_the_share_so_that_free_gpus_are_not_stranded() -> None:
    greedy = pod("greedy", "n", {GPU: 2}, memory="900Gi")
    found = room(node("n", A100), greedy)
    assert chosen(found) == ["n"]
    assert found.needs.memory == max(124 * GI // 6 // GI, 115 // 4) * GI


def test_a_neighbour_that_leaves_less_than_a_quarter_of_the_share_keeps_others_out() -> None:
    greedy = pod("greedy", "n", {GPU: 2}, memory="1000Gi")
    assert said(room(node("n", A100), greedy)) == [
        "NotEnoughFree: GPUs are free on node n, which has too little left beside them: 24Gi memory of 28Gi needed"
    ]


@pytest.mark.parametrize(
    ("taken", "asked", "lacking"),
    [
        ({"cpu": "2"}, {"cpu": 127}, "126 CPU of 127 needed"),
        ({"ephemeral-storage": "10Gi"}, {"ephemeralStorage": "999Gi"}, "990Gi ephemeral-storage of 999Gi needed"),
        (
            {"cpu": "2", "memory": "24Gi", "ephemeral-storage": "10Gi"},
            {"cpu": 127, "memory": "1001Gi", "ephemeralStorage": "999Gi"},
            "126 CPU of 127 needed, 1000Gi memory of 1001Gi needed and 990Gi ephemeral-storage of 999Gi needed",
        ),
    ],
)
def test_what_is_lacking_beside_free_devices_is_named(taken: Object, asked: Object, lacking: str) -> None:
    found = room(node("n", A100), pod("daemon", "n", **taken), resources=asked)
    assert said(found) == [f"NotEnoughFree: GPUs are free on node n, which has too little left beside them: {lacking}"]


def test_a_node_full_of_pods_is_told_so() -> None:
    found = room(node("n", A100, allocatable={"pods": "1"}), pod("daemon", "n"))
    assert said(found) == [
        "NotEnoughFree: GPUs are free on node n, which has too little left beside them: 0 more pods of 1 needed"
    ]


def test_a_gang_gets_the_smallest_of_its_nodes_shares() -> None:
    small = node("b", A100, capacity={"memory": "512Gi"}, allocatable={"memory": "512Gi"})
    found = room(node("a", A100), small, nodes=2, gpusPerNode=8)
    assert found.needs.memory == 460 * GI


def test_devices_of_two_vendors_share_the_node() -> None:
    both = node("n", H100, 4, labels=MI210.labels(4, ""), devices={"amd.com/gpu": "4", GPU: "4"})
    for pool in fleet(both).pools:
        assert find_room(demand(gpusPerNode=4), pool, None).needs.memory == 460 * GI


def test_a_node_that_reports_no_disk_gives_none() -> None:
    bare = node("n", A100)
    for part in ("allocatable", "capacity"):
        del bare["status"][part]["ephemeral-storage"]
    assert room(bare).needs.storage is None


@pytest.mark.parametrize(
    ("memory", "asked", "given"),
    [
        ("64Gi", None, 16 * GI),
        ("2Gi", None, GI),
        ("512Mi", None, GI // 2),
        ("1000Gi", None, 64 * GI),
        ("64Gi", "3Gi", 3 * GI),
    ],
)
def test_shared_memory_is_a_quarter_within_bounds(memory: str, asked: str | None, given: int) -> None:
    resources = {"memory": memory} | ({"sharedMemory": asked} if asked else {})
    wish = demand(resources=resources)
    needs = node_needs(wish, fleet(node("n", A100)).pools[0].nodes[0])
    assert shared_memory(wish, needs) == given


def test_the_node_that_the_job_leaves_fullest_is_taken_ties_by_name() -> None:
    nodes = [node(name, A100) for name in "cba"]
    assert chosen(room(*nodes)) == ["a"]
    assert chosen(room(*nodes, pod("p", "c", {GPU: 4}), pod("q", "b", {GPU: 6}), gpusPerNode=2)) == ["b"]
    assert chosen(room(*nodes, pod("p", "c", {GPU: 4}), pod("q", "b", {GPU: 7}), gpusPerNode=2)) == ["c"]
    assert chosen(room(*nodes, pod("p", "c", {GPU: 4}), nodes=2, gpusPerNode=4)) == ["a", "c"]


def test_nodes_with_a_taint_that_prefers_others_come_last() -> None:
    preferred = node("b", A100)
    discouraged = node("a", A100, taints=["x=y:PreferNoSchedule"])
    found = fleet(discouraged, preferred)
    assert len(found.whole_pools) == 2


@pytest.mark.parametrize(
    ("objects", "spec", "sentences"),
    [
        (
            [node("n", L4, 4)],
            {"gpusPerNode": 8},
            ["PoolTooSmall: needs 8 GPUs on one node, the largest node has 4"],
        ),
        (
            [node("n", L4, 4)],
            {"nodes": 3},
            ["PoolTooSmall: needs 3 nodes with 1 GPU each, the pool has 1 node"],
        ),
        (
            [node("n", L4, 4), node("m", L4, 2)],
            {"nodes": 2, "gpusPerNode": 4},
            ["PoolTooSmall: needs 2 nodes with 4 GPUs each, 1 of the pool's 2 nodes have that many"],
        ),
        (
            [node("n", L4, 4, taints=["team=x:NoSchedule"])],
            {},
            [
                "TaintNotTolerated: its node has taint team=x:NoSchedule; tolerate it in a GPUPool "
                "(spec.tolerations) or remove it"
            ],
        ),
        (
            [node("n", L4, 4)],
            {"resources": {"memory": "2000Gi"}},
            ["NodeTooSmall: needs 2000Gi memory on one node, the largest node has 1024Gi"],
        ),
        (
            [node("n", L4, 4)],
            {"resources": {"cpu": "200"}},
            ["NodeTooSmall: needs 200 CPU on one node, the largest node has 128"],
        ),
        (
            [node("n", L4, 4)],
            {"resources": {"ephemeralStorage": "2000Gi"}},
            ["NodeTooSmall: needs 2000Gi ephemeral-storage on one node, the largest node has 1000Gi"],
        ),
        (
            [node("n", L4, 4), pod("p", "n", {GPU: 3})],
            {"gpusPerNode": 2},
            ["NotEnoughFree: needs 2 free GPUs on one node, 1 of 4 are free"],
        ),
        (
            [node("n", L4, 4), node("m", L4, 4), pod("p", "n", {GPU: 3}), pod("q", "m", {GPU: 2})],
            {"gpusPerNode": 3},
            ["Fragmented: needs 3 free GPUs on one node: 3 are free over 2 nodes, at most 2 on one"],
        ),
        (
            [node("n", L4, 4), node("m", L4, 4), pod("p", "n", {GPU: 3})],
            {"nodes": 2, "gpusPerNode": 2},
            [
                "Fragmented: needs 2 free GPUs on each of 2 nodes: 5 are free over 2 nodes, at most 4 on one; 1 node has room"
            ],
        ),
        (
            [node("n", L4, 4), node("m", L4, 4, cordoned=True)],
            {"nodes": 2, "gpusPerNode": 4},
            [
                "NotEnoughFree: needs 4 free GPUs on each of 2 nodes, 4 of 8 are free, 4 cannot be used (node m is cordoned); "
                "1 node has room",
                "Cordoned: node m is cordoned",
            ],
        ),
        (
            # Only what no pod holds counts.
            [node("n", L4, 4), node("m", L4, 4, ready=False), pod("p", "m", {GPU: 3})],
            {"nodes": 2, "gpusPerNode": 4},
            [
                "NotEnoughFree: needs 4 free GPUs on each of 2 nodes, 4 of 8 are free, 1 cannot be used "
                "(node m is not Ready); 1 node has room",
                "NotReady: node m is not Ready",
            ],
        ),
        (
            [node("n", L4, 4), *(node(name, L4, 4, cordoned=True) for name in "mopq")],
            {"nodes": 2, "gpusPerNode": 4},
            [
                "NotEnoughFree: needs 4 free GPUs on each of 2 nodes, 4 of 20 are free, 16 cannot be used "
                "(node m is cordoned, node o is cordoned and 2 more nodes); 1 node has room",
                "Cordoned: node m is cordoned",
            ],
        ),
        (
            [node("n", L4, 4), node("m", L4, 4, cordoned=True), pod("p", "n", {GPU: 2}), pod("q", "m", {GPU: 4})],
            {"gpusPerNode": 4},
            [
                "NotEnoughFree: needs 4 free GPUs on one node, 2 of 8 are free",
                "Cordoned: node m is cordoned",
            ],
        ),
        (
            [
                *(node(name, L4, 4) for name in "no"),
                *(pod(f"p-{name}", name, {GPU: 2}) for name in "no"),
                node("m", L4, 4, cordoned=True),
            ],
            {"gpusPerNode": 4},
            [
                "Fragmented: needs 4 free GPUs on one node: 4 are free over 2 nodes, at most 2 on one, 4 cannot be used "
                "(node m is cordoned)",
                "Cordoned: node m is cordoned",
            ],
        ),
        (
            [node("n", L4, 4, ready=False), node("m", L4, 4, cordoned=True), node("o", L4, 4, cordoned=True)],
            {},
            ["Cordoned: node m is cordoned", "Cordoned: node o is cordoned", "NotReady: node n is not Ready"],
        ),
        (
            [*(node(name, L4, 4, cordoned=True) for name in "abcde"), node("n", L4, 4, ready=False)],
            {"nodes": 2},
            [
                "Cordoned: node a is cordoned",
                "Cordoned: node b is cordoned",
                "Cordoned: 3 more nodes cannot be used either",
                "NotReady: node n is not Ready",
            ],
        ),
        (
            [
                node("h1", L4, 4, cordoned=True),
                node("h2", L4, 4, ready=False),
                node("h3", L4, 4, taints=["sagemaker.amazonaws.com/node-health-status=Unschedulable:NoSchedule"]),
            ],
            {"nodes": 3},
            [
                "Cordoned: node h1 is cordoned",
                "NotReady: node h2 is not Ready",
                "NotReady: node h3 has taint sagemaker.amazonaws.com/node-health-status=Unschedulable:NoSchedule",
            ],
        ),
        (
            [node("n", L4, 4, allocatable={GPU: "0"})],
            {},
            ["NoAllocatable: node n shows 0 of 4 devices as allocatable"],
        ),
        (
            [node("n", L4, 4, allocatable={GPU: "3"})],
            {"gpusPerNode": 4},
            ["NotEnoughFree: needs 4 free GPUs on one node, 3 of 4 are free, 1 cannot be used (node n offers 3 of 4)"],
        ),
    ],
)
def test_why_not_in_words(objects: list[Object], spec: Object, sentences: list[str]) -> None:
    assert said(room(*objects, **spec)) == sentences


def test_room_for_the_image_is_two_and_a_half_times_its_size() -> None:
    small = node("n", MI300X, capacity={"ephemeral-storage": "60Gi"}, allocatable={"ephemeral-storage": "60Gi"})
    assert said(room(small, image=25 * GI)) == [
        "DiskTooSmall: needs 82.5Gi of disk for image and job, the largest node has 60Gi"
    ]
    large, gang = node("m", MI300X), {"nodes": 2, "gpusPerNode": 8}
    assert said(room(small, large, image=25 * GI, **gang)) == [
        "DiskTooSmall: needs 82.5Gi of disk for image and job, 1 of 2 nodes have that"
    ]
    assert chosen(room(small, image=16 * GI)) == ["n"]
    assert chosen(room(small)) == ["n"]


def test_a_pod_slot_is_needed_too() -> None:
    full = node("n", L4, 4, allocatable={"pods": "1"})
    assert chosen(room(full)) == ["n"]
    assert room(full, pod("p", "n")).busy
