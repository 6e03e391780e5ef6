"""`explain`: why this pool, why not another, and what would change that."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_room import CATALOG, MIXED, Command, manifest

from gpujob.status.attempts.waits import write_time

H100 = "h100-sxm-p5-48xlarge-ondemand"
L4 = "l4-g6-12xlarge-ondemand"


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """The mixed cluster with a running job that holds all H100 of a node."""
    path = tmp_path / "cluster.yaml"
    path.write_text(
        MIXED.read_text() + "\n---\n" + yaml.safe_dump_all([running("train"), running("train", "other"), pod()])
    )
    return path


def running(name: str, namespace: str = "team") -> dict[str, Any]:
    condition = {"type": "Placed", "status": "True", "reason": "Placed", "message": "it was the cheapest then"}
    return {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUJob",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}"},
        "spec": {"gpusPerNode": 8, "placement": {"vendors": ["NVIDIA"], "accelerators": {"allow": ["H100-SXM"]}}},
        "status": {"state": "Running", "conditions": [condition]},
    }


def pod() -> dict[str, Any]:
    """Takes the node that the job itself runs on."""
    container = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    labels = {"gpujob.dev/job-uid": "uid-team", "gpujob.dev/attempt": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-0", "namespace": "team", "labels": labels},
        "spec": {"nodeName": "h100-1", "containers": [container]},
        "status": {"phase": "Running"},
    }


def test_a_running_job_is_decided_again_without_its_own_pods(gpujob: Command, cluster: Path) -> None:
    answer = gpujob("explain", "train", "-n", "team", "--cluster", cluster, "--catalog", CATALOG)
    assert answer.code == 0
    first, second, third = answer.out.splitlines()[:3]
    assert first == "Running  train: it was the cheapest then"
    assert second == "Decided again, without its own pods:"
    assert third.startswith(f"Placed  train: {H100} is the only pool with room")


def test_pods_of_another_namespace_that_name_the_job_are_not_its_own(
    gpujob: Command, cluster: Path, tmp_path: Path
) -> None:
    forged = pod()
    forged["metadata"] |= {"name": "squat", "namespace": "evil"}
    forged["spec"] |= {"nodeName": "h100-0"}
    (path := tmp_path / "forged.yaml").write_text(cluster.read_text() + "\n---\n" + yaml.safe_dump(forged))
    own, others = (
        gpujob("explain", "train", "-n", "team", "--cluster", each, "--catalog", CATALOG) for each in (cluster, path)
    )
    assert "Nodes: h100-0" in own.out
    assert "Waiting  train" in others.out
    assert "Held by: job evil/uid-team holds 8 GPUs on h100-0" in others.out


def test_a_namespace_is_asked_for_where_a_name_is_in_several(gpujob: Command, cluster: Path) -> None:
    answer = gpujob("explain", "train", "--cluster", cluster)
    assert (answer.code, answer.err) == (
        2,
        "error: there is a GPUJob train in the namespaces other, team; name one with -n\n",
    )
    answer = gpujob("explain", "nope", "--cluster", cluster)
    assert answer.err == "error: the cluster description has no GPUJob nope; add it, or ask about a file with -f\n"


def test_one_pool_can_be_asked_about(gpujob: Command) -> None:
    job = manifest(gpuMemory="60G")
    common = ("explain", "-f", "-", "--cluster", MIXED, "--catalog", CATALOG, "--why-not", L4)
    answer = gpujob(*common, stdin=job)
    (last,) = [line for line in answer.out.splitlines() if line.startswith("Why not")]
    assert last.startswith("Why not l4: needs 55.88Gi usable per GPU, L4 has 22.26Gi")
    assert last.endswith("with spec.gpuMemory 23G instead of 60G it would fit pool l4, and mi210 would still be chosen")
    found = json.loads(gpujob(*common, "-o", "json", stdin=job).out)
    assert found["verdict"] == "Placed"
    assert found["whyNot"][0]["fix"] == {"field": "spec.gpuMemory", "from": "60G", "to": "23G"}
    assert (found["job"], found["state"]) == ("train", None)


def test_a_pool_that_a_fix_makes_cheaper_than_the_chosen_one_would_be_chosen_with_its_price(gpujob: Command) -> None:
    model = {
        "name": "mistralai/Mistral-7B-v0.3", "method": "LoRA", "lora": {"rank": 32},
        "sequenceLength": 8192, "batchPerGPU": 4,
    }  # fmt: skip
    common = ("explain", "-f", "-", "--cluster", MIXED, "--catalog", CATALOG, "--why-not", L4)
    answer = gpujob(*common, stdin=manifest(model=model))
    (last,) = [line for line in answer.out.splitlines() if line.startswith("Why not")]
    assert last.endswith("it would fit pool l4, which is busy now, and mi210 would be chosen at $0.45 an hour")
    assert not answer.out.startswith("Placed  train: mi210-ondemand")


def test_the_next_best_pools_are_explained_unasked(gpujob: Command) -> None:
    found = json.loads(
        gpujob("explain", "-f", "-", "--cluster", MIXED, "--catalog", CATALOG, "-o", "json", stdin=manifest()).out
    )
    assert len(found["whyNot"]) == 3
    assert found["chosen"]["pool"] not in {each["pool"] for each in found["whyNot"]}


@pytest.mark.parametrize("arguments", [(), ("train", "-f", "job.yaml")])
def test_a_name_or_a_file(gpujob: Command, arguments: tuple[str, ...]) -> None:
    answer = gpujob("explain", *arguments)
    assert answer.code == 2
    assert (
        "explain needs the NAME of a job in the cluster, or -f JOB with a manifest; give one of the two" in answer.err
    )


def test_a_pool_that_is_not_there(gpujob: Command) -> None:
    answer = gpujob("explain", "-f", "-", "--cluster", MIXED, "--why-not", "b200", stdin=manifest())
    assert answer.code == 2
    assert answer.err.startswith("error: --why-not: there is no pool b200; known pools are ")


def waiting(name: str, namespace: str = "team", **spec: Any) -> dict[str, Any]:
    """A job of the cluster that waits."""
    condition = {"type": "Placed", "status": "False", "reason": "NotEnoughFree", "lastTransitionTime": now()}
    return {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUJob",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": now()},
        "spec": {
            "gpusPerNode": 8,
            "placement": {"vendors": ["NVIDIA"], "accelerators": {"allow": ["H100-SXM"]}},
            **spec,
        },
        "status": {"state": "Queued", "conditions": [condition]},
    }


def now() -> str:
    return write_time(datetime.now(UTC))


@pytest.fixture
def contended(tmp_path: Path) -> Path:
    """Half of each H100 node is taken; a job of high priority waits for a whole one, one of no class for two GPUs."""
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 100,
    }
    halves = [pod() | {"metadata": {"name": f"half-{index}", "namespace": "x"}} for index in range(2)]
    for index, half in enumerate(halves):
        half["spec"] = {
            "nodeName": f"h100-{index}",
            "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "4"}}}],
        }
    jobs = [
        waiting("hi", "elsewhere", nodes=2, priorityClassName="high"),
        waiting("lo", gpusPerNode=2),
        waiting("broken", gpusPerNode="many", priorityClassName="high"),
        waiting("held", nodes=2, priorityClassName="high", suspend=True),
    ]
    path = tmp_path / "contended.yaml"
    path.write_text(MIXED.read_text() + "\n---\n" + yaml.safe_dump_all([high, *halves, *jobs]))
    return path


def test_what_is_held_for_the_cluster_s_waiting_jobs_is_not_free(gpujob: Command, contended: Path) -> None:
    answer = gpujob("explain", "lo", "-n", "team", "--cluster", contended, "--catalog", CATALOG)
    assert answer.code == 3
    assert "queued behind a job of another namespace of priority 100, which waits for 8 GPUs on each of 2" in answer.out
    plan = gpujob("plan", "-f", "-", "--cluster", contended, "--catalog", CATALOG, stdin=manifest_of_two_gpus())
    assert plan.code == 3
    assert "queued behind a job of another namespace of priority 100" in plan.out


def since(hours: float) -> str:
    return write_time(datetime.now(UTC) - timedelta(hours=hours))


@pytest.mark.parametrize(
    ("spec", "hours", "reason"),
    [
        ({"nodes": 2}, 1, None),
        ({"nodes": 2, "priorityClassName": "high"}, 5.9, None),
        ({"nodes": 2}, 6.1, "it has waited for the whole holdSeconds"),
        ({"nodes": 2, "priorityClassName": "high"}, 100, "it has waited for the whole holdSeconds"),
        (
            {"nodes": 2, "priorityClassName": "system-node-critical"},
            1,
            "its PriorityClass belongs to Kubernetes and counts in kube-system only",
        ),
        (
            {"nodes": 2, "gpusPerNode": 5, "resources": {"cpu": 190}},
            1,
            "devices alone do not help it: it lacks nodes, other resources, or quota beside what is reserved for its namespace",
        ),
    ],
)
def test_a_waiting_job_is_told_why_nothing_is_reserved_for_it(
    gpujob: Command, contended: Path, spec: dict[str, Any], hours: float, reason: str | None
) -> None:
    job = waiting("asks", **spec)
    job["metadata"]["creationTimestamp"] = job["status"]["conditions"][0]["lastTransitionTime"] = since(hours)
    filler = pod() | {"metadata": {"name": "filler", "namespace": "x"}}
    filler["spec"] = {
        "nodeName": "h100-0",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "20"}}}],
    }
    critical = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "system-node-critical"},
        "value": 2000001000,
    }
    contended.write_text(contended.read_text() + "\n---\n" + yaml.safe_dump_all([job, filler, critical]))
    common = ("explain", "asks", "-n", "team", "--cluster", contended, "--catalog", CATALOG)
    answer = gpujob(*common)
    assert answer.code == 3, answer.out
    lines = [line for line in answer.out.splitlines() if line.startswith("Nothing reserved:")]
    assert lines == ([f"Nothing reserved: {reason}"] if reason else [])
    assert json.loads(gpujob(*common, "-o", "json").out)["unreserved"] == reason


@pytest.mark.parametrize("name", ["hi", "lo"])
def test_of_a_job_of_which_nobody_knows_since_when_it_waits_no_end_of_a_reservation_is_told(
    gpujob: Command, contended: Path, name: str
) -> None:
    documents = [each for each in yaml.safe_load_all(contended.read_text()) if each]
    for each in documents:
        each["metadata"].pop("creationTimestamp", None)
        if each["kind"] == "GPUJob":
            each["status"].pop("conditions")
    contended.write_text(yaml.safe_dump_all(documents))
    assert "holdSeconds" not in gpujob("explain", name, "--cluster", contended, "--catalog", CATALOG).out


def manifest_of_two_gpus() -> str:
    raw = waiting("new", gpusPerNode=2)
    return yaml.safe_dump({key: raw[key] for key in ("apiVersion", "kind", "metadata", "spec")})


def test_a_new_node_without_devices_is_waited_for(gpujob: Command, tmp_path: Path) -> None:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.memory": "81559",
    }
    machine = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    for created, code, word in (
        (now(), 3, "and offers no GPUs yet"),
        ("2026-01-01T00:00:00Z", 5, "no device plugin offers"),
    ):
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n", "labels": labels, "creationTimestamp": created},
            "status": {"allocatable": machine, "capacity": machine},
        }
        path = tmp_path / "new.yaml"
        path.write_text(yaml.safe_dump(node))
        answer = gpujob("plan", "-f", "-", "--cluster", path, "--catalog", CATALOG, stdin=manifest_of_two_gpus())
        assert (answer.code, word in answer.out) == (code, True), answer.out


def refused(**status: Any) -> dict[str, Any]:
    """A job of the cluster that no pool can run."""
    return {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUJob",
        "metadata": {"name": "big", "namespace": "team", "uid": "uid-big"},
        "spec": {"gpuMemory": "500G"},
        "status": status,
    }


def test_a_job_that_no_operator_has_seen_is_told_so(gpujob: Command, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(MIXED.read_text() + "\n---\n" + yaml.safe_dump_all([refused()]))
    answer = gpujob("explain", "big", "--cluster", path, "--catalog", CATALOG)
    first, second, third = answer.out.splitlines()[:3]
    assert first.startswith("No status  big: the operator has not reconciled it; is it running? `kubectl get deploy")
    assert second == "Decided again, without its own pods:"
    assert third.startswith("Impossible  big: ")
    answer = gpujob("explain", "-f", "-", "--cluster", path, "--catalog", CATALOG, stdin=manifest())
    assert answer.out.startswith("Placed  train: ")


@pytest.mark.parametrize("state", ["Placed", "Starting", "Failed"])
def test_what_became_of_the_pods_comes_first(gpujob: Command, cluster: Path, state: str) -> None:
    fault = "pod train-0 on node h100-1: GPU 0 has 54.89Gi of 139.8Gi free, 55.87Gi are requested"
    job = running("ill")
    job["status"]["state"] = state
    job["status"]["conditions"].append({"type": "Running", "status": "False", "reason": "Ended", "message": fault})
    cluster.write_text(cluster.read_text() + "\n---\n" + yaml.safe_dump(job))
    answer = gpujob("explain", "ill", "-n", "team", "--cluster", cluster, "--catalog", CATALOG)
    assert answer.out.splitlines()[:2] == [f"{state}  ill: {fault}", "Placed before  it was the cheapest then"]
    told = json.loads(
        gpujob("explain", "ill", "-n", "team", "--cluster", cluster, "--catalog", CATALOG, "-o", "json").out
    )
    assert told["since"] == fault
    assert told["said"] == "it was the cheapest then"


@pytest.mark.parametrize("stands", ["True", "False"])
def test_a_job_that_stands_still_says_who_is_behind(gpujob: Command, tmp_path: Path, stands: str) -> None:
    path, job = tmp_path / "cluster.yaml", running("train")
    behind = "no step for 120 seconds after step 7; rank 1 (pod p on node n) is at step 7 in read (data.py:3)"
    job["status"]["conditions"].append({"type": "Stalled", "status": stands, "reason": "Stalled", "message": behind})
    path.write_text(MIXED.read_text() + "\n---\n" + yaml.safe_dump(job))
    assert (behind in gpujob("explain", "train", "--cluster", path, "--catalog", CATALOG).out) is (stands == "True")


def test_a_refusal_is_said_once(gpujob: Command, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(MIXED.read_text() + "\n---\n" + yaml.safe_dump_all([refused()]))
    plan = json.loads(gpujob("explain", "big", "--cluster", path, "--catalog", CATALOG, "-o", "json").out)
    said = {"type": "Placed", "status": "False", "message": plan["message"]}
    path.write_text(
        MIXED.read_text() + "\n---\n" + yaml.safe_dump_all([refused(state="Impossible", conditions=[said])])
    )
    out = gpujob("explain", "big", "--cluster", path, "--catalog", CATALOG).out
    assert out.splitlines()[1] == "Decided again, without its own pods, with the same answer"
    reason = "needs 465.67Gi usable per GPU, MI300X has 191.68Gi"
    # Once in the sentence and once in the row of its pool.
    assert out.count(reason) == 2
    assert out.count("Impossible  big") == 1
    asked = gpujob("explain", "big", "--cluster", path, "--catalog", CATALOG, "--why-not", L4).out
    assert "Why not l4: needs 465.67Gi usable per GPU, L4 has" in asked


def lost_its_node(until: str) -> dict[str, Any]:
    """A job that waits after its second attempt, for the pool of one node on which that failed."""
    excluded = {"name": "l4-0", "until": until, "attempt": 2, "reason": "NodeLost"}
    job = yaml.safe_load(manifest(placement={"accelerators": {"allow": ["L4"]}}))
    job["metadata"] |= {"namespace": "team", "uid": "uid-team", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {**job, "status": {"state": "Restarting", "attempt": 2, "excludedNodes": [excluded]}}


def test_it_says_which_node_the_job_leaves_out_and_until_when(gpujob: Command, tmp_path: Path) -> None:
    path, until = tmp_path / "cluster.yaml", write_time(datetime.now(UTC) + timedelta(minutes=10))
    left_out = f"node l4-0 is left out until {until}, since attempt 2 failed there (NodeLost)"
    path.write_text(MIXED.read_text() + "\n---\n" + yaml.safe_dump(lost_its_node(until)))
    asked = ("explain", "train", "--cluster", path, "--catalog", CATALOG)
    answer = gpujob(*asked, "-o", "json")
    found = json.loads(answer.out)
    assert (answer.code, found["verdict"]) == (3, "Waiting")
    (l4,) = (each for each in found["candidates"] if each["pool"] == L4)
    assert [(each["reason"], each["message"]) for each in l4["reasons"]] == [("NodeExcluded", left_out)]
    assert left_out in gpujob(*asked).out


def test_a_node_whose_time_is_over_is_taken_again(gpujob: Command, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(MIXED.read_text() + "\n---\n" + yaml.safe_dump(lost_its_node("2026-01-01T00:00:00Z")))
    answer = gpujob("explain", "train", "--cluster", path, "--catalog", CATALOG)
    assert f"Placed  train: {L4} is the only pool with room" in answer.out


def tried_twice() -> dict[str, Any]:
    """A job whose third attempt runs since one hour and a half."""
    job = running("train")
    since = write_time(datetime.now(UTC) - timedelta(minutes=90, seconds=30))
    first = {
        "attempt": 1, "pool": L4, "vendor": "NVIDIA", "nodes": ["a", "b", "c", "d", "e"], "from": "2026-01-01T00:00:00Z",
        "to": "2026-01-01T00:01:05Z", "cost": "0.0036", "reason": "NodeLost", "blame": "Infrastructure",
        "message": "pod p on node a was taken away (DeletionByTaintManager)",
    }  # fmt: skip
    second = {"attempt": 2, "pool": H100, "to": "2026-01-01T00:05:00Z", "reason": "Unschedulable", "message": "no port"}
    placement = {"pool": H100, "vendor": "NVIDIA", "nodeNames": ["h100-0"]}
    job["status"] |= {
        "attempt": 3, "jobName": "train-1-3", "startTime": since, "placement": placement,
        "cost": {"accrued": "83.00", "earlier": "0.0036"}, "attempts": [first, second],
    }  # fmt: skip
    return job


def test_it_lists_the_attempts_and_why_each_ended(gpujob: Command, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(MIXED.read_text() + "\n---\n" + yaml.safe_dump(tried_twice()))
    lines = gpujob("explain", "train", "--cluster", path, "--catalog", CATALOG).out.splitlines()
    table = lines[lines.index("") + 1 :]
    columns = [[cell for cell in line.split("  ") if cell.strip()] for line in table[:4]]
    assert [each.strip() for each in columns[0]] == ["ATTEMPT", "POOL", "ON", "FROM", "RAN", "COST", "ENDED", "WHY"]
    assert [each.strip() for each in columns[1]] == [
        "1", L4, "a, b, c and 2 more", "2026-01-01T00:00:00Z", "1m05s", "$0.0036", "NodeLost",
        "pod p on node a was taken away (DeletionByTaintManager)",
    ]  # fmt: skip
    assert [each.strip() for each in columns[2]] == ["2", H100, "Unschedulable", "no port"]
    assert [each.strip() for each in columns[3]][:3] == ["3", H100, "h100-0"]
    assert [each.strip() for each in columns[3]][4:] == ["1h30m", "$83.00"]
    found = json.loads(gpujob("explain", "train", "--cluster", path, "--catalog", CATALOG, "-o", "json").out)
    assert [(each["attempt"], each.get("reason")) for each in found["attempts"]] == [
        (1, "NodeLost"), (2, "Unschedulable"), (3, None),
    ]  # fmt: skip


def test_a_job_that_runs_for_the_first_time_has_no_list(gpujob: Command, tmp_path: Path) -> None:
    path, job = tmp_path / "cluster.yaml", tried_twice()
    job["status"]["attempts"] = ["x", {"attempt": 2}, {"attempt": {}, "to": "t", "reason": "r"}]
    path.write_text(MIXED.read_text() + "\n---\n" + yaml.safe_dump(job))
    assert "ATTEMPT" not in gpujob("explain", "train", "--cluster", path, "--catalog", CATALOG).out


@pytest.mark.parametrize(
    ("finalizers", "held"),
    [
        (["evil.io/never"], "; finalizer evil.io/never holds it until those who put it there take it off"),
        (["a.io/b", "c.io/d"], "; finalizers a.io/b, c.io/d hold it until those who put them there take them off"),
        ([], ""),
    ],
)
def test_a_job_that_is_being_deleted_names_what_holds_it(
    gpujob: Command, tmp_path: Path, finalizers: list[str], held: str
) -> None:
    leaving = running("train")
    leaving["metadata"] |= {"deletionTimestamp": "2026-03-01T00:00:00Z", "finalizers": finalizers}
    (path := tmp_path / "cluster.yaml").write_text(MIXED.read_text() + "\n---\n" + yaml.safe_dump(leaving))
    common = ("explain", "train", "-n", "team", "--cluster", path, "--catalog", CATALOG)
    sentence = f"it is being deleted (since 2026-03-01T00:00:00Z){held}"
    answer = gpujob(*common)
    first, second, third = answer.out.splitlines()[:3]
    assert first == f"Being deleted  train: {sentence}"
    assert second == "Running  train: it was the cheapest then"
    assert third == "Decided again, without its own pods, as if it were not being deleted:"
    assert json.loads(gpujob(*common, "-o", "json").out)["leaving"] == sentence
    leaving.pop("status")
    path.write_text(MIXED.read_text() + "\n---\n" + yaml.safe_dump(leaving))
    first, second = gpujob(*common).out.splitlines()[:2]
    assert first == f"Being deleted  train: {sentence}"
    assert second == "Decided again, without its own pods, as if it were not being deleted:"
