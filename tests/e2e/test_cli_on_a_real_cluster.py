"""The command line against a real API server: live, from a capture, and for a user who may not read nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.status import pools as publish
from tests.e2e.cluster import Cluster, down, eventually, node_list, simulated_nodes, up

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
FLEET = {"mi300x": 2, "mi210": 1, "h100": 2, "l4": 1}
JOBS: dict[str, dict[str, Any]] = {
    "one": {},
    "whole-nodes": {"nodes": 2, "gpusPerNode": 8, "gpuMemory": "80G"},
    "too-large": {"gpuMemory": "500G"},
    "admins-pool": {"placement": {"pools": {"allow": ["reserved"]}}},
    "unknown-pool": {"placement": {"pools": {"allow": ["reservd"]}}},
}
VERDICTS = {"one": 0, "whole-nodes": 3, "too-large": 4, "admins-pool": 0, "unknown-pool": 5}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cli") / "cluster"
    try:
        made = up(folder, which="binaries")
        kubectl(made, "apply", "--server-side", "-f", str(ROOT / "crds"))
        kubectl(made, "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        kubectl(made, "create", "-f", "-", stdin=json.dumps(node_list(simulated_nodes(FLEET))))
        kubectl(made, "create", "-f", "-", stdin=yaml.safe_dump_all(OBJECTS))
        eventually(lambda: all_pods_run(made), timeout=60)
        yield made
    finally:
        down(folder)


def pod(name: str, node: str, resource: str, count: int) -> dict[str, Any]:
    limits = {resource: str(count), "cpu": "8", "memory": "64Gi"}
    container = {
        "name": "main",
        "image": "none",
        "env": [{"name": "TOKEN", "value": "hunter2"}],
        "resources": {"limits": limits},
    }
    metadata = {"name": name, "namespace": "default", "annotations": {"team": "hunter2"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [container]},
    }


OBJECTS: list[dict[str, Any]] = [
    {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"},
    {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUPool",
        "metadata": {"name": "reserved"},
        "spec": {
            "nodeSelector": {"matchLabels": {"nvidia.com/gpu.product": "NVIDIA-L4"}},
            "price": {"perGPUHour": "0.50"},
            "env": [{"name": "NCCL_DEBUG", "value": "hunter2"}],
        },
    },
    {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPURuntime",
        "metadata": {"name": "ours"},
        "spec": {
            "image": "registry.example/ours:1",
            "backend": "CUDA",
            "backendVersion": "13.0",
            "framework": {"name": "pytorch", "version": "2.14.0"},
            "architectures": ["8.9", "9.0"],
        },
    },
    pod("takes-four", "h100-0", "nvidia.com/gpu", 4),
    pod("takes-one", "mi300x-0", "amd.com/gpu", 1),
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "somebody", "namespace": "default"}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "somebody"},
        "rules": [{"apiGroups": ["gpujob.dev"], "resources": ["gpupools", "gpuruntimes"], "verbs": ["list"]}],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "somebody"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "somebody"},
        "subjects": [{"kind": "ServiceAccount", "name": "somebody", "namespace": "default"}],
    },
]


def kubectl(cluster: Cluster, *arguments: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        [cluster.tool("kubectl"), *arguments],
        input=stdin, capture_output=True, text=True, check=False, env=cluster.environment(), timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def all_pods_run(cluster: Cluster) -> bool:
    pods = json.loads(kubectl(cluster, "get", "pods", "-n", "default", "-o", "json"))["items"]
    return len(pods) == 2 and all(found["status"].get("phase") == "Running" for found in pods)


def gpujob(cluster: Cluster, *arguments: str | Path, job: str = "one") -> subprocess.CompletedProcess[str]:
    manifest = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": job}, "spec": JOBS[job]}
    return subprocess.run(
        [sys.executable, "-m", "gpujob.cli.main", *map(str, arguments)],
        input=json.dumps(manifest), capture_output=True, text=True, check=False,
        env=cluster.environment(), timeout=60,
    )  # fmt: skip


@pytest.fixture(scope="module")
def captured(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("captured") / "cluster.yaml"
    done = gpujob(cluster, "capture", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize("job", JOBS)
def test_a_capture_plans_as_the_cluster_does(cluster: Cluster, captured: Path, job: str) -> None:
    live = gpujob(cluster, "plan", "-f", "-", "-o", "json", job=job)
    from_file = gpujob(cluster, "plan", "-f", "-", "-o", "json", "--cluster", captured, job=job)
    assert live.stderr == ""
    assert (live.returncode, live.stdout) == (from_file.returncode, from_file.stdout)
    assert live.returncode == VERDICTS[job]


def test_what_kubectl_gets_plans_as_the_cluster_does(cluster: Cluster, tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    kinds = "nodes,pods,gpupools,gpuruntimes,runtimeclasses,resourcequotas"
    dump.write_text(kubectl(cluster, "get", kinds, "-A", "-o", "yaml"))
    live = gpujob(cluster, "plan", "-f", "-", "-o", "json")
    assert gpujob(cluster, "plan", "-f", "-", "-o", "json", "--cluster", dump).stdout == live.stdout


def test_pools_are_those_of_the_capture(cluster: Cluster, captured: Path) -> None:
    live, from_file = (gpujob(cluster, "pools", "-o", "json", *options) for options in ((), ("--cluster", captured)))
    assert live.stdout == from_file.stdout
    free = {pool["accelerator"]: pool["gpus"] for pool in json.loads(live.stdout)}
    assert free["H100-SXM"] == {"free": 12, "total": 16}
    assert free["MI300X"] == {"free": 15, "total": 16}


def test_a_capture_holds_no_values_and_no_foreign_annotations(captured: Path) -> None:
    text = captured.read_text()
    assert "hunter2" not in text
    assert "managedFields" not in text
    assert "kwok" not in text


def test_render_makes_objects_that_the_api_server_takes(cluster: Cluster) -> None:
    rendered = gpujob(cluster, "render", "-f", "-", "-o", "json")
    assert rendered.returncode == 0, rendered.stderr
    kubectl(cluster, "create", "--dry-run=server", "-f", "-", stdin=rendered.stdout)


def test_the_smallest_example_is_accepted_and_placed(cluster: Cluster) -> None:
    example = ROOT / "examples" / "01-hello-gpu.yaml"
    kubectl(cluster, "create", "--dry-run=server", "-f", str(example))
    assert gpujob(cluster, "plan", "-f", example).returncode == 0


def test_another_context_is_taken_by_name(cluster: Cluster) -> None:
    context = kubectl(cluster, "config", "current-context").strip()
    assert gpujob(cluster, "pools", "--context", context).returncode == 0
    missing = gpujob(cluster, "pools", "--context", "elsewhere")
    assert missing.returncode == 2
    assert "elsewhere" in missing.stderr
    assert "Traceback" not in missing.stderr


@pytest.fixture
def somebody(cluster: Cluster, tmp_path: Path) -> Path:
    """The kubeconfig of a person who may list GPUPools and GPURuntimes only."""
    config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    token = kubectl(cluster, "create", "token", "somebody", "-n", "default").strip()
    for user in config["users"]:
        user["user"] = {"token": token}
    path = tmp_path / "somebody"
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return path


def test_without_rights_on_nodes_the_remedy_is_told_and_then_published_pools_answer(
    cluster: Cluster, somebody: Path, captured: Path
) -> None:
    refused = gpujob(cluster, "plan", "-f", "-", "--kubeconfig", somebody)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "error: this account may not list nodes (403): request that right, "
        "or plan with --cluster FILE from an admin's `kubectl gpujob capture -o FILE`\n"
    )
    publish_pools(cluster, captured)
    answer = gpujob(cluster, "plan", "-f", "-", "-o", "json", "--kubeconfig", somebody)
    assert answer.returncode == 0
    assert answer.stderr.splitlines()[-1].startswith("nodes cannot be read; published GPUPools are used: free as of 20")
    exact = json.loads(gpujob(cluster, "plan", "-f", "-", "-o", "json").stdout)["chosen"]
    assert json.loads(answer.stdout)["chosen"] == {**exact, "nodeNames": []}
    assert gpujob(cluster, "capture", "--kubeconfig", somebody).returncode == 2


def publish_pools(cluster: Cluster, captured: Path) -> None:
    """Writes what the operator would write."""
    fleet, _ = fleet_of(read_cluster(captured.read_text()), load_catalog())
    for pool in fleet.pools:
        if pool.discovered:
            kubectl(cluster, "create", "-f", "-", stdin=json.dumps(publish.manifest(pool)))
        status = {"status": publish.status(pool, fleet, {}, "2026-01-31T10:00:00Z")}
        patch = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
        kubectl(cluster, "patch", "gpupool", pool.name, *patch)


def test_a_job_of_the_cluster_is_explained_by_its_name(cluster: Cluster) -> None:
    manifest = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": "asked"}, "spec": {}}
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps(manifest))
    done = gpujob(cluster, "explain", "asked", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["job"], found["verdict"]) == ("asked", "Placed")
    assert found["whyNot"]
    missing = gpujob(cluster, "explain", "nobody")
    assert missing.returncode == 2
    assert missing.stderr == (
        "error: there is no GPUJob nobody in namespace default; `kubectl get gpujobs -A` lists them all\n"
    )


def findings(cluster: Cluster, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    done = gpujob(cluster, "doctor", "-o", "json", *arguments)
    assert done.returncode in (0, 5), done.stderr
    return done.returncode, json.loads(done.stdout)["findings"]


def test_doctor_asks_a_real_api_server(cluster: Cluster) -> None:
    code, found = findings(cluster)
    told = {(each["check"], each["level"]): each["message"] for each in found}
    assert code == 5
    assert told["operator", "Error"] == "no operator is installed in namespace gpujob-system"
    assert told["kubernetes", "OK"].startswith("Kubernetes v1.")
    assert told["crds", "OK"].startswith("the CRDs have all fields of ")
    assert told["rights", "OK"] == "you may submit, see and plan jobs in namespace default"
    assert told["device-plugins", "OK"] == f"{sum(FLEET.values())} nodes offer GPUs to pods"
    assert told["prometheus", "Unknown"].startswith("the cluster has no Prometheus object")
    assert all(each["remedy"] for each in found if each["level"] != "OK")


def test_doctor_tells_somebody_what_he_may_not_do(cluster: Cluster, somebody: Path) -> None:
    code, found = findings(cluster, "--kubeconfig", str(somebody))
    assert code == 5
    refused = {each["message"].partition(" in ")[0].partition(":")[0] for each in found if each["check"] == "rights"}
    assert refused == {
        "you may not create gpujobs",
        "you may not create pods",
        "you may not get pods/log",
        "you may not get pods/proxy",
        "you may not list nodes",
    }
    (nodes,) = (each for each in found if each["check"] == "device-plugins")
    assert (nodes["level"], nodes["message"]) == ("Unknown", "no node can be read")
