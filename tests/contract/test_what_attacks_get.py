"""Attacks: what a user writes, or does with a stolen token, to get more than his pods may; each is refused at the earliest place.

The rows of attacks.yaml are manifests of GPUJobs. What other objects of a cluster can hold against the operator (labels, statuses,
replies of pods) is in tests/unit: test_hostile_objects, test_hostile_children, test_fetching_reports, test_reading_reports.
"""

import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml

from gpujob.api.manifest import read_gpujob
from gpujob.values.errors import BadInput
from tests.contract.chart_in_cluster import (
    OF_IMAGES,
    OF_OPERATOR,
    OF_PODS,
    ensure_namespace,
    get,
    gpujob,
    helm,
    job,
    kubectl,
    names,
    run,
    service,
)
from tests.contract.test_chart_rendering import CHART, NAMESPACE, RELEASE, rendered
from tests.e2e.api_server import GPUJOBS, ApiServer, Refused
from tests.e2e.cluster import Cluster, eventually

Object = dict[str, Any]
ROWS = yaml.safe_load((Path(__file__).parent / "attacks.yaml").read_text())
UID = "00000000-0000-4000-8000-000000000000"


def named(row: Object) -> str:
    return str(row["attack"])


def manifest(spec: Object) -> Object:
    return json.loads(gpujob("attack", "team", **spec))  # type: ignore[no-any-return]


def keys(value: Any) -> Iterator[str]:
    """Every key of an object, however deep."""
    if isinstance(value, dict):
        yield from value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys(each)


def test_the_table_is_long_and_no_row_is_twice() -> None:
    assert len({json.dumps(row["spec"], sort_keys=True) for row in ROWS}) == len(ROWS) >= 60
    assert len({named(row) for row in ROWS}) == len(ROWS)
    page = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    assert f"{len(ROWS)} manifests that try to get more" in page


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_the_command_line_refuses_it(row: Object) -> None:
    with pytest.raises(BadInput) as told:
        read_gpujob(manifest(row["spec"]))
    assert (f"{row['pruned']}: unknown field" if "pruned" in row else row["says"]) in str(told.value)


@pytest.mark.e2e
@pytest.mark.parametrize("row", ROWS, ids=named)
def test_the_api_server_refuses_it_or_drops_the_field(api: ApiServer, installed: None, row: Object) -> None:
    path, body = GPUJOBS.format("default"), {**manifest(row["spec"]), "metadata": {"name": "attack"}}
    with pytest.raises(Refused) as told:
        api.try_out(path, body)
    assert ("unknown field" if "pruned" in row else row.get("server", row["says"])) in told.value.message
    if "pruned" in row:
        try:
            stored = api.create(f"{path}?dryRun=All&fieldValidation=Ignore", body)
        except Refused:
            return  # Without the field the rest is no job.
        assert row["pruned"] not in keys(stored.get("spec", {}))


# --- The operator's token in other hands ------------------------------------------------------------------------------


def child(namespace: str, **pod: Any) -> Object:
    """The child Job of a GPUJob, as the operator makes it, with more in its pod."""
    made = job("child", namespace, UID)
    made["metadata"]["labels"] = {"gpujob.dev/job-uid": UID}
    made["spec"]["template"]["spec"] |= {"automountServiceAccountToken": False, "containers": container(), **pod}
    return made


def container(**security: Any) -> list[Object]:
    return [{"name": "main", "image": "none", "securityContext": {"allowPrivilegeEscalation": False, **security}}]


def on_port(port: int) -> list[Object]:
    return [{**container()[0], "ports": [{"containerPort": port, "hostPort": port}]}]


def host_path(path: str) -> list[Object]:
    return [{"name": "h", "hostPath": {"path": path}}]


def projected(more: Object | None = None, **source: Object) -> list[Object]:
    return [{"name": "p", "projected": {"sources": [source, *([more] if more else [])]}}]


def with_variable(made: Object, name: str = "NVIDIA_VISIBLE_DEVICES", **said: Any) -> Object:
    made["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": name, **said}]
    return made


def annotated(made: Object, **annotations: str) -> Object:
    made["spec"]["template"]["metadata"] = {"annotations": annotations}
    return made


