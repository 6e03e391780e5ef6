"""The cluster keeps its promises: these tests start real control planes of their own, whatever CLUSTER says."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import choice
from .audit import OPERATOR
from .control_plane import COMPONENTS, restart_component, signal_component, stop_component
from .eventually import eventually
from .nodes import POOLS, node_list, simulated_nodes
from .state import REPOSITORY, Cluster, require

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane with one node of each pool, in a folder whose name has a space."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CLUSTER", raising=False)
        made = choice.up(tmp_path_factory.mktemp("cluster") / "of tests", "binaries")
        kubectl(made, "create", "-f", "-", stdin=json.dumps(node_list(simulated_nodes(dict.fromkeys(POOLS, 1)))))
        yield made
        choice.down(made.dir)


def kubectl(cluster: Cluster, *arguments: str, stdin: str | None = None) -> str:
    command = [cluster.tool("kubectl"), *arguments]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, env=cluster.environment(), timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def get(cluster: Cluster, *what: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(kubectl(cluster, "get", *what, "--output=json"))
    return answer


def command_line(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.e2e.cluster", *arguments]
    clean = {key: value for key, value in os.environ.items() if key != "CLUSTER"}
    return subprocess.run(
        command, cwd=REPOSITORY, env={**clean, **environment}, capture_output=True, text=True, check=False, timeout=120
    )


def job(name: str, **annotations: str) -> str:
    """A Job of one pod that asks for two AMD devices."""
    container = {"name": "main", "image": "none", "resources": {"limits": {"amd.com/gpu": "2"}}}
    template = {
        "metadata": {
            "annotations": {f"demo.gpujob.dev/{key.replace('_', '-')}": it for key, it in annotations.items()}
        },
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "first", "image": "none"}],
            "containers": [container],
        },
    }
    spec = {"backoffLimit": 0, "template": template}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})


def pods_of(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = get(cluster, "pods", f"--selector=job-name={name}")["items"]
    return items


def has(pods: list[dict[str, Any]], phase: str) -> list[dict[str, Any]]:
    return [pod for pod in pods if pod["status"]["phase"] == phase]


def conditions(thing: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in thing["status"].get("conditions", [])}


def test_simulated_nodes_are_ready_and_keep_their_size(cluster: Cluster) -> None:
    def all_ready() -> bool:
        return all(conditions(node).get("Ready") == "True" for node in get(cluster, "nodes")["items"])

    eventually(all_ready, what="nodes that are all Ready")
    for made in simulated_nodes(dict.fromkeys(POOLS, 1)):
        node = get(cluster, "node", made["metadata"]["name"])
        assert node["status"]["capacity"] == made["status"]["capacity"]
        assert node["status"]["allocatable"] == made["status"]["allocatable"]
        assert node["metadata"]["labels"].items() >= made["metadata"]["labels"].items()
    eventually(lambda: [each["key"] for each in get(cluster, "node", "h100-0")["spec"]["taints"]] == ["nvidia.com/gpu"])


def test_a_node_that_a_test_makes_not_ready_stays_so(cluster: Cluster) -> None:
    broken = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Broken"}]}}
    kubectl(cluster, "patch", "node", "l4-0", "--subresource=status", f"--patch={json.dumps(broken)}")
    eventually(
        lambda: any("not-ready" in each["key"] for each in get(cluster, "node", "l4-0")["spec"].get("taints", []))
    )
    assert conditions(get(cluster, "node", "l4-0"))["Ready"] == "False"


def test_a_pod_runs_for_the_time_that_it_names_and_succeeds(cluster: Cluster) -> None:
    kubectl(cluster, "create", "-f", "-", stdin=job("good", runs_for="1s"))
    (pod,) = eventually(lambda: has(pods_of(cluster, "good"), "Running"), every=0.01)
    assert conditions(pod).items() >= {"Initialized": "True", "Ready": "True", "ContainersReady": "True"}.items()
    assert pod["status"]["podIP"]
    assert pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    kubectl(cluster, "wait", "--for=condition=complete", "job/good", "--timeout=20s")
    (pod,) = has(pods_of(cluster, "good"), "Succeeded")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_a_pod_fails_with_the_exit_code_that_it_names(cluster: Cluster) -> None:
    kubectl(cluster, "create", "-f", "-", stdin=job("bad", runs_for="200ms", exit_code="3"))
    kubectl(cluster, "wait", "--for=condition=failed", "job/bad", "--timeout=20s")
    (pod,) = has(pods_of(cluster, "bad"), "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def test_a_pod_starts_late_when_asked_runs_for_ever_and_vanishes_when_deleted(cluster: Cluster) -> None:
    kubectl(cluster, "create", "-f", "-", stdin=job("late", starts_after="2s"))
    eventually(lambda: [pod for pod in has(pods_of(cluster, "late"), "Pending") if pod["spec"].get("nodeName")])
    eventually(lambda: has(pods_of(cluster, "late"), "Running"))
    kubectl(cluster, "delete", "job", "late", "--wait=false")
    eventually(lambda: not pods_of(cluster, "late"), 5, what="end of the pod")


def test_up_again_and_status_and_env_say_what_is(cluster: Cluster) -> None:
    folder = {"CLUSTER_DIR": str(cluster.dir)}
    again = command_line("up", **folder)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("already up")
    assert require(cluster.dir).processes == cluster.processes
    status = command_line("status", **folder)
    assert status.returncode == 0
    assert status.stdout.count(" runs, pid ") == len(COMPONENTS)
    sourced = subprocess.run(
        ["sh", "-c", f"{command_line('env', **folder).stdout}\nkubectl get --raw=/readyz"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert sourced.stdout == "ok", sourced.stderr


def test_requests_of_the_operator_and_of_no_one_else_are_logged(cluster: Cluster) -> None:
    kubectl(cluster, "create", "namespace", "gpujob-system")
    kubectl(cluster, "create", "serviceaccount", "gpujob-operator", "--namespace=gpujob-system")
    token = kubectl(cluster, "create", "token", "gpujob-operator", "--namespace=gpujob-system").strip()
    asked = subprocess.run(
        [cluster.tool("kubectl"), f"--server={cluster.server}", f"--token={token}", "get", "nodes"],
        env={**cluster.environment(), "KUBECONFIG": str(without_user(cluster))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "cannot list resource" in asked.stderr
    log = cluster.audit_log
    assert log is not None
    eventually(log.read_text, what="line in the audit log")
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert {entry["user"]["username"] for entry in entries} == {OPERATOR}
    assert entries[-1]["responseStatus"]["code"] == 403


def without_user(cluster: Cluster) -> Path:
    """A kubeconfig that only knows the server's certificate."""
    content = json.loads(cluster.kubeconfig.read_text())
    content["users"] = [{"name": each["name"], "user": {}} for each in content["users"]]
    path = cluster.dir / "kubeconfig-without-user"
    path.write_text(json.dumps(content))
    return path


