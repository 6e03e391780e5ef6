"""The chart on a real API server: its objects, the rights of the operator's token, and what becomes of children."""

import base64
import json
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.contract.chart_in_cluster import (
    CRDS,
    OF_ACCOUNTS,
    OF_CHILDREN,
    OF_OPERATOR,
    OF_PODS,
    POLICY,
    ensure_namespace,
    event,
    get,
    gpujob,
    job,
    kubectl,
    names,
    run,
    service,
)
from tests.contract.test_chart_rendering import CHART, NAMESPACE, SAMPLES, notes, one, rendered
from tests.e2e.cluster import Cluster, eventually

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_api_server_accepts_every_object(cluster: Cluster, sample: str, installed: None) -> None:
    # The kinds of prometheus-operator are not here; test_monitoring_of_the_chart reads them.
    objects = [
        each for each in rendered(SAMPLES[sample]) if not each["apiVersion"].startswith("monitoring.coreos.com/")
    ]
    said = kubectl(
        cluster, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-",
        stdin="\n---\n".join(map(json.dumps, objects)),
    )  # fmt: skip
    assert said.count("serverside-applied (server dry run)") == len(objects)


@pytest.mark.parametrize("name", [POLICY, OF_CHILDREN, OF_OPERATOR, OF_PODS, OF_ACCOUNTS])
def test_the_api_server_finds_no_fault_with_the_policys_expressions(
    cluster: Cluster, name: str, installed: None
) -> None:
    def checked() -> dict[str, Any]:
        policy = get(cluster, "validatingadmissionpolicy", name)
        status: dict[str, Any] = policy.get("status", {})
        return status if status.get("observedGeneration") == policy["metadata"]["generation"] else {}

    status = eventually(checked, what="type check of the policy")
    assert status.get("typeChecking", {}).get("expressionWarnings", []) == []