def with_host_devices(made: Object) -> Object:
    made["spec"]["template"]["metadata"] = {"labels": {"gpujob.dev/host-devices": "true"}}
    return made


def owned_by(made: Object, **owner: Any) -> Object:
    made["metadata"]["ownerReferences"] = [{**made["metadata"]["ownerReferences"][0], **owner}] if owner else []
    return made


def labelled(made: Object, **labels: str) -> Object:
    made["metadata"]["labels"] = labels
    return made


CONTROLS = "the operator's account creates and deletes only what a GPUJob controls and is labelled with its uid"
TOKEN = "the operator's account makes only pods without a token, of the account default or one of admission.allowedServiceAccounts"
OF_HOST = (
    "the operator's account mounts nothing of the host but the device files of a GPUPool with deviceMode HostDevices: "
    "the chart's admission.hostDevices is false"
)
PRIVILEGED = (
    "the operator's account makes containers with allowPrivilegeEscalation: false, and privileged ones only for a GPUPool with "
    "deviceMode HostDevices: the chart's admission.hostDevices is false"
)
JOBS, SERVICES = "/apis/batch/v1/namespaces/{}/jobs", "/api/v1/namespaces/{}/services"
POOL = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": "stolen"},
        "spec": {"nodeSelector": {"matchLabels": {"a": "b"}}}}  # fmt: skip
OTHER_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-others"}}

VOLUMES = "the operator's account mounts only volumes of the kinds that a GPUJob may name, without a token"
BINDING = (
    "leaves binding to the scheduler, and tolerates only taints that it names: no nodeName, no toleration without a key"
)
ASSIGNS = "the operator's account assigns no devices by variables or annotations: NVIDIA_VISIBLE_DEVICES is void"
NETWORK = "makes no pods on the network of the host: the chart's admission.hostNetwork is false"
SECCOMP = "makes no pods without a seccomp profile, with sysctls, or with an unmasked /proc"
ISCSI = [{"name": "n", "iscsi": {"targetPortal": "a", "iqn": "iqn.2001-04.a:b", "lun": 0}}]
NAMED = {"key": "nvidia.com/gpu", "operator": "Exists"}
NO_MAP = "no ConfigMap but its runner's"
DISCOVERED = "only GPUPools with the label gpujob.dev/discovered=true"
RUNNERS = "/api/v1/namespaces/{}/configmaps"
ALL = {"privileged": True, "allowPrivilegeEscalation": True}
INIT = [{**container(**ALL)[0], "name": "init"}]
UID_LABEL = "gpujob.dev/job-uid"

