"""The chart on a real API server, for tests of what it brings: no operator runs (replicaCount=0), for nodes are simulated."""

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.contract.test_chart_rendering import CHART, NAMESPACE, RELEASE, REPOSITORY_OF_AN_ADMIN
from tests.e2e.cluster import Cluster, eventually

POLICY = "requester-may-create-pods.gpujob.dev"
OF_CHILDREN = "children-are-the-operators.gpujob.dev"
OF_OPERATOR = f"the-operator-writes-children-only.{RELEASE}.gpujob.dev"
OF_PODS = f"pods-of-children-are-confined.{RELEASE}.gpujob.dev"
OF_IMAGES = "images-are-allowed.gpujob.dev"
OF_ACCOUNTS = "accounts-are-allowed.gpujob.dev"
IMAGE = f"--set=image.repository={REPOSITORY_OF_AN_ADMIN}"
"""Without replicas no image is pulled, but a Deployment has the name of one."""
CRDS = {f"{plural}.gpujob.dev" for plural in ("gpujobprofiles", "gpujobs", "gpupools", "gpuruntimes")}
names = (f"team-{number}" for number in itertools.count())
"""Namespaces that no test had yet."""


def run(cluster: Cluster, program: str, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """One run of kubectl or helm, or of a program by its path, whatever its answer."""
    command = [program if "/" in program else cluster.tool(program), *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, env=cluster.environment(), timeout=120
    )


def kubectl(cluster: Cluster, *arguments: str, stdin: str | None = None) -> str:
    """The answer of a kubectl that must succeed."""
    done = run(cluster, "kubectl", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def helm(cluster: Cluster, verb: str, *arguments: str, program: str = "helm") -> str:
    """The answer of a helm that must succeed."""
    done = run(cluster, program, verb, RELEASE, *arguments, f"--namespace={NAMESPACE}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def get(cluster: Cluster, *what: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(kubectl(cluster, "get", *what, "--output=json"))
    return answer


def install(cluster: Cluster, chart: Path = CHART, program: str = "helm") -> None:
    """The chart without a running operator, in place of one that an interrupted test left."""
    run(cluster, "helm", "uninstall", RELEASE, f"--namespace={NAMESPACE}", "--ignore-not-found", "--wait")
    # Other tests of this session may have applied the CRDs by themselves: Helm takes them over.
    helm(cluster, "install", str(chart), "--set=replicaCount=0", IMAGE, "--take-ownership", program=program)


def ensure_namespace(cluster: Cluster, name: str, **labels: str) -> str:
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    kubectl(cluster, "apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))
    eventually(lambda: run(cluster, "kubectl", "get", "serviceaccount", "default", f"-n{name}").returncode == 0)
    return name


def kubeconfig_of(cluster: Cluster, account: str, namespace: str, folder: Path) -> Path:
    """A kubeconfig with a token of a ServiceAccount."""
    token = kubectl(cluster, "create", "token", account, f"--namespace={namespace}").strip()
    config = json.loads(kubectl(cluster, "config", "view", "--raw", "--flatten", "--minify", "--output=json"))
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path


def everything(cluster: Cluster) -> set[str]:
    """All objects of the cluster by kind, namespace and name, without those that come and go by themselves."""
    kinds = kubectl(cluster, "api-resources", "--verbs=list", "--output=name").split()
    passing = ("events", "leases.", "endpointslices.", "componentstatuses", "ipaddresses.", "servicecidrs.")
    wanted = ",".join(kind for kind in kinds if not kind.startswith(passing))
    columns = "--output=custom-columns=:.kind,:.metadata.namespace,:.metadata.name"
    lines = kubectl(cluster, "get", wanted, "--all-namespaces", columns, "--no-headers", "--ignore-not-found")
    return {" ".join(line.split()) for line in lines.splitlines() if line.strip()}


def gpujob(name: str, namespace: str, **spec: Any) -> str:
    metadata = {"name": name, "namespace": namespace}
    return json.dumps({"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": metadata, "spec": spec})


def allow(cluster: Cluster, namespace: str, user: str, role: str) -> None:
    kubectl(
        cluster, "create", "rolebinding", f"{user}-{role}", f"--clusterrole={role}", f"--user={user}", f"-n{namespace}"
    )


def jobs_only(cluster: Cluster, namespace: str, user: str) -> None:
    """Every right on GPUJobs in a namespace and none on pods."""
    verbs = "--verb=create,get,list,watch,update,patch,delete"
    kubectl(cluster, "create", "role", f"{user}-jobs", verbs, "--resource=gpujobs.gpujob.dev", f"-n{namespace}")
    kubectl(cluster, "create", "rolebinding", f"{user}-jobs", f"--role={user}-jobs", f"--user={user}", f"-n{namespace}")


def submit(cluster: Cluster, manifest: str, user: str) -> subprocess.CompletedProcess[str]:
    return run(cluster, "kubectl", "create", f"--as={user}", "--dry-run=server", "-f", "-", stdin=manifest)


def owned(name: str, namespace: str, uid: str, *, blocking: bool = False) -> dict[str, Any]:
    """The metadata of a child of the GPUJob `owner`."""
    reference = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "name": "owner", "uid": uid}
    owner = {**reference, "controller": True, "blockOwnerDeletion": blocking}
    return {"name": name, "namespace": namespace, "ownerReferences": [owner]}


def job(name: str, namespace: str, uid: str, *, blocking: bool = False) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "securityContext": {"allowPrivilegeEscalation": False}}
    pod = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]}
    spec = {"backoffLimit": 0, "template": {"spec": pod}}
    metadata = owned(name, namespace, uid, blocking=blocking)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def service(name: str, namespace: str, uid: str) -> dict[str, Any]:
    spec = {"clusterIP": "None", "selector": {"a": "b"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": owned(name, namespace, uid), "spec": spec}


def event(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "placed", "namespace": namespace},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "gpujob.dev/operator",
        "reportingInstance": "proof",
        "action": "Place",
        "reason": "Placed",
        "type": "Normal",
        "regarding": {"kind": "GPUJob", "name": "owner", "namespace": namespace},
    }
