"""What a plan of a job that waits says: who holds what it waits for, until when, and what would start now."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import MI300X, Object, device_class, gpupool, node, resource_claim, resource_slice
from builders import pod as bound_pod
from cli_room import Command, manifest

from gpujob.cli.planning.holders import Holder
from gpujob.status.attempts.waits import write_time

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BIG = {"nodes": 2, "gpusPerNode": 8}


def running(name: str, namespace: str = "team", **progress: Any) -> Object:
    return {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUJob",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"command": ["secret"], "gpusPerNode": 4},
        "status": {"state": "Running", "progress": progress},
    }


def pod(name: str, on: str, gpus: int, job: str = "", namespace: str = "team", **more: Any) -> Object:
    found = bound_pod(name, on, {"amd.com/gpu": gpus}, **more)
    found["metadata"] |= {"namespace": namespace}
    if job:
        found["metadata"]["labels"] = {"gpujob.dev/job-uid": f"uid-{job}", "gpujob.dev/attempt": "1"}
    return found


def two_nodes(*more: Object) -> list[Object]:
    return [node("n0", MI300X, price="2"), node("n1", MI300X, price="2"), *more]


@pytest.fixture
def planned(gpujob: Command, tmp_path: Path) -> Any:
    def plan(objects: list[Object], job: str, *options: str) -> str:
        path = tmp_path / "cluster.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        return gpujob("plan", "-f", "-", "--cluster", path, *options, stdin=job).out

    return plan


def held(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("Held by:", "now:"))]


def test_a_job_with_a_progress_says_until_when_and_a_smaller_gang_starts_now(planned: Any) -> None:
    ends = write_time(datetime.now(UTC) + timedelta(hours=3, minutes=5, seconds=20))
    objects = two_nodes(running("train", percent=62, estimatedEnd=ends), pod("train-0", "n1", 4, "train"))
    assert held(planned(objects, manifest(**BIG))) == [
        f"Held by: job team/train holds 4 GPUs on n1, 62 % done, until about {ends} (in 3 h 05 min)",
        "now: nodes: 1 fits mi300x at $16.00 an hour",
        "now: gpusPerNode: 4 fits mi300x at $16.00 an hour",
    ]


def test_the_nearest_end_comes_first_and_what_says_nothing_last(planned: Any) -> None:
    soon, late = (write_time(datetime.now(UTC) + timedelta(minutes=each, seconds=5)) for each in (20, 90))
    objects = two_nodes(
        running("late", percent=10, estimatedEnd=late),
        running("soon", "other", estimatedEnd=soon),
        running("mute"),
        pod("a", "n0", 2, "late"),
        pod("b", "n1", 2, "late"),
        pod("c", "n0", 1, "soon", "other"),
        pod("d", "n1", 1, "mute"),
        pod("shell", "n1", 1),
        pod("done", "n1", 4, phase="Succeeded"),
    )
    assert held(planned(objects, manifest(**BIG)))[:4] == [
        f"Held by: job other/soon holds 1 GPU on n0, until about {soon} (in 20 min)",
        f"Held by: job team/late holds 4 GPUs on n0 and n1, 10 % done, until about {late} (in 1 h 30 min)",
        "Held by: job team/mute holds 1 GPU on n1; it does not report its end",
        "Held by: pod team/shell holds 1 GPU on n1; its end is unknown",
    ]


def test_pods_of_another_namespace_that_name_a_job_are_not_shown_as_that_job(planned: Any) -> None:
    forged = pod("squat", "n1", 4, "train", namespace="evil")
    objects = two_nodes(running("train", percent=99), forged)
    (line,) = (each for each in held(planned(objects, manifest(**BIG))) if each.startswith("Held"))
    assert line == "Held by: job evil/uid-train holds 4 GPUs on n1; it does not report its end"


def test_of_many_holders_five_are_told_and_the_others_counted(planned: Any) -> None:
    objects = two_nodes(*(pod(f"p{number}", "n0", 1) for number in range(7)))
    told = held(planned(objects, manifest(**BIG)))
    assert len([line for line in told if "Held by: pod" in line]) == 5
    assert "Held by: 2 more hold 2 GPUs" in told


def test_jobs_of_the_same_plan_are_holders_too(planned: Any) -> None:
    jobs = manifest("first", **BIG) + manifest("second", **BIG)
    assert held(planned(two_nodes(), jobs)) == ["Held by: job default/first of this plan takes 16 GPUs on n0 and n1"]


def test_json_has_both(planned: Any) -> None:
    objects = two_nodes(
        running("train", percent=62, estimatedEnd="2099-01-01T00:00:00Z"), pod("train-0", "n1", 8, "train")
    )
    found = json.loads(planned(objects, manifest(**BIG), "-o", "json"))
    assert found["heldBy"] == [
        {"kind": "GPUJob", "namespace": "team", "name": "train", "gpus": 8, "nodes": ["n1"], "percent": 62,
         "estimatedEnd": "2099-01-01T00:00:00Z"},
    ]  # fmt: skip
    assert found["startsNow"] == [
        {
            "changes": [{"field": "spec.nodes", "from": 2, "to": 1}],
            "pool": "mi300x-ondemand",
            "pricePerHour": "16.00",
        }
    ]
    placed = json.loads(planned(objects, manifest(gpusPerNode=8), "-o", "json"))
    assert (placed["heldBy"], placed["startsNow"]) == ([], [])


@pytest.mark.parametrize(
    "progress",
    [
        {"percent": "62", "estimatedEnd": 5},
        {"percent": -1},
        {"percent": 10**30, "estimatedEnd": "soon"},
        {"percent": None},
    ],
)
def test_what_a_status_says_is_not_believed_blindly(planned: Any, progress: Any) -> None:
    objects = two_nodes(running("train", **progress), pod("train-0", "n1", 8, "train"))
    (first, *_) = held(planned(objects, manifest(**BIG)))
    assert first.startswith("Held by: job team/train holds 8 GPUs on n1")
    assert first.endswith("; it does not report its end")


def test_a_job_that_nobody_lets_us_read_is_told_by_its_uid(planned: Any) -> None:
    objects = two_nodes(pod("train-0", "n1", 8, "train"))
    assert held(planned(objects, manifest(**BIG)))[0] == (
        "Held by: job team/uid-train holds 8 GPUs on n1; it does not report its end"
    )


def test_a_quota_is_held_by_the_pods_of_its_namespace(planned: Any) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    quota |= {
        "spec": {"hard": {"requests.amd.com/gpu": "8"}},
        "status": {"hard": {"requests.amd.com/gpu": "8"}, "used": {"requests.amd.com/gpu": "6"}},
    }
    objects = two_nodes(quota, pod("mine", "n0", 6, namespace="default"), pod("other", "n1", 1))
    told = held(planned(objects, manifest(gpusPerNode=4)))
    assert told[0] == "Held by: pod default/mine holds 6 GPUs on n0; its end is unknown"
    assert not any("other" in line for line in told)
    assert "now: gpusPerNode: 2 fits mi300x at $4.00 an hour" in told


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (timedelta(seconds=20), "until about 2026-03-01T12:00:20Z (in 1 min)"),
        (timedelta(minutes=59), "until about 2026-03-01T12:59:00Z (in 59 min)"),
        (timedelta(hours=47), "until about 2026-03-03T11:00:00Z (in 47 h 00 min)"),
        (timedelta(hours=49), "until about 2026-03-03T13:00:00Z (in 2 days)"),
        (-timedelta(hours=1), "and was to end at 2026-03-01T11:00:00Z"),
    ],
)
def test_an_end_is_told_with_how_far_away_it_is(after: timedelta, said: str) -> None:
    told = Holder("GPUJob", "a", "b", 8, ("n",), None, NOW + after).sentence(NOW)
    assert told == f"job a/b holds 8 GPUs on n, {said}"


def test_a_capture_keeps_how_far_running_jobs_are_and_nothing_of_what_they_run(gpujob: Command, tmp_path: Path) -> None:
    path, captured = tmp_path / "cluster.yaml", tmp_path / "captured.yaml"
    objects = two_nodes(
        running("train", percent=62, step=9, estimatedEnd="2099-01-01T00:00:00Z"), pod("train-0", "n1", 8, "train")
    )
    path.write_text(yaml.safe_dump_all(objects))
    assert gpujob("capture", "--cluster", path, "-o", captured).code == 0
    assert "secret" not in captured.read_text()
    plans = [
        gpujob("plan", "-f", "-", "--cluster", each, "-o", "json", stdin=manifest(**BIG)).out
        for each in (path, captured)
    ]
    assert json.loads(plans[0])["heldBy"] == json.loads(plans[1])["heldBy"] != []


def test_explain_says_it_too_and_leaves_the_job_s_own_pods_out(gpujob: Command, tmp_path: Path) -> None:
    waits = running("mine") | {"status": {"state": "Queued"}, "spec": BIG}
    path = tmp_path / "cluster.yaml"
    objects = two_nodes(waits, running("train"), pod("train-0", "n1", 8, "train"), pod("mine-0", "n0", 8, "mine"))
    path.write_text(yaml.safe_dump_all(objects))
    assert held(gpujob("explain", "mine", "-n", "team", "--cluster", path).out) == [
        "Held by: job team/train holds 8 GPUs on n1; it does not report its end",
        "now: nodes: 1 fits mi300x at $16.00 an hour",
    ]


def test_the_page_says_it_too(planned: Any, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    objects = two_nodes(running("train<b>", percent=62), pod("train-0", "n1", 4, "train<b>"))
    objects[-1]["metadata"]["labels"]["gpujob.dev/job-uid"] = "uid-train<b>"
    planned(objects, manifest(**BIG), "--html", str(page))
    text = page.read_text()
    assert (
        "<p><b>Held by:</b> job team/train&lt;b&gt; holds 4 GPUs on n1, 62 % done; it does not report its end</p>"
        in text
    )
    assert "<p><b>now:</b> nodes: 1 fits mi300x-ondemand at $16.00 an hour</p>" in text
    planned(two_nodes(), manifest(gpusPerNode=8), "--html", str(page))
    assert "Held by" not in page.read_text()


def test_the_sentence_of_json_and_status_names_the_first_of_them_and_the_table_has_it_once(planned: Any) -> None:
    objects = two_nodes(pod("p", "n1", 4))
    said = "; now nodes: 1 fits pool mi300x-ondemand"
    assert json.loads(planned(objects, manifest(**BIG), "-o", "json"))["message"].endswith(said)
    table = planned(objects, manifest(**BIG))
    assert said not in table
    assert table.count("nodes: 1 fits") == 1
    assert "now " not in json.loads(planned(objects, manifest(gpusPerNode=16), "-o", "json"))["message"]


DRIVER = "gpu.nvidia.com"
DRIVER_CLASS = device_class(DRIVER, f"device.driver == '{DRIVER}'")


def h100(card: int) -> Object:
    said = {"type": "gpu", "productName": "NVIDIA H100 80GB HBM3", "uuid": f"GPU-{card}"}
    return {"name": f"gpu-{card}", "memory": "81559Mi", "cudaComputeCapability": {"version": "9.0.0"}, **said}


def mig(card: int) -> Object:
    """A slice of a card that shares the card's counters, and the card itself."""
    said = {**h100(card), "name": f"gpu-{card}-mig", "type": "mig", "profile": "3g.40gb", "memory": "40448Mi"}
    return {**said, "parentUUID": said.pop("uuid")} | {"consumesCounters": _counters(card, "40Gi")}