STOLEN: dict[str, tuple[str, Any, str, str]] = {
    "a job of nobody": (JOBS, lambda ns: owned_by(child(ns)), OF_OPERATOR, CONTROLS),
    "a job of a Deployment": (JOBS, lambda ns: owned_by(child(ns), kind="Deployment"), OF_OPERATOR, CONTROLS),
    "a job of another group": (JOBS, lambda ns: owned_by(child(ns), apiVersion="evil.dev/v1"), OF_OPERATOR, CONTROLS),
    "a group that begins alike": (JOBS, lambda ns: owned_by(child(ns), apiVersion="gpujob.dev.evil/v1"), OF_OPERATOR, CONTROLS),
    "an owner that does not control": (JOBS, lambda ns: owned_by(child(ns), controller=False), OF_OPERATOR, CONTROLS),
    "a job labelled as another's": (JOBS, lambda ns: labelled(child(ns), **{UID_LABEL: "other"}), OF_OPERATOR, CONTROLS),
    "a job without labels": (JOBS, lambda ns: labelled(child(ns)), OF_OPERATOR, CONTROLS),
    "a service of nobody": (SERVICES, lambda ns: owned_by(service("s", ns, UID)), OF_OPERATOR, CONTROLS),
    "a service without the label": (SERVICES, lambda ns: service("s", ns, UID), OF_OPERATOR, CONTROLS),
    "a token": (JOBS, lambda ns: child(ns, automountServiceAccountToken=True), OF_PODS, TOKEN),
    "an account": (JOBS, lambda ns: child(ns, serviceAccountName="admin"), OF_PODS, TOKEN),
    "processes of the host": (JOBS, lambda ns: child(ns, hostPID=True), OF_PODS, "process or IPC namespace of the host"),
    "IPC of the host": (JOBS, lambda ns: child(ns, hostIPC=True), OF_PODS, "process or IPC namespace of the host"),
    "the host's root": (JOBS, lambda ns: child(ns, volumes=host_path("/")), OF_PODS, OF_HOST),
    "devices without a pool's word": (JOBS, lambda ns: child(ns, volumes=host_path("/dev/kfd")), OF_PODS, OF_HOST),
    "the host's root beside devices": (JOBS, lambda ns: with_host_devices(child(ns, volumes=host_path("/etc"))), OF_PODS, OF_HOST),
    "a privileged container": (JOBS, lambda ns: child(ns, containers=container(**ALL)), OF_PODS, PRIVILEGED),
    "a privileged init container": (
        JOBS, lambda ns: child(ns, containers=container(), initContainers=INIT), OF_PODS, PRIVILEGED),
    "more rights later": (JOBS, lambda ns: child(ns, containers=container(allowPrivilegeEscalation=True)), OF_PODS, PRIVILEGED),
    "rights that nobody took away": (JOBS, lambda ns: child(ns, containers=[{"name": "main", "image": "none"}]), OF_PODS, PRIVILEGED),
    "a capability": (JOBS, lambda ns: child(ns, containers=container(capabilities={"add": ["IPC_LOCK", "SYS_ADMIN"]})), OF_PODS,
                     "adds no capability but IPC_LOCK"),
    "another file of devices": (JOBS, lambda ns: with_host_devices(child(ns, volumes=host_path("/dev/sda"))), OF_PODS, OF_HOST),
    "more than a GPU's file": (JOBS, lambda ns: with_host_devices(child(ns, volumes=host_path("/dev/nvidia0/x"))), OF_PODS, OF_HOST),
    "a projected token": (JOBS, lambda ns: child(ns, volumes=projected(serviceAccountToken={"path": "t"})), OF_PODS, VOLUMES),
    "a projected token beside a map": (
        JOBS, lambda ns: child(ns, volumes=projected(configMap={"name": "a"}, more={"serviceAccountToken": {"path": "t"}})),
        OF_PODS, VOLUMES),
    "an NFS share": (JOBS, lambda ns: child(ns, volumes=[{"name": "n", "nfs": {"server": "a", "path": "/"}}]), OF_PODS, VOLUMES),
    "a disk of the network": (JOBS, lambda ns: child(ns, volumes=ISCSI), OF_PODS, VOLUMES),
    "a repository as root": (JOBS, lambda ns: child(ns, volumes=[{"name": "n", "gitRepo": {"repository": "a"}}]), OF_PODS, VOLUMES),
    "a node by name": (JOBS, lambda ns: child(ns, nodeName="control-plane"), OF_PODS, BINDING),
    "every taint": (JOBS, lambda ns: child(ns, tolerations=[{"operator": "Exists"}]), OF_PODS, BINDING),
    "every taint with an effect": (
        JOBS, lambda ns: child(ns, tolerations=[NAMED, {"operator": "Exists", "effect": "NoSchedule"}]), OF_PODS, BINDING),
    "all GPUs by a variable": (JOBS, lambda ns: with_variable(child(ns), value="all"), OF_PODS, ASSIGNS),
    "GPUs by a variable of a map": (JOBS, lambda ns: with_variable(
        child(ns), valueFrom={"configMapKeyRef": {"name": "a", "key": "b"}}), OF_PODS, ASSIGNS),
    "AMD's GPUs by a variable": (JOBS, lambda ns: with_variable(child(ns), "AMD_VISIBLE_DEVICES", value="all"), OF_PODS, ASSIGNS),
    "GPUs by an annotation": (JOBS, lambda ns: annotated(child(ns), **{"cdi.k8s.io/x": "nvidia.com/gpu=all"}), OF_PODS, ASSIGNS),
    "a port of the host": (JOBS, lambda ns: child(ns, containers=on_port(80)), OF_PODS, "takes no port of the host"),
    "sysctls": (JOBS, lambda ns: child(ns, securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}), OF_PODS, SECCOMP),
    "no seccomp": (JOBS, lambda ns: child(ns, securityContext={"seccompProfile": {"type": "Unconfined"}}), OF_PODS, SECCOMP),
    "no seccomp of a container": (
        JOBS, lambda ns: child(ns, containers=container(seccompProfile={"type": "Unconfined"})), OF_PODS, SECCOMP),
    "all of /proc": (JOBS, lambda ns: child(ns, containers=container(procMount="Unmasked"), hostUsers=False), OF_PODS, SECCOMP),
    # What GPUPools may give where the chart allows it, which it does not by default.
    "the host's devices": (JOBS, lambda ns: with_host_devices(child(ns, volumes=host_path("/dev/kfd"))), OF_PODS, OF_HOST),
    "privileged for the host's devices": (
        JOBS, lambda ns: with_host_devices(child(ns, containers=container(**ALL))), OF_PODS, PRIVILEGED),
    "the host's devices by a variable": (JOBS, lambda ns: with_host_devices(with_variable(child(ns), value="all")), OF_PODS, ASSIGNS),
    "the network of the host": (JOBS, lambda ns: child(ns, hostNetwork=True), OF_PODS, NETWORK),
    "a port of the host's network": (JOBS, lambda ns: child(ns, hostNetwork=True, containers=on_port(62000)), OF_PODS, NETWORK),
    "another's ConfigMap": (RUNNERS, lambda ns: OTHER_MAP, OF_OPERATOR, NO_MAP),
    "a runner of another form": (RUNNERS, lambda ns: {**OTHER_MAP, "metadata": {"name": "gpujob-runner-x"}}, OF_OPERATOR, NO_MAP),
    "an admin's pool": ("/apis/gpujob.dev/v1alpha1/gpupools", lambda ns: POOL, OF_OPERATOR, DISCOVERED),
}  # fmt: skip