def test_the_operators_pod_passes_restricted_pod_security(cluster: Cluster, installed: None) -> None:
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = ensure_namespace(cluster, next(names), **restricted)
    kubectl(cluster, "create", "serviceaccount", "gpujob-operator", f"-n{namespace}")
    template = one(rendered(), "Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}, "spec": template["spec"]}
    kubectl(cluster, "create", f"-n{namespace}", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


def test_the_notes_tell_the_gpus_of_the_nodes(cluster: Cluster, installed: None) -> None:
    def told() -> str:
        done = run(cluster, "helm", "get", "notes", "gpujob-operator", f"--namespace={NAMESPACE}")
        return done.stdout

    def upgrade() -> None:
        arguments = ("upgrade", "gpujob-operator", str(CHART), f"--namespace={NAMESPACE}", "--reuse-values")
        assert run(cluster, "helm", *arguments).returncode == 0

    h100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    for name, labels, offered in (
        ("n1", h100, {"nvidia.com/gpu": "8", "cpu": "64"}),
        ("n2", h100, {"nvidia.com/gpu": "4"}),
        ("n3", {}, {"amd.com/gpu": "2", "amd.com/nic": "8"}),
        ("n4", {}, {"amd.com/gpu": "0"}),
    ):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        kubectl(cluster, "create", "-f", "-", stdin=json.dumps(node))
        status = json.dumps({"status": {"allocatable": offered, "capacity": offered}})
        kubectl(cluster, "patch", "node", name, "--subresource=status", "--type=merge", f"--patch={status}")
    upgrade()
    text = told()
    # Lines of a map, in the order of their text.
    lines = "  2 x amd.com/gpu (without a label of its model)\n  12 x nvidia.com/gpu (NVIDIA-H100-80GB-HBM3)\n"
    assert lines in text
    assert "No GPUPool exists yet." in text
    of_pools(cluster, upgrade, told)
    kubectl(cluster, "delete", "node", "n1", "n2", "n3")
    upgrade()
    assert "WARNING: none of 1 nodes offers GPUs (nvidia.com/gpu, amd.com/gpu)" in told()
    kubectl(cluster, "delete", "node", "n4")


def of_pools(cluster: Cluster, upgrade: Callable[[], None], told: Callable[[], str]) -> None:
    """Once GPUPools are there, the notes name them and not the labels."""
    found: dict[str, dict[str, Any]] = {
        "h100": {"nodes": 2, "gpus": {"total": 12, "free": 5}, "accelerator": "H100-SXM", "display": {"price": "6.88"}},
        "mi210": {"nodes": 1, "gpus": {"total": 2, "free": 0}, "accelerator": "MI210", "problem": "NoPrice"},
        "strange": {"nodes": 1, "gpus": {"total": 4, "free": 4}, "problem": "DeviceUnknown"},
        "z-new": {},
    }
    for name, status in found.items():
        body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": name}}
        spec = {"spec": {"nodeSelector": {"matchLabels": {"a": name}}}}
        kubectl(cluster, "create", "-f", "-", stdin=json.dumps({**body, **spec}))
        if status:
            written = json.dumps({"status": status})
            kubectl(cluster, "patch", "gpupool", name, "--subresource=status", "--type=merge", f"--patch={written}")
    upgrade()
    text = told()
    assert (
        "GPUPools that the operator found or an admin wrote:\n\n"
        "  h100: 5 of 12 GPUs free on 2 nodes, H100-SXM, $6.88 a GPU hour\n"
        "  mi210: 0 of 2 GPUs free on 1 node, MI210, PROBLEM NoPrice\n"
        "  strange: 4 of 4 GPUs free on 1 node, PROBLEM DeviceUnknown\n"
        "  z-new: not read yet\n"
    ) in text
    assert "GPUs that the nodes offer" not in text
    for number in range(18):
        body = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": f"p{number:02}"}, **spec}
        kubectl(cluster, "create", "-f", "-", stdin=json.dumps(body))
    upgrade()
    assert "\n  and 2 more\n" in told()
    kubectl(cluster, "delete", "gpupools", "--all")


def test_the_notes_can_be_followed(cluster: Cluster, namespace: str) -> None:
    text = notes({}).replace("--namespace default", f"--namespace {namespace}").replace("TEAM", namespace)
    apply = text[text.index("kubectl apply") :].split("\nEOF\n")[0] + "\nEOF\n"
    shell(cluster, apply)
    # No operator ran the job, so there is no log to read, neither its nor the operator's.
    lines = [
        line for line in text.replace(apply, "").splitlines() if line.startswith("kubectl ") and " logs " not in line
    ]
    # The plugin may not be on this PATH, and pods run nowhere here.
    of_the_plugin = [line for line in lines if line.startswith("kubectl gpujob ")]
    assert of_the_plugin == ["kubectl gpujob doctor", "kubectl gpujob doctor --before-uninstall"]
    lines = [line for line in lines if line not in of_the_plugin]
    assert len(lines) == 5
    for line in lines:
        shell(cluster, line)
    kubectl(cluster, "delete", "clusterrolebinding", "gpujob-pool-viewers")


def shell(cluster: Cluster, script: str) -> None:
    """Runs what a reader pastes; it must succeed."""
    command = ["sh", "-ec", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=cluster.environment(), timeout=60)
    assert done.returncode == 0, f"{script}: {done.stderr}"


@pytest.mark.parametrize(
    "kind",
    ["nodes", "pods", "resourcequotas", "jobs.batch", "runtimeclasses.node.k8s.io", *sorted(CRDS)],
)
def test_the_operators_token_lists_what_it_watches(cluster: Cluster, as_operator: Path, kind: str) -> None:
    kubectl(cluster, f"--kubeconfig={as_operator}", "get", kind, "--all-namespaces")


@pytest.mark.parametrize(
    "refused",
    [
        ("get", "secrets", f"-n{NAMESPACE}"),
        ("get", "secrets", "--all-namespaces"),
        ("get", "configmaps", f"-n{NAMESPACE}"),
        ("get", "serviceaccounts", f"-n{NAMESPACE}"),
        ("get", "namespace", NAMESPACE),
        ("get", "crds"),
        ("get", "leases.coordination.k8s.io", "--all-namespaces"),
        ("create", "token", "gpujob-operator", f"-n{NAMESPACE}"),
        ("create", "configmap", "x", f"-n{NAMESPACE}"),
        ("run", "x", "--image=x", f"-n{NAMESPACE}"),
    ],
    ids=" ".join,
)
def test_the_operators_token_is_refused_all_else(cluster: Cluster, as_operator: Path, refused: tuple[str, ...]) -> None:
    done = run(cluster, "kubectl", f"--kubeconfig={as_operator}", *refused)
    assert done.returncode != 0
    assert "is forbidden" in done.stderr or "(Forbidden)" in done.stderr


def test_the_operator_makes_children_and_a_lease(cluster: Cluster, as_operator: Path, namespace: str) -> None:
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("owner", namespace))
    uid = get(cluster, "gpujobs", "owner", f"-n{namespace}")["metadata"]["uid"]
    children = [job("child", namespace, uid), service("child", namespace, uid)]
    for child in children:
        child["metadata"]["labels"] = {"gpujob.dev/job-uid": uid}
    children[0]["spec"]["template"]["spec"]["automountServiceAccountToken"] = False
    for container in children[0]["spec"]["template"]["spec"]["containers"]:
        container["securityContext"] = {"allowPrivilegeEscalation": False}
    for child in (*children, event(namespace), LEASE):
        kubectl(cluster, f"--kubeconfig={as_operator}", "create", "-f", "-", stdin=json.dumps(child))
    patch = '{"spec":{"holderIdentity":"me"}}'
    patched = ("patch", "lease", "gpujob-operator", f"-n{NAMESPACE}", "--type=merge", f"--patch={patch}")
    kubectl(cluster, f"--kubeconfig={as_operator}", *patched)
    for kind in ("job", "service"):
        kubectl(cluster, f"--kubeconfig={as_operator}", "get", kind, "child", f"-n{namespace}")
    delete = ("delete", "job", "child", f"-n{namespace}", "--cascade=background", "--wait=false")
    kubectl(cluster, f"--kubeconfig={as_operator}", *delete)
    kubectl(cluster, "delete", "lease", "gpujob-operator", f"-n{NAMESPACE}")


def test_the_operator_reads_and_writes_no_other_lease(cluster: Cluster, as_operator: Path, namespace: str) -> None:
    other = {**LEASE, "metadata": {"name": "of-another", "namespace": NAMESPACE}}
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps(other))
    for verb in (("get",), ("patch", "--type=merge", '--patch={"spec":{"holderIdentity":"me"}}'), ("delete",)):
        name, *flags = verb
        done = run(
            cluster, "kubectl", f"--kubeconfig={as_operator}", name, "lease", "of-another", f"-n{NAMESPACE}", *flags
        )
        assert "is forbidden" in done.stderr
    kubectl(cluster, "delete", "lease", "of-another", f"-n{NAMESPACE}")


LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "gpujob-operator", "namespace": NAMESPACE},
    "spec": {},
}


def test_the_operators_status_is_not_matched(cluster: Cluster, as_operator: Path, namespace: str) -> None:
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("told", namespace))
    path = f"/apis/gpujob.dev/v1alpha1/namespaces/{namespace}/gpujobs/told"
    # kubectl reads before it patches, which the operator may not, and does not.
    assert (
        "cannot get resource" in run(cluster, "kubectl", f"--kubeconfig={as_operator}", "get", f"--raw={path}").stderr
    )
    told = patch(as_operator, f"{path}/status", {"status": {"state": "Queued", "observedGeneration": 1}})
    assert told["status"]["state"] == "Queued"
    with pytest.raises(HTTPError, match="403"):
        patch(as_operator, path, {"metadata": {"labels": {"a": "b"}}})


def patch(kubeconfig: Path, path: str, change: dict[str, Any]) -> dict[str, Any]:
    """The object after a merge patch by the user of a kubeconfig that holds a token."""
    config = json.loads(kubeconfig.read_text())
    (server,) = (each["cluster"] for each in config["clusters"])
    (user,) = (each["user"] for each in config["users"])
    authority = ssl.create_default_context(cadata=base64.b64decode(server["certificate-authority-data"]).decode())
    headers = {"Authorization": f"Bearer {user['token']}", "Content-Type": "application/merge-patch+json"}
    request = Request(server["server"] + path, json.dumps(change).encode(), headers, method="PATCH")
    with urlopen(request, context=authority, timeout=30) as answer:
        changed: dict[str, Any] = json.load(answer)
    return changed


@pytest.mark.parametrize("cascade", ["foreground", "background"])
@pytest.mark.parametrize("blocking", [False, True])
def test_deleting_a_job_takes_its_children_and_does_not_hang(
    cluster: Cluster, namespace: str, cascade: str, blocking: bool
) -> None:
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("owner", namespace, nodes=1))
    uid = get(cluster, "gpujobs", "owner", f"-n{namespace}")["metadata"]["uid"]
    for child in (job("child", namespace, uid, blocking=blocking), service("child", namespace, uid)):
        kubectl(cluster, "create", "-f", "-", stdin=json.dumps(child))
    kubectl(cluster, "delete", "gpujobs", "owner", f"-n{namespace}", f"--cascade={cascade}", "--timeout=30s")
    left = ("get", "jobs,pods,services", f"-n{namespace}", "--output=name")
    eventually(lambda: not kubectl(cluster, *left).strip(), what="end of the children")


def test_a_namespace_with_jobs_can_be_deleted(cluster: Cluster, namespace: str) -> None:
    for name in ("one", "two"):
        kubectl(cluster, "create", "-f", "-", stdin=gpujob(name, namespace, nodes=1))
    kubectl(cluster, "delete", "gpujobs", "one", f"-n{namespace}", "--cascade=foreground", "--wait=false")
    kubectl(cluster, "delete", "namespace", namespace, "--timeout=60s")