def _counters(card: int, memory: str) -> list[Object]:
    return [{"counterSet": f"gpu-{card}", "counters": {"memory": {"value": memory}}}]


def claim(name: str, *devices: str, by: str = "", of: str = "", **more: Any) -> Object:
    """A claim of namespace team, reserved for a pod of this name, which has this uid."""
    found = resource_claim(name, DRIVER, "n0", *devices, **more)
    found["metadata"] |= {"namespace": "team"}
    if by:
        found["status"]["reservedFor"] = [{"resource": "pods", "name": by, "uid": of or f"uid-of-{by}"}]
    return found


def of_a_driver(*more: Object, sliced: bool = False) -> list[Object]:
    devices = [h100(card) for card in range(3)]
    offered = resource_slice("n0", DRIVER, *devices)
    if sliced:
        cards = [{**each, "consumesCounters": _counters(card, "80Gi")} for card, each in enumerate(devices)]
        offered = resource_slice("n0", DRIVER, *cards, *map(mig, range(3)))
        offered["spec"]["sharedCounters"] = [
            {"name": f"gpu-{card}", "counters": {"memory": {"value": "80Gi"}}} for card in range(3)
        ]
    return [node("n0", price="2"), offered, DRIVER_CLASS, *more]


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        # A pod that the description does not have.
        (of_a_driver(claim("c", "gpu-0", "gpu-1", by="trainer-0")),
         ["pod team/trainer-0 holds 2 GPUs on n0; its end is unknown"]),
        # A pod of a GPUJob that says how far it is, and one of no job.
        (of_a_driver(claim("c", "gpu-0", by="train-0"), claim("d", "gpu-1", by="shell"), running("train", percent=62),
                     pod("train-0", "n0", 0, "train"), pod("shell", "n0", 0)),
         ["pod team/shell holds 1 GPU on n0; its end is unknown",
          "job team/train holds 1 GPU on n0, 62 % done; it does not report its end"]),
        # An allocation that no pod uses.
        (of_a_driver(claim("c", "gpu-0", "gpu-2")), ["ResourceClaim team/c holds 2 GPUs on n0; no pod uses it"]),
        # A slice keeps its card from whole jobs.
        (of_a_driver(claim("c", "gpu-0-mig", by="small"), claim("d", "gpu-1-mig", by="tiny"), sliced=True),
         ["pod team/small holds 1 GPU on n0; its end is unknown", "pod team/tiny holds 1 GPU on n0; its end is unknown"]),
        # Claims on devices of another node, and without an allocation, hold nothing here.
        (of_a_driver(claim("c", "gpu-0", "gpu-1", by="trainer-0"), claim("e", by="waits"),
                     resource_claim("f", DRIVER, "n9", "gpu-0")),
         ["pod team/trainer-0 holds 2 GPUs on n0; its end is unknown"]),
    ],
)  # fmt: skip
def test_claims_say_who_holds_a_driver_s_devices(planned: Any, objects: list[Object], said: list[str]) -> None:
    told = held(planned(objects, manifest(gpusPerNode=2)))
    assert [line for line in told if line.startswith("Held by:")] == [f"Held by: {each}" for each in said]