def ask(kubeconfig: Path, method: str, path: str, body: Object | None = None) -> tuple[int, str]:
    """Code and message of a request by the user of a kubeconfig that holds a token; nothing is done."""
    config = json.loads(kubeconfig.read_text())
    (server,) = (each["cluster"] for each in config["clusters"])
    (user,) = (each["user"] for each in config["users"])
    authority = ssl.create_default_context(cadata=base64.b64decode(server["certificate-authority-data"]).decode())
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"Authorization": f"Bearer {user['token']}", "Content-Type": kind}
    sent = json.dumps(body).encode() if body is not None else None
    request = Request(f"{server['server']}{path}?dryRun=All", sent, headers, method=method)
    try:
        with urlopen(request, context=authority, timeout=30) as answer:
            return answer.status, ""
    except HTTPError as error:
        return error.code, str(json.load(error).get("message", ""))


@pytest.mark.e2e
@pytest.mark.parametrize("attack", STOLEN)
def test_a_stolen_token_makes_no_more_than_children(as_operator: Path, namespace: str, attack: str) -> None:
    path, make, policy, said = STOLEN[attack]
    code, message = eventually(
        lambda: (
            answer if (answer := ask(as_operator, "POST", path.format(namespace), make(namespace)))[0] >= 300 else None
        ),
        what="policy in force",
    )
    assert code == 403
    # RBAC knows the runner's name, and answers first where it is another.
    if "configmaps" in path:
        assert policy in message or "cannot create resource" in message or said in message
    else:
        assert policy in message
        assert said in message


@pytest.mark.e2e
def test_what_the_operator_makes_passes(as_operator: Path, namespace: str) -> None:
    plain = child(namespace, containers=container(capabilities={"add": ["IPC_LOCK"]}))
    volumes = [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "x"}},
        {"name": "c", "csi": {"driver": "x.example"}},
        *projected(configMap={"name": "x"}, more={"secret": {"name": "y"}}),
    ]
    usual = with_variable(child(namespace, volumes=volumes, tolerations=[NAMED]), value="void")
    for made in (plain, usual):
        assert ask(as_operator, "POST", JOBS.format(namespace), made) == (201, "")