def test_secrets_are_for_their_owner_only(cluster: Cluster) -> None:
    secret = [
        cluster.kubeconfig,
        cluster.dir / "state.json",
        *(cluster.dir / "pki").glob("*.k*"),
        cluster.dir / "pki/tokens.csv",
    ]
    assert {path.name: oct(path.stat().st_mode & 0o77) for path in secret} == {path.name: "0o0" for path in secret}
    assert cluster.dir.stat().st_mode & 0o77 == 0


def test_a_restarted_api_server_has_the_same_address_and_data(cluster: Cluster) -> None:
    kubectl(cluster, "create", "configmap", "kept", "--from-literal=a=b")
    before = require(cluster.dir).process("kube-apiserver")
    restart_component(cluster.dir, "kube-apiserver")
    assert require(cluster.dir).process("kube-apiserver") != before
    assert get(cluster, "configmap", "kept")["data"] == {"a": "b"}
    kubectl(cluster, "create", "-f", "-", stdin=job("after", runs_for="100ms"))
    kubectl(cluster, "wait", "--for=condition=complete", "job/after", "--timeout=60s")


def test_up_mends_what_ended(cluster: Cluster) -> None:
    stop_component(cluster.dir, "kube-scheduler")
    healthy, lines = choice.status(cluster.dir)
    assert not healthy
    assert "kube-scheduler           has ended" in lines
    choice.up(cluster.dir)
    assert choice.status(cluster.dir)[0]


def test_a_paused_component_does_nothing_until_it_goes_on(cluster: Cluster) -> None:
    signal_component(cluster.dir, "kube-scheduler", signal.SIGSTOP)
    kubectl(cluster, "create", "-f", "-", stdin=job("waiting", runs_for="10ms"))
    eventually(lambda: pods_of(cluster, "waiting"))
    assert "nodeName" not in pods_of(cluster, "waiting")[0]["spec"]
    signal_component(cluster.dir, "kube-scheduler", signal.SIGCONT)
    kubectl(cluster, "wait", "--for=condition=complete", "job/waiting", "--timeout=60s")


def test_an_existing_cluster_is_used_and_left_as_it_is(cluster: Cluster, tmp_path: Path) -> None:
    use = {"CLUSTER": "existing", "CLUSTER_DIR": str(tmp_path / "mine"), **_paths(cluster)}
    assert command_line("up", **use).returncode == 0
    refused = command_line("up", "--nodes", **use)
    assert refused.stderr == "simulated nodes in your own cluster need KWOK: set CLUSTER_KWOK=1\n"
    assert command_line("down", **use).returncode == 0
    assert not (tmp_path / "mine").exists()
    assert choice.status(cluster.dir)[0]


def test_an_existing_cluster_that_is_silent_is_refused_in_one_sentence(cluster: Cluster, tmp_path: Path) -> None:
    content = cluster.kubeconfig.read_text().replace(cluster.server, "https://127.0.0.1:9")
    silent = tmp_path / "silent"
    silent.write_text(content)
    use = {"CLUSTER": "existing", "CLUSTER_DIR": str(tmp_path / "mine"), **_paths(cluster), "KUBECONFIG": str(silent)}
    refused = command_line("up", **use)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"the cluster of {silent} (https://127.0.0.1:9) does not answer: ")
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "mine").exists()


def _paths(cluster: Cluster) -> dict[str, str]:
    environment = cluster.environment()
    return {"KUBECONFIG": environment["KUBECONFIG"], "PATH": environment["PATH"]}