def test_a_claim_for_the_name_of_a_resource_is_counted_with_its_pod(planned: Any) -> None:
    by_name = device_class(DRIVER, f"device.driver == '{DRIVER}'", "nvidia.com/gpu")
    user = bound_pod("user", "n0", {"nvidia.com/gpu": 2})
    user["metadata"] |= {"namespace": "team"}
    own = claim("c", "gpu-0", "gpu-1", by="user", extended=True)
    objects = [each for each in of_a_driver(user, own) if each is not DRIVER_CLASS]
    assert held(planned([*objects, by_name], manifest(gpusPerNode=2)))[0] == (
        "Held by: pod team/user holds 2 GPUs on n0; its end is unknown"
    )


def test_a_pod_with_the_host_s_device_files_holds_the_devices_of_its_node(planned: Any) -> None:
    bare = node("n0", labels={"rack": "lab"}, price="2")
    lab = gpupool("lab", {"rack": "lab"}, accelerator="MI300X", deviceMode="HostDevices", gpusPerNode=8)
    user = bound_pod("user", "n0")
    user["spec"]["volumes"] = [{"name": "kfd", "hostPath": {"path": "/dev/kfd"}}]
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    told = planned([bare, lab, user, space], manifest(gpusPerNode=8))
    assert held(told) == ["Held by: pod default/user holds 8 GPUs on n0; its end is unknown"]