@pytest.mark.e2e
def test_each_access_to_the_host_is_allowed_by_its_own_value(
    cluster: Cluster, as_operator: Path, namespace: str
) -> None:
    network = child(namespace, hostNetwork=True, containers=on_port(62000))
    files = with_host_devices(child(namespace, volumes=host_path("/dev/kfd"), containers=container(**ALL)))
    variable = with_host_devices(with_variable(child(namespace, containers=container(**ALL)), value="all"))

    def passing() -> list[bool]:
        return [ask(as_operator, "POST", JOBS.format(namespace), made)[0] == 201 for made in (network, files, variable)]

    try:
        for values, expected in (
            ({"hostNetwork": True}, [True, False, False]),
            ({"hostNetwork": False, "hostDevices": True}, [False, True, True]),
            ({"hostNetwork": True, "hostDevices": True}, [True, True, True]),
            ({"hostNetwork": False, "hostDevices": False}, [False, False, False]),
        ):
            said = [f"--set=admission.{name}={str(value).lower()}" for name, value in values.items()]
            helm(cluster, "upgrade", str(CHART), "--reuse-values", *said)
            eventually(lambda expected=expected: passing() == expected, 30, what=f"policies of {values}")
    finally:
        off = ("--set=admission.hostNetwork=false", "--set=admission.hostDevices=false")
        helm(cluster, "upgrade", str(CHART), "--reuse-values", *off)


@pytest.mark.e2e
def test_a_stolen_token_deletes_no_more_than_children(cluster: Cluster, as_operator: Path, namespace: str) -> None:
    foreign = job("foreign", namespace, UID)
    del foreign["metadata"]["ownerReferences"]
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps(foreign))
    kubectl(
        cluster,
        "create",
        "-f",
        "-",
        stdin=json.dumps({**service("s", namespace, UID), "metadata": {"name": "s", "namespace": namespace}}),
    )
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps(POOL))
    for path in (f"{JOBS}/foreign", f"{SERVICES}/s", "/apis/gpujob.dev/v1alpha1/gpupools/stolen"):
        code, message = ask(as_operator, "DELETE", path.format(namespace))
        assert (code, OF_OPERATOR in message) == (403, True), path
    kubectl(cluster, "delete", "gpupool", "stolen")


@pytest.mark.e2e
def test_the_operator_deletes_what_an_orphaning_deletion_left(
    cluster: Cluster, as_operator: Path, namespace: str
) -> None:
    for name, made in (("left", labelled(child(namespace), **{UID_LABEL: UID})), ("bare", labelled(child(namespace)))):
        made["metadata"] |= {"name": name, "ownerReferences": []}
        kubectl(cluster, "create", "-f", "-", stdin=json.dumps(made))
    code, message = ask(as_operator, "DELETE", f"{JOBS.format(namespace)}/bare")
    assert (code, CONTROLS in message) == (403, True)
    assert ask(as_operator, "DELETE", f"{JOBS.format(namespace)}/left") == (200, "")


@pytest.mark.e2e
def test_the_operator_deletes_a_child_that_lost_its_label(cluster: Cluster, as_operator: Path, namespace: str) -> None:
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("owner", namespace))
    owner = kubectl(cluster, "get", "gpujob", "owner", "-n", namespace, "-o", "jsonpath={.metadata.uid}").strip()
    kubectl(
        cluster, "create", "-f", "-", stdin=json.dumps(owned_by(labelled(child(namespace)), name="owner", uid=owner))
    )
    assert ask(as_operator, "DELETE", f"{JOBS.format(namespace)}/child") == (200, "")


@pytest.mark.e2e
def test_a_stolen_token_ends_no_job_that_asks_for_no_end(cluster: Cluster, as_operator: Path, namespace: str) -> None:
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("stays", namespace))
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("goes", namespace, ttlSecondsAfterFinished=0))
    code, message = ask(as_operator, "DELETE", f"{GPUJOBS.format(namespace)}/stays")
    assert (code, OF_OPERATOR in message) == (403, True)
    assert "the operator's account deletes only GPUJobs with spec.ttlSecondsAfterFinished, and writes none" in message
    assert ask(as_operator, "DELETE", f"{GPUJOBS.format(namespace)}/goes") == (200, "")


