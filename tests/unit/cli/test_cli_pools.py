"""`pools` shows what is free and what it costs, and says what is wrong with a pool and how to fix it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import H100, Object, node
from cli_room import CATALOG, MIXED, ROOT, Command, check_golden, manifest

from gpujob.status.attempts.waits import write_time

POOL = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool"}

ADMIN = """
---
apiVersion: gpujob.dev/v1alpha1
kind: GPUPool
metadata: {name: training, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {nodeSelector: {matchLabels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}, price: {perGPUHour: "1.50"}}
---
apiVersion: gpujob.dev/v1alpha1
kind: GPUPool
metadata: {name: late, creationTimestamp: "2026-02-01T00:00:00Z"}
spec: {nodeSelector: {matchLabels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}}
"""


def test_the_table_is_what_it_was(gpujob: Command) -> None:
    check_golden("pools.txt", gpujob("pools", "--cluster", MIXED, "--catalog", CATALOG).out)


@pytest.mark.parametrize(
    ("annotations", "labels", "facts"),
    [
        ({"gpujob.dev/price-per-gpu-hour": "7"}, {}, "price"),
        ({}, {"nvidia.com/cuda.driver-version.full": "570.86.15", "nvidia.com/cuda.driver.major": None,
              "nvidia.com/cuda.driver-version.major": None}, "driver"),
        ({}, {"nvidia.com/gpu.memory": "70000"}, "memory"),
        ({"gpujob.dev/price-per-gpu-hour": "7"}, {"nvidia.com/gpu.memory": "70000"}, "price and memory"),
    ],
)  # fmt: skip
def test_pools_whose_names_differ_in_the_hash_alone_say_in_what_they_differ(
    gpujob: Command, annotations: dict[str, str], labels: dict[str, str | None], facts: str
) -> None:
    one, other = node("a", H100), node("b", H100, labels=labels)
    other["metadata"]["annotations"] = annotations
    answer = gpujob("pools", "--cluster", "-", stdin=yaml.safe_dump_all([one, other]))
    notes = [line.split(" (and")[0] for line in answer.out.splitlines() if line.startswith("Note on ")]
    first, second = (line.removeprefix("Note on ").split(": ")[0] for line in notes)
    assert notes == [
        f"Note on {first}: like {second}, but for {facts}",
        f"Note on {second}: like {first}, but for {facts}",
    ]


def test_pools_of_one_name_with_unlike_resources_say_so(gpujob: Command) -> None:
    slices = "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    single = {"nvidia.com/gpu.product": slices, "nvidia.com/mig.strategy": "single", "nvidia.com/gpu.memory": "9728"}
    mixed = {
        f"nvidia.com/mig-1g.10gb.{fact}": text
        for fact, text in (("product", slices), ("memory", "9728"), ("count", "7"))
    }
    one = node("a", H100, labels=single, devices={"nvidia.com/gpu": "7"})
    other = node(
        "b", H100, labels={"nvidia.com/mig.strategy": "mixed", **mixed}, devices={"nvidia.com/mig-1g.10gb": "7"}
    )
    answer = gpujob("pools", "--cluster", "-", stdin=yaml.safe_dump_all([one, other]))
    notes = [line.partition(": ")[2] for line in answer.out.splitlines() if line.startswith("Note on ")]
    assert sorted(note.partition("but for the resource: ")[2].split(" (")[0] for note in notes) == [
        "nvidia.com/gpu", "nvidia.com/mig-1g.10gb",
    ]  # fmt: skip


def test_what_keeps_jobs_off_a_pool_is_its_first_note(gpujob: Command) -> None:
    tainted, cordoned = node("a", H100, taints=["team=vision:NoSchedule"]), node("c", H100, cordoned=True)
    answer = gpujob("pools", "--cluster", "-", stdin=yaml.safe_dump_all([tainted, cordoned]))
    notes = [line.partition(": ")[2] for line in answer.out.splitlines() if line.startswith("Note on ")]
    assert sorted(note.partition(" (")[0] for note in notes) == [
        "its node has taint team=vision:NoSchedule; tolerate it in a GPUPool", "node c is cordoned",
    ]  # fmt: skip


def test_a_cluster_without_gpus_is_told(gpujob: Command) -> None:
    answer = gpujob("pools", "--cluster", "-", stdin="kind: Node\nmetadata: {name: n}")
    assert (answer.code, answer.err) == (
        0,
        "no pools: none of 1 nodes has GPUs or labels of GPUs; kubectl gpujob doctor says what they lack\n",
    )


@pytest.mark.parametrize(
    ("resource", "count"),
    [
        ("nvidia.com/GP102GL_TESLA_P40", "2"),
        ("nvidia.com/NVIDIA_A40-8Q", "4"),
        ("nvidia.com/pgpu", "8"),
        ("amd.com/gpu_vf", "8"),
    ],
)
def test_a_cluster_whose_gpus_are_for_virtual_machines_is_told(
    gpujob: Command, plan: Command, tmp_path: Path, resource: str, count: str
) -> None:
    bare = {"kind": "Node", "metadata": {"name": "bare"}}
    nodes = [
        {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {resource: count}}} for name in "vw"
    ]
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [bare, nodes[0]]}))
    two.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": nodes}))
    told = f"no pools: node v: its GPUs are for virtual machines ({resource}){{}}; pods get none of them\n"
    assert gpujob("pools", "--cluster", one).err == told.format("")
    assert gpujob("pools", "--cluster", two).err == told.format(", and so on 1 more node")
    assert told.format("") in plan(manifest(command=["x"]), cluster=one).err


@pytest.mark.parametrize("driver", ["gpu.nvidia.com", "gpu.amd.com"])
@pytest.mark.parametrize(
    ("spec", "device", "several"),
    [
        ({"allNodes": True}, {}, "allNodes"),
        ({"nodeSelector": {"nodeSelectorTerms": []}}, {}, "nodeSelector"),
        ({"perDeviceNodeSelection": True}, {"allNodes": True}, "allNodes"),
        ({"perDeviceNodeSelection": True}, {"nodeSelector": {"nodeSelectorTerms": []}}, "nodeSelector"),
        ({"perDeviceNodeSelection": True}, {"basic": {"allNodes": True}}, "allNodes"),
    ],
)
def test_devices_that_several_nodes_share_are_told(
    gpujob: Command, tmp_path: Path, driver: str, spec: Any, device: Any, several: str
) -> None:
    devices = [{"name": f"gpu-{number}", **device} for number in range(2)]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    found = {"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "s"},
             "spec": {"driver": driver, "pool": pool, "devices": devices, **spec}}  # fmt: skip
    other = {**found, "metadata": {"name": "net"}, "spec": {**found["spec"], "driver": "dra.net"}}
    path = tmp_path / "c.json"
    node = {"kind": "Node", "metadata": {"name": "n"}}
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [node, found, other]}))
    assert gpujob("pools", "--cluster", path).err == (
        f"not read: ResourceSlice s: 2 of its 2 devices are for several nodes ({several}), which is not read; "
        "nothing is placed on them\nno pools: none of 1 nodes has GPUs or labels of GPUs; kubectl gpujob doctor says what they lack\n"
    )


def test_json_and_yaml_say_the_same(gpujob: Command) -> None:
    arguments = ("pools", "--cluster", MIXED, "--catalog", CATALOG, "-o")
    found = json.loads(gpujob(*arguments, "json").out)
    assert yaml.safe_load(gpujob(*arguments, "yaml").out) == found
    h100 = next(pool for pool in found if pool["accelerator"] == "H100-SXM")
    assert h100["gpus"] == {"free": 12, "total": 16}
    assert h100["pricePerGPUHour"] == "7.00"
    t4 = next(pool for pool in found if pool["instanceType"] == "g4dn.12xlarge")
    assert t4["notReady"] == [{"node": "t4-0", "reason": "Cordoned", "message": "node t4-0 is cordoned"}]


def test_an_admins_pool_claims_its_nodes_and_the_younger_is_told(gpujob: Command, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(MIXED.read_text() + ADMIN)
    found = {pool["pool"]: pool for pool in json.loads(gpujob("pools", "--cluster", path, "-o", "json").out)}
    assert found["training"]["pricePerGPUHour"] == "1.50"
    assert not found["training"]["discovered"]
    assert found["late"]["overlap"] == {"olderPool": "training", "node": "h100-0"}
    assert "belongs to the older GPUPool training" in gpujob("pools", "--cluster", path).out


def test_devices_of_which_a_card_is_several_are_counted_as_cards_too(gpujob: Command) -> None:
    case = ROOT / "tests" / "cases" / "an-mi250x-card-is-two-devices"
    assert gpujob("pools", "--cluster", case / "cluster.yaml").out.splitlines()[-1] == "Note on f: 8 devices (4 cards)"
    plan = gpujob("plan", "-f", case / "job.yaml", "--cluster", case / "cluster.yaml").out
    assert "Cards: pool f has 8 devices (4 cards)" in plan


@pytest.mark.parametrize(
    ("name", "spec", "vendor"),
    [
        ("empty", {}, "unknown"),
        ("mi300x-burst", {"provision": {"maxNodes": 2}}, "unknown"),
        ("amd-by-resource", {"resourceName": "amd.com/gpu"}, "AMD"),
        (
            "amd-by-label",
            {"nodeSelector": {"matchLabels": {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}}},
            "AMD",
        ),
        (
            "amd-by-machine",
            {"nodeSelector": {"matchLabels": {"node.kubernetes.io/instance-type": "Standard_ND96isr_MI300X_v5"}}},
            "AMD",
        ),
        ("nvidia-by-label", {"nodeSelector": {"matchLabels": {"nvidia.com/gpu.product": "NVIDIA-L4"}}}, "NVIDIA"),
        ("amd-by-accelerator", {"accelerator": "MI300X"}, "AMD"),
    ],
)
def test_the_vendor_of_a_pool_without_nodes_is_said_or_unknown(
    gpujob: Command, tmp_path: Path, name: str, spec: dict[str, Any], vendor: str
) -> None:
    path = tmp_path / "cluster.yaml"
    selector = {"nodeSelector": {"matchLabels": {"pool": "x"}}}
    path.write_text(json.dumps({**POOL, "metadata": {"name": name}, "spec": {**selector, **spec}}))
    row = gpujob("pools", "--cluster", path).out.splitlines()[1]
    assert row.split()[:2] == [name, vendor]
    assert json.loads(gpujob("pools", "--cluster", path, "-o", "json").out)[0]["vendor"] == vendor


def test_the_table_fits_120_columns_whatever_the_pools_are_called(gpujob: Command, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    long = "a-pool-of-the-platform-team-for-very-long-training-runs-eu-west-1"
    nodes = MIXED.read_text().replace("NVIDIA-L4", "NVIDIA-L4-of-a-board-with-a-name-that-no-catalog-row-has")
    pool = ADMIN.replace("training", long)
    path.write_text(nodes + pool)
    lines = gpujob("pools", "--cluster", path).out.split("\n\n")[0].splitlines()
    assert max(map(len, lines)) <= 120
    assert "".join(line.split()[0] for line in lines if line.startswith("a-pool") or len(line.split()) == 1) == long
    notes = gpujob("pools", "--cluster", path).out.split("\n\n")[1].splitlines()
    assert all(line.startswith("Note on ") for line in notes)
    wide = gpujob("pools", "--cluster", path, "-o", "wide").out
    assert "PRICE FROM" in wide
    assert long in wide


def created(minutes_ago: int, found: Object) -> Object:
    found["metadata"]["creationTimestamp"] = write_time(datetime.now(UTC) - timedelta(minutes=minutes_ago))
    return found


@pytest.mark.parametrize(
    ("aged", "notes", "problem"),
    [
        # A node of a minute ago, by the words of a plan.
        ([(1, node("h", H100, devices={}))], ["node h came at", "they are waited for until"], None),
        ([(1, node("h", H100, allocatable={"nvidia.com/gpu": "0"}))], ["node h came at"], None),
        ([(1, node("h", H100, devices={})), (2, node("i", H100, devices={}))], ["node h came at"], None),
        # One whose time is over, alone and beside a new one.
        ([(60, node("h", H100, devices={}))], ["no device plugin offers nvidia.com/gpu"], "NoDevicePlugin"),
        ([(60, node("h", H100, devices={})), (1, node("i", H100, devices={}))],
         ["no device plugin offers nvidia.com/gpu"], "NoDevicePlugin"),
    ],
)  # fmt: skip
def test_a_new_node_without_devices_is_waited_for_as_in_a_plan(
    gpujob: Command, aged: list[tuple[int, Object]], notes: list[str], problem: str | None
) -> None:
    stdin = yaml.safe_dump_all([created(minutes, each) for minutes, each in aged])
    shown = gpujob("pools", "--cluster", "-", "-o", "wide", stdin=stdin).out
    assert all(note in " ".join(shown.split()) for note in notes), shown
    (pool,) = json.loads(gpujob("pools", "--cluster", "-", "-o", "json", stdin=stdin).out)
    assert (pool["problem"] and pool["problem"]["reason"]) == problem
    assert problem or {each["reason"] for each in pool["notReady"]} == {"WaitingForDevices"}


def test_a_pool_of_a_node_without_a_device_plugin_says_so_once(gpujob: Command) -> None:
    """It joins with the others in a gang, and differs from them in nothing that labels say."""
    nodes = [
        node("a", H100),
        node("b", H100, devices={}),
        node("c", H100, labels={"nvidia.com/mig.config.state": "pending"}),
    ]
    answer = gpujob("pools", "--cluster", "-", "-o", "wide", stdin=yaml.safe_dump_all(nodes))
    assert answer.code == 0
    assert answer.out.count("labels of node b show NVIDIA devices but no device plugin offers nvidia.com/gpu") == 1
    assert answer.out.count("node c: nvidia.com/mig.config.state is pending") == 1
    assert "but for what their nodes offer now" in answer.out