def test_a_slice_of_a_device_plugin_keeps_its_card_too(planned: Any) -> None:
    both = {"amd.com/gpu": "1", "amd.com/cpx_nps4": "8"}
    cut = node("n0", MI300X, 1, devices=both, price="2")
    small = bound_pod("small", "n0", {"amd.com/cpx_nps4": 3})
    told = held(planned([cut, small], manifest()))
    assert told[0] == "Held by: pod default/small holds 3 GPUs on n0; its end is unknown"


@pytest.mark.parametrize(
    ("resource", "told"),
    [
        ("pods", ["Held by: pod default/mine holds 6 GPUs on n0; its end is unknown"]),
        ("requests.cpu", ["Held by: pod default/mine holds 6 GPUs on n0; its end is unknown"]),
        # No end of a pod gives these back.
        ("count/jobs.batch", []),
        ("services", []),
    ],
)
def test_pods_hold_a_quota_of_what_pods_use(planned: Any, resource: str, told: list[str]) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    quota |= {"status": {"hard": {resource: "200"}, "used": {resource: "200"}}}
    objects = two_nodes(quota, pod("mine", "n0", 6, namespace="default"))
    assert [line for line in held(planned(objects, manifest(nodes=2))) if line.startswith("Held")] == told


def test_pods_on_nodes_that_the_job_cannot_take_hold_nothing_that_it_waits_for(planned: Any) -> None:
    nodes = [node("n0", MI300X, price="2", cordoned=True), node("n1", MI300X, price="2", ready=False)]
    nodes += [node("n2", MI300X, price="2"), node("n3", MI300X, price="2", allocatable={"memory": "8Gi"})]
    users = [pod(f"p{number}", f"n{number}", 8) for number in range(4)]
    told = held(planned([*nodes, *users], manifest(resources={"memory": "100Gi"})))
    assert told == ["Held by: pod team/p2 holds 8 GPUs on n2; its end is unknown"]
    assert held(planned([*nodes[:2], *users], manifest())) == []