@pytest.fixture
def widened(cluster: Cluster, as_operator: Path, namespace: str) -> str:
    """A namespace in which an admin has given the operator's account more than the chart does."""
    account = f"--serviceaccount={NAMESPACE}:gpujob-operator"
    for verb, what in (("patch", "jobs.batch"), ("create,patch", "configmaps"), ("patch", "gpujobs.gpujob.dev")):
        name = f"more-{what}"
        kubectl(cluster, "create", "role", name, f"--verb={verb}", f"--resource={what}", f"-n{namespace}")
        kubectl(cluster, "create", "rolebinding", name, f"--role={name}", account, f"-n{namespace}")
    path = f"{JOBS.format(namespace)}/none"
    eventually(lambda: ask(as_operator, "PATCH", path, {})[0] == 404, what="wider rights in force")
    return namespace


@pytest.mark.e2e
def test_with_wider_rights_a_stolen_token_adopts_and_writes_no_more(
    cluster: Cluster, as_operator: Path, widened: str
) -> None:
    foreign = job("foreign", widened, UID)
    adopted = {"labels": {UID_LABEL: UID}, "ownerReferences": foreign["metadata"].pop("ownerReferences")}
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps(foreign))
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("mine", widened, ttlSecondsAfterFinished=0))
    spending = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gpujob-spending"}}
    for method, path, body, said in (
        ("PATCH", f"{JOBS}/foreign", {"metadata": adopted}, CONTROLS),
        ("PATCH", f"{GPUJOBS}/mine", {"metadata": {"labels": {"a": "b"}}}, "and writes none"),
        ("POST", RUNNERS, OTHER_MAP, NO_MAP),
        ("POST", RUNNERS, spending, NO_MAP),
    ):
        code, message = ask(as_operator, method, path.format(widened), body)
        assert (code, OF_OPERATOR in message, said in message) == (403, True, True), (path, message)


@pytest.mark.e2e
def test_others_are_not_limited_by_the_operators_policies(cluster: Cluster, namespace: str) -> None:
    kubectl(
        cluster, "create", "--dry-run=server", "-f", "-", stdin=json.dumps(owned_by(child(namespace, hostPID=True)))
    )


# --- ServiceAccounts --------------------------------------------------------------------------------------------------

NONE_ALLOWED = "leave it out, or ask the admin to add it to the chart's admission.allowedServiceAccounts"


@pytest.mark.e2e
def test_a_service_account_that_nobody_allowed_is_refused(api: ApiServer, namespace: str) -> None:
    body = {**manifest({"serviceAccountName": "admin"}), "metadata": {"name": "attack"}}
    with pytest.raises(Refused) as told:
        api.try_out(GPUJOBS.format(namespace), body)
    assert f"serviceAccountName: admin is not allowed here; {NONE_ALLOWED}" in told.value.message
    api.try_out(GPUJOBS.format(namespace), {**body, "spec": {"serviceAccountName": "default"}})


def allow_accounts(cluster: Cluster, *allowed: str) -> None:
    said = f"--set-json=admission.allowedServiceAccounts={json.dumps(allowed)}"
    done = run(cluster, "helm", "upgrade", RELEASE, str(CHART), f"-n{NAMESPACE}", "--reuse-values", said)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def with_accounts(cluster: Cluster, installed: None) -> Iterator[None]:
    """The chart allows two ServiceAccounts."""
    allow_accounts(cluster, "reader", "b.writer")
    yield
    allow_accounts(cluster)


@pytest.mark.e2e
def test_a_service_account_that_the_admin_allows_is_the_pods_without_its_token(
    api: ApiServer, as_operator: Path, with_accounts: None, namespace: str
) -> None:
    def refusal(account: str) -> str:
        try:
            api.try_out(
                GPUJOBS.format(namespace), {**manifest({"serviceAccountName": account}), "metadata": {"name": "a"}}
            )
        except Refused as error:
            return error.message
        return ""

    def code(account: str, **pod: Any) -> int:
        made = child(namespace, serviceAccountName=account, **pod)
        return ask(as_operator, "POST", JOBS.format(namespace), made)[0]

    eventually(lambda: not refusal("reader") and code("reader") == 201, what="policies in force")
    assert "serviceAccountName: other is not allowed here; use one of b.writer, reader, or ask" in refusal("other")
    assert code("other") == 403
    assert code("reader", automountServiceAccountToken=True) == 403


