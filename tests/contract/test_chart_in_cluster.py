"""The chart on a real API server: installing, the rights of the operator's token, and the policy for people.

No operator runs here (replicaCount=0): on pretended nodes a Deployment would prove nothing.
"""

import base64
import itertools
import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml

from gpujob.runner_files import load_runner
from tests.contract.test_chart_rendering import CHART, NAMESPACE, RELEASE, SAMPLES, notes, one, rendered
from tests.e2e.chart import let_children_go
from tests.e2e.cluster import Cluster, eventually

pytestmark = pytest.mark.e2e

POLICY = "requester-may-create-pods.gpujob.dev"
CRDS = {f"{plural}.gpujob.dev" for plural in ("gpujobprofiles", "gpujobs", "gpupools", "gpuruntimes")}
OPERATOR = f"system:serviceaccount:{NAMESPACE}:gpujob-operator"
_names = (f"team-{number}" for number in itertools.count())


def run(cluster: Cluster, program: str, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """One run of kubectl or helm, whatever its answer."""
    command = [cluster.tool(program), *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, env=cluster.environment(), timeout=120
    )


def kubectl(cluster: Cluster, *arguments: str, stdin: str | None = None) -> str:
    """The answer of a kubectl that must succeed."""
    done = run(cluster, "kubectl", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def helm(cluster: Cluster, verb: str, *arguments: str) -> str:
    """The answer of a helm that must succeed."""
    done = run(cluster, "helm", verb, RELEASE, *arguments, f"--namespace={NAMESPACE}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def get(cluster: Cluster, *what: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(kubectl(cluster, "get", *what, "--output=json"))
    return answer


def install(cluster: Cluster, chart: Path = CHART) -> None:
    """The chart without a running operator, in place of one that an interrupted test left."""
    run(cluster, "helm", "uninstall", RELEASE, f"--namespace={NAMESPACE}", "--ignore-not-found", "--wait")
    # Other tests of this session may have applied the CRDs by themselves: Helm takes them over.
    helm(cluster, "install", str(chart), "--set=replicaCount=0", "--take-ownership")


def ensure_namespace(cluster: Cluster, name: str, **labels: str) -> str:
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    kubectl(cluster, "apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))
    eventually(lambda: run(cluster, "kubectl", "get", "serviceaccount", "default", f"-n{name}").returncode == 0)
    return name


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


# --- Installing; first, before anything else of the chart is there ----------------------------------------------------


def test_install_upgrade_uninstall_leaves_crds_and_jobs_and_nothing_else(cluster: Cluster) -> None:
    ensure_namespace(cluster, NAMESPACE)
    namespace = ensure_namespace(cluster, next(_names))
    before = everything(cluster)
    install(cluster)
    assert {f"CustomResourceDefinition <none> {name}" for name in CRDS} <= everything(cluster)
    deployment = get(cluster, "deployment", RELEASE, f"-n{NAMESPACE}")
    assert deployment["spec"]["replicas"] == 0

    kubectl(cluster, "create", "-f", "-", stdin=gpujob("kept", namespace, nodes=1))
    uid = get(cluster, "gpujobs", "kept", f"-n{namespace}")["metadata"]["uid"]
    helm(cluster, "upgrade", str(CHART), "--set=replicaCount=0", "--set=logLevel=debug")
    (container,) = get(cluster, "deployment", RELEASE, f"-n{NAMESPACE}")["spec"]["template"]["spec"]["containers"]
    assert {"name": "GPUJOB_LOG_LEVEL", "value": "debug"} in container["env"]

    helm(cluster, "uninstall", "--wait")
    kept = {f"CustomResourceDefinition <none> {name}" for name in CRDS}
    # The API server itself adds an APIService for the CRDs' group.
    assert everything(cluster) - before - kept <= {f"GPUJob {namespace} kept", "APIService <none> v1alpha1.gpujob.dev"}
    assert kept <= everything(cluster)
    assert get(cluster, "gpujobs", "kept", f"-n{namespace}")["metadata"]["uid"] == uid
    # Nothing of an uninstalled operator holds the namespace.
    kubectl(cluster, "delete", "namespace", namespace, "--timeout=60s")


@pytest.fixture
def rights(tmp_path: Path) -> Path:
    """The chart with its rights alone: 22 upgrades of all of it take more than a minute."""
    chart = tmp_path / "gpujob-operator"
    shutil.copytree(CHART, chart, ignore=shutil.ignore_patterns("crds", "monitoring"))
    for template in (chart / "templates").iterdir():
        if template.name not in ("_names.tpl", "rbac.yaml"):
            template.unlink()
    return chart


def test_an_upgrade_keeps_the_right_to_remove_the_runners_of_earlier_versions(cluster: Cluster, rights: Path) -> None:
    def granted() -> list[tuple[list[str], list[str]]]:
        rules = get(cluster, "clusterrole", RELEASE)["rules"]
        return [(rule["resourceNames"], rule["verbs"]) for rule in rules if "configmaps" in rule["resources"]]

    def upgrade(*runners: str) -> None:
        for runner in runners:
            (rights / "files" / "runner-name").write_text(f"{runner}\n")
            helm(cluster, "upgrade", str(rights))

    ensure_namespace(cluster, NAMESPACE)
    install(cluster, rights)
    first, second, third = load_runner().name, "gpujob-runner-00000000b2", "gpujob-runner-00000000c3"
    own = ["create", "delete", "list", "patch", "watch"]
    assert granted() == [([first], own)]
    upgrade(second, third)
    assert granted() == [([third], own), ([second, first], ["delete", "get"])]
    upgrade(third, second)
    assert granted() == [([second], own), ([third, first], ["delete", "get"])]
    many = [f"gpujob-runner-{number:010x}" for number in range(18)]
    upgrade(*many)
    assert granted() == [([many[-1]], own), (many[-2:-18:-1], ["delete", "get"])]
    helm(cluster, "uninstall", "--wait")


def test_an_upgrade_brings_the_crds_of_the_chart(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    old = tmp_path / "gpujob-operator"
    shutil.copytree(CHART, old)
    (file,) = (old / "files" / "crds").glob("*gpujobs.yaml")
    crd = yaml.safe_load(file.read_text())
    crd["spec"]["names"]["shortNames"] = ["oldgj"]
    del crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["suspend"]
    file.write_text(yaml.safe_dump(crd))

    helm(cluster, "upgrade", str(old), "--set=replicaCount=0")
    names = ("gpujobs.gpujob.dev", "--output=jsonpath={.spec.names.shortNames}")
    assert kubectl(cluster, "get", "crd", *names) == '["oldgj"]'
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("before", namespace, nodes=1))
    helm(cluster, "upgrade", str(CHART), "--set=replicaCount=0")
    assert kubectl(cluster, "get", "crd", *names) == '["gj"]'
    before = get(cluster, "gpujobs.gpujob.dev", "before", f"-n{namespace}")
    assert before["spec"]["nodes"] == 1
    with_new_field = gpujob("after", namespace, suspend=True)
    created = ("create", "--validate=strict", "-f", "-")
    eventually(lambda: run(cluster, "kubectl", *created, stdin=with_new_field).returncode == 0, what="the new field")


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[None]:
    """The chart in the cluster, with its policy in force."""
    ensure_namespace(cluster, NAMESPACE)
    install(cluster)
    namespace = ensure_namespace(cluster, next(_names))
    allow(cluster, namespace, "prober", "gpujob-viewer")
    jobs_only(cluster, namespace, "prober")
    attempt = gpujob("probe", namespace)
    # The API server notices a new policy after a moment.
    eventually(lambda: POLICY in submit(cluster, attempt, "prober").stderr, what="policy in force")
    let_children_go(cluster)
    yield
    helm(cluster, "uninstall", "--wait")


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


@pytest.fixture
def namespace(cluster: Cluster, installed: None) -> str:
    """A namespace of the test's own."""
    return ensure_namespace(cluster, next(_names))


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_api_server_accepts_every_object(cluster: Cluster, sample: str, installed: None) -> None:
    for each in rendered(SAMPLES[sample]):
        if each["apiVersion"].startswith("monitoring.coreos.com/"):
            continue  # The kinds of prometheus-operator, which is not here; test_monitoring_of_the_chart reads them.
        kubectl(
            cluster, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-",
            stdin=json.dumps(each),
        )  # fmt: skip


def test_the_api_server_finds_no_fault_with_the_policys_expressions(cluster: Cluster, installed: None) -> None:
    def checked() -> dict[str, Any]:
        policy = get(cluster, "validatingadmissionpolicy", POLICY)
        status: dict[str, Any] = policy.get("status", {})
        return status if status.get("observedGeneration") == policy["metadata"]["generation"] else {}

    status = eventually(checked, what="type check of the policy")
    assert status.get("typeChecking", {}).get("expressionWarnings", []) == []


def test_the_operators_pod_passes_restricted_pod_security(cluster: Cluster, installed: None) -> None:
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = ensure_namespace(cluster, next(_names), **restricted)
    kubectl(cluster, "create", "serviceaccount", "gpujob-operator", f"-n{namespace}")
    template = one(rendered(), "Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}, "spec": template["spec"]}
    kubectl(cluster, "create", f"-n{namespace}", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


def test_the_notes_can_be_followed(cluster: Cluster, namespace: str) -> None:
    text = notes({}).replace("--namespace default", f"--namespace {namespace}").replace("TEAM", namespace)
    apply = text[text.index("kubectl apply") :].split("\nEOF\n")[0] + "\nEOF\n"
    shell(cluster, apply)
    # No operator ran the job, so there is no log to read, neither its nor the operator's.
    lines = [
        line for line in text.replace(apply, "").splitlines() if line.startswith("kubectl ") and " logs " not in line
    ]
    assert len(lines) == 5
    for line in lines:
        shell(cluster, line)
    kubectl(cluster, "delete", "clusterrolebinding", "gpujob-pool-viewers")


def shell(cluster: Cluster, script: str) -> None:
    """Runs what a reader pastes; it must succeed."""
    command = ["sh", "-ec", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=cluster.environment(), timeout=60)
    assert done.returncode == 0, f"{script}: {done.stderr}"


# --- The operator's token ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def as_operator(cluster: Cluster, installed: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with a token of the chart's ServiceAccount, as an operator outside a pod uses it."""
    token = kubectl(cluster, "create", "token", "gpujob-operator", f"--namespace={NAMESPACE}").strip()
    config = json.loads(kubectl(cluster, "config", "view", "--raw", "--flatten", "--minify", "--output=json"))
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    path = tmp_path_factory.mktemp("operator") / "kubeconfig"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path


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
    for child in (job("child", namespace, uid), service("child", namespace, uid), event(namespace), LEASE):
        kubectl(cluster, f"--kubeconfig={as_operator}", "create", "-f", "-", stdin=json.dumps(child))
    patch = '{"spec":{"holderIdentity":"me"}}'
    patched = ("patch", "lease", "proof", f"-n{NAMESPACE}", "--type=merge", f"--patch={patch}")
    kubectl(cluster, f"--kubeconfig={as_operator}", *patched)
    for kind in ("job", "service"):
        kubectl(cluster, f"--kubeconfig={as_operator}", "get", kind, "child", f"-n{namespace}")
    delete = ("delete", "job", "child", f"-n{namespace}", "--cascade=background", "--wait=false")
    kubectl(cluster, f"--kubeconfig={as_operator}", *delete)
    kubectl(cluster, "delete", "lease", "proof", f"-n{NAMESPACE}")


LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "proof", "namespace": NAMESPACE},
    "spec": {},
}


def owned(name: str, namespace: str, uid: str, *, blocking: bool = False) -> dict[str, Any]:
    """The metadata of a child of the GPUJob `owner`."""
    reference = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "name": "owner", "uid": uid}
    owner = {**reference, "controller": True, "blockOwnerDeletion": blocking}
    return {"name": name, "namespace": namespace, "ownerReferences": [owner]}


def job(name: str, namespace: str, uid: str, *, blocking: bool = False) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
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


# --- People -----------------------------------------------------------------------------------------------------------


def test_who_may_not_create_pods_is_refused_with_the_remedy(cluster: Cluster, namespace: str) -> None:
    jobs_only(cluster, namespace, "bob")
    done = submit(cluster, gpujob("mine", namespace), "bob")
    assert done.returncode != 0
    assert "(Forbidden)" in done.stderr
    assert (
        "you may create GPUJobs only where you may create pods: ask for the verb create on pods in namespace "
        f"{namespace}\n"
    ) in done.stderr


@pytest.mark.parametrize("role", ["gpujob-editor", "edit", "admin"])
def test_editors_run_jobs_where_they_are_bound_and_nowhere_else(cluster: Cluster, namespace: str, role: str) -> None:
    allow(cluster, namespace, "eve", role)
    # Built-in roles gain their rights when the controller has seen ours.
    eventually(lambda: submit(cluster, gpujob("mine", namespace), "eve").returncode == 0, what=f"{role} that may")
    assert "(Forbidden)" in submit(cluster, gpujob("mine", "default"), "eve").stderr
    status = ("auth", "can-i", "patch", "gpujobs.gpujob.dev", "--subresource=status", "--as=eve", f"-n{namespace}")
    assert run(cluster, "kubectl", *status).stdout == "no\n"


@pytest.mark.parametrize("role", ["gpujob-viewer", "view"])
def test_viewers_see_jobs_and_write_none(cluster: Cluster, namespace: str, role: str) -> None:
    allow(cluster, namespace, "vera", role)
    listed = ("get", "gpujobs", f"-n{namespace}", "--as=vera")
    eventually(lambda: run(cluster, "kubectl", *listed).returncode == 0, what=f"{role} that may look")
    assert "cannot create resource" in submit(cluster, gpujob("mine", namespace), "vera").stderr


@pytest.mark.parametrize(
    ("role", "verb", "answer"),
    [
        ("gpujob-pool-viewer", "list", "yes"),
        ("gpujob-pool-viewer", "create", "no"),
        ("gpujob-pool-admin", "create", "yes"),
        ("gpujob-editor", "create", "no"),
    ],
)
def test_pools_are_for_pool_roles(cluster: Cluster, installed: None, role: str, verb: str, answer: str) -> None:
    user = f"{role}-{verb}"
    kubectl(cluster, "create", "clusterrolebinding", user, f"--clusterrole={role}", f"--user={user}")
    for kind in ("gpupools.gpujob.dev", "gpuruntimes.gpujob.dev"):
        asked = ("auth", "can-i", verb, kind, f"--as={user}", "--all-namespaces")
        eventually(lambda asked=asked: run(cluster, "kubectl", *asked).stdout == f"{answer}\n")
    kubectl(cluster, "delete", "clusterrolebinding", user)


def test_without_pods_the_spec_is_fixed_and_the_rest_is_not(cluster: Cluster, namespace: str) -> None:
    jobs_only(cluster, namespace, "bob")
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("theirs", namespace, nodes=1))

    def patch(change: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        asked = ("patch", "gpujobs", "theirs", f"-n{namespace}", "--as=bob", "--type=merge")
        return run(cluster, "kubectl", *asked, f"--patch={json.dumps(change)}")

    assert patch({"metadata": {"annotations": {"example.com/note": "seen"}}}).returncode == 0
    refused = patch({"spec": {"nodes": 2}})
    assert POLICY in refused.stderr
    assert POLICY in patch({"spec": {"suspend": True}}).stderr
    assert get(cluster, "gpujobs", "theirs", f"-n{namespace}")["spec"]["nodes"] == 1
    kubectl(cluster, "delete", "gpujobs", "theirs", f"-n{namespace}", "--as=bob", "--timeout=30s")


def test_a_large_job_is_checked_too(cluster: Cluster, namespace: str) -> None:
    jobs_only(cluster, namespace, "bob")
    arguments = [f"--argument-{number}={'x' * 150}" for number in range(1000)]
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("large", namespace, args=arguments))
    label = ("label", "gpujobs", "large", "size=large", f"-n{namespace}", "--as=bob")
    kubectl(cluster, *label)


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