def needing(**resources: str) -> str:
    return manifest(gpusPerNode=1, resources=resources)


@pytest.mark.parametrize(
    ("resources", "others", "says"),
    [
        ({"cpu": "20"}, {"cpu": "110"}, "110 CPU"),
        ({"memory": "200Gi"}, {"memory": "900Gi"}, "900Gi memory"),
        ({"cpu": "20", "memory": "200Gi"}, {"cpu": "110", "memory": "900Gi"}, "110 CPU and 900Gi memory"),
        ({"ephemeralStorage": "200Gi"}, {"ephemeral-storage": "900Gi"}, "900Gi ephemeral-storage"),
    ],
)
def test_who_holds_cpu_or_memory_beside_free_gpus_is_said(
    planned: Any, resources: dict[str, str], others: dict[str, str], says: str
) -> None:
    objects = [
        node("n0", MI300X, price="2"),
        node("n1", MI300X, price="2", cordoned=True),
        pod("big", "n0", 0, **others),
        pod("elsewhere", "n1", 0, **others),
    ]
    text = planned(objects, needing(**resources))
    assert held(text) == [f"Held by: pod team/big holds {says} on n0; its end is unknown"]
    (found,) = json.loads(planned(objects, needing(**resources), "-o", "json"))["heldBy"]
    assert (found["gpus"], found["beside"], found["nodes"]) == (0, says, ["n0"])


def test_of_a_node_with_free_gpus_the_holders_are_said_and_of_another_node_those_of_its_gpus(planned: Any) -> None:
    objects = [
        node("n0", MI300X, price="2"),
        node("n1", MI300X, price="2"),
        pod("big", "n0", 0, cpu="120"),
        pod("g", "n1", 6),
    ]
    wish = manifest(gpusPerNode=4, resources={"cpu": "20"})
    assert [line for line in held(planned(objects, wish)) if line.startswith("Held")] == [
        "Held by: pod team/big holds 120 CPU on n0; its end is unknown",
        "Held by: pod team/g holds 6 GPUs on n1; its end is unknown",
    ]


def test_holders_of_memory_are_jobs_with_their_end_and_those_before_it_in_the_plan(planned: Any) -> None:
    ends = write_time(datetime.now(UTC) + timedelta(hours=3, minutes=5, seconds=20))
    objects = [
        node("n0", MI300X, price="2"),
        running("first", percent=40, estimatedEnd=ends),
        pod("f", "n0", 2, "first", memory="700Gi"),
        *(pod(f"p{index}", "n0", 0, memory=f"{index}Gi") for index in range(1, 6)),
    ]
    jobs = manifest("before", gpusPerNode=1, resources={"memory": "150Gi"}) + needing(memory="300Gi")
    assert held(planned(objects, jobs)) == [
        f"Held by: job team/first holds 700Gi memory on n0, 40 % done, until about {ends} (in 3 h 05 min)",
        "Held by: job default/before of this plan takes 150Gi memory on n0",
        "Held by: pod team/p5 holds 5Gi memory on n0; its end is unknown",
        "Held by: pod team/p4 holds 4Gi memory on n0; its end is unknown",
        "Held by: pod team/p3 holds 3Gi memory on n0; its end is unknown",
        "Held by: 2 more hold less of it",
    ]


CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "team"},
         "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "pv"}, "status": {"phase": "Bound"}}  # fmt: skip
MOUNTED = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
           "volumeMounts": [{"name": "v", "mountPath": "/v"}]}  # fmt: skip


def using(name: str, on: str, gpus: int = 0, job: str = "") -> Object:
    raw = pod(name, on, gpus, job)
    raw["spec"]["volumes"] = MOUNTED["volumes"]
    return raw


def of_team(name: str = "train", **spec: Any) -> str:
    return manifest(name, **MOUNTED, **spec).replace(f"name: {name}", f"name: {name}\n  namespace: team", 1)


def test_who_mounts_a_claim_holds_it(planned: Any) -> None:
    ends = write_time(datetime.now(UTC) + timedelta(minutes=20, seconds=5))
    objects = two_nodes(
        CLAIM,
        running("train", percent=62, estimatedEnd=ends),
        using("train-0", "n1", 6, "train"),
        using("notebook", "n1"),
        pod("other", "n1", 2),
    )
    assert held(planned(objects, of_team()))[:4] == [
        f"Held by: job team/train holds 6 GPUs on n1, 62 % done, until about {ends} (in 20 min)",
        f"Held by: job team/train holds PersistentVolumeClaim data on n1, 62 % done, until about {ends} (in 20 min)",
        "Held by: pod team/other holds 2 GPUs on n1; its end is unknown",
        "Held by: pod team/notebook holds PersistentVolumeClaim data on n1; its end is unknown",
    ]


def test_of_a_claim_that_is_mounted_off_the_pools_no_gpu_is_waited_for(planned: Any) -> None:
    objects = two_nodes(CLAIM, using("notebook", "cpu"), pod("busy", "n0", 8))
    assert held(planned(objects, of_team())) == [
        "Held by: pod team/notebook holds PersistentVolumeClaim data on cpu; its end is unknown"
    ]
    found = json.loads(planned(objects, of_team(), "-o", "json"))["heldBy"]
    assert [(each["kind"], each["name"], each["gpus"], each["beside"]) for each in found] == [
        ("Pod", "notebook", 0, "PersistentVolumeClaim data")
    ]


def test_a_job_of_the_same_plan_holds_its_claim(planned: Any) -> None:
    jobs = of_team("first", gpusPerNode=8) + of_team("second", gpusPerNode=8)
    assert held(planned(two_nodes(CLAIM), jobs)) == [
        "Held by: job team/first of this plan takes 8 GPUs on n0",
        "Held by: job team/first of this plan takes PersistentVolumeClaim data on n0",
    ]


def test_of_many_pods_of_a_claim_five_are_told(planned: Any) -> None:
    objects = two_nodes(CLAIM, *(using(f"p{number}", "cpu") for number in range(7)))
    assert held(planned(objects, of_team()))[-1] == "Held by: 2 more hold it too"


def test_pods_that_fill_the_number_of_a_nodes_pods_hold_it(planned: Any) -> None:
    full = node("n0", MI300X, price="2", allocatable={"pods": "3"})
    pods = [
        pod("a", "n0", 0),
        pod("b", "n0", 0, namespace="other"),
        pod("c", "n0", 1),
        pod("d", "n0", 0, phase="Succeeded"),
    ]
    assert held(planned([full, *pods], manifest(gpusPerNode=2))) == [
        "Held by: pod other/b holds 1 of the node's pods on n0; its end is unknown",
        "Held by: pod team/a holds 1 of the node's pods on n0; its end is unknown",
        "Held by: pod team/c holds 1 of the node's pods on n0; its end is unknown",
    ]
    jobs = manifest("first", gpusPerNode=1) + manifest("second", gpusPerNode=1)
    assert held(planned([node("n0", MI300X, price="2", allocatable={"pods": "1"})], jobs)) == [
        "Held by: job default/first of this plan takes 1 of the node's pods on n0"
    ]