# --- Images -----------------------------------------------------------------------------------------------------------

ALLOWED = ["registry.example", "localhost:5000/team", "docker.io/rocm", "docker.io/library"]


@pytest.fixture(scope="module")
def image_policy(cluster: Cluster, installed: None) -> Iterator[str]:
    """A namespace in a cluster whose GPUJobs may name images of some registries only."""
    objects = [
        each for each in rendered({"admission": {"allowedImages": ALLOWED}}) if each["metadata"]["name"] == OF_IMAGES
    ]
    assert len(objects) == 2
    text = yaml.safe_dump_all(objects)
    kubectl(cluster, "apply", "-f", "-", stdin=text)
    namespace = ensure_namespace(cluster, next(names))
    probe = gpujob("probe", namespace, images={"cuda": {"image": "evil.example/x"}})
    eventually(
        lambda: OF_IMAGES in run(cluster, "kubectl", "create", "--dry-run=server", "-f", "-", stdin=probe).stderr,
        what="policy in force",
    )
    yield namespace
    kubectl(cluster, "delete", "-f", "-", stdin=text)


IMAGES = [
    ("registry.example/team/train:1", ""),
    ("registry.example:5000/train", "registry.example:5000/train"),
    ("registry.example.evil/train", "registry.example.evil/train"),
    ("evil.example/registry.example/train", "evil.example/registry.example/train"),
    ("localhost:5000/team/x@sha256:" + "0" * 64, ""),
    ("localhost:5000/teams/x", "localhost:5000/teams/x"),
    ("rocm/pytorch:7", ""),
    ("rocm-evil/pytorch:7", "docker.io/rocm-evil/pytorch:7"),
    ("busybox", ""),
    ("docker.io/busybox", ""),
    ("team/busybox", "docker.io/team/busybox"),
]


@pytest.mark.e2e
@pytest.mark.parametrize("where", ["own", "code", "volume"])
@pytest.mark.parametrize(("image", "refused"), IMAGES)
def test_images_of_other_registries_are_refused_wherever_a_job_names_them(
    api: ApiServer, image_policy: str, where: str, image: str, refused: str
) -> None:
    spec = {
        "own": {"images": {"rocm": {"image": image}}},
        "code": {"code": {"image": {"reference": image}}},
        "volume": {"volumes": [{"name": "e", "emptyDir": {}}, {"name": "a", "image": {"reference": image}}]},
    }[where]
    body = {**manifest(spec), "metadata": {"name": "attack"}}
    if not refused:
        api.try_out(GPUJOBS.format(image_policy), body)
        return
    with pytest.raises(Refused) as told:
        api.try_out(GPUJOBS.format(image_policy), body)
    assert f"image {refused} is not allowed here: use one of {', '.join(ALLOWED)}" in told.value.message


@pytest.mark.e2e
def test_the_api_server_finds_no_fault_with_the_image_policy(cluster: Cluster, image_policy: str) -> None:
    def checked() -> Object:
        policy = get(cluster, "validatingadmissionpolicy", OF_IMAGES)
        status: Object = policy.get("status", {})
        return status if status.get("observedGeneration") == policy["metadata"]["generation"] else {}

    status = eventually(checked, what="type check of the policy")
    assert status.get("typeChecking", {}).get("expressionWarnings", []) == []
    api_free = gpujob("plain", image_policy)
    kubectl(cluster, "create", "--dry-run=server", "-f", "-", stdin=api_free)


def test_the_namespace_of_the_policies_account_is_the_releases() -> None:
    objects = rendered({"serviceAccount": {"name": "gpus"}})
    policies = [
        each
        for each in objects
        if each["metadata"]["name"] in (OF_OPERATOR, OF_PODS) and "matchConditions" in each["spec"]
    ]
    assert [each["spec"]["matchConditions"][0]["expression"] for each in policies] == [
        f"request.userInfo.username == 'system:serviceaccount:{NAMESPACE}:gpus'"
    ] * 2
