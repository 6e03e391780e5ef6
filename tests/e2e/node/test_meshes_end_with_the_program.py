"""A mesh's proxy in real pods, injected at admission as Istio and Linkerd do it: it keeps no finished job running."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest

from tests.e2e.api_server import ApiServer
from tests.e2e.cluster import eventually
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import OperatorProcess

pytestmark = [pytest.mark.e2e, pytest.mark.node]

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{ADMISSION}/mutatingadmissionpolicies", f"{ADMISSION}/mutatingadmissionpolicybindings"

ORDINARY = "/spec/containers/-", "Object.spec.containers", ""
NATIVE = "/spec/initContainers", "Object.spec.initContainers", 'restartPolicy: "Always",'
PROXY = """[JSONPatch{{op: "add", path: "{path}", value: {before}{kind}{{
  name: "{name}", image: object.spec.containers[0].image, {restart}
  command: ["python3", "-c", "import signal; signal.signal(15, lambda *_: exit(0)); signal.pause()"],
  securityContext: {kind}.securityContext{{
    allowPrivilegeEscalation: false, runAsNonRoot: true, runAsUser: 1337,
    capabilities: {kind}.securityContext.capabilities{{drop: ["ALL"]}},
    seccompProfile: {kind}.securityContext.seccompProfile{{type: "RuntimeDefault"}}
  }}
}}{after}}}]"""


def mesh(
    name: str, kind: tuple[str, str, str], opted_out: str, team: Trainers
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy that injects a proxy into the pods of a namespace, as a mesh's webhook does, unless `opted_out`; and its binding."""
    path, of, restart = kind
    before, after = ("[", "]") if restart else ("", "")
    patch = PROXY.format(path=path, kind=of, name=name, restart=restart, before=before, after=after)
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": {"resourceRules": [pods]},
            "matchConditions": [{"name": "opted-in", "expression": f"!({opted_out})"}],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
        },
    }  # fmt: skip
    here = {"matchLabels": {"kubernetes.io/metadata.name": team.namespace}}
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "matchResources": {"namespaceSelector": here}},
    }  # fmt: skip
    return policy, binding


@pytest.fixture
def injects(api: ApiServer, team: Trainers) -> Iterator[Callable[..., None]]:
    """Installs such a policy, and waits until it is in force."""
    made: list[str] = []

    def install(name: str, kind: tuple[str, str, str], opted_out: str = "false") -> None:
        policy, binding = mesh(name, kind, opted_out, team)
        api.create(POLICIES, policy)
        api.create(BINDINGS, binding)
        made.append(name)
        probe = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "probe", "namespace": team.namespace},
            "spec": RESTRICTED,
        }
        path = f"/api/v1/namespaces/{team.namespace}/pods?dryRun=All"

        def in_force() -> bool:
            spec = api._call("POST", path, probe)["spec"]
            return name in {each["name"] for each in (*spec["containers"], *spec.get("initContainers", []))}

        eventually(in_force, 60, what=f"injection of {name}")

    yield install
    team.clear()
    for name in made:
        api.delete(BINDINGS, name)
        api.delete(POLICIES, name)


RESTRICTED: Final[dict[str, Any]] = {
    "containers": [
        {
            "name": "c", "image": "test.invalid/none",
            "securityContext": {
                "allowPrivilegeEscalation": False, "runAsNonRoot": True, "runAsUser": 1000,
                "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
            },
        }
    ]
}  # fmt: skip
"""What the Pod Security level "restricted" asks of a pod."""


def gone(team: Trainers, uid: str) -> bool:
    return not team.pods(uid)


@pytest.mark.parametrize("name", ["istio-proxy", "linkerd-proxy"])
def test_an_injected_container_that_never_ends_does_not_keep_a_finished_job_running(
    operator: OperatorProcess, team: Trainers, injects: Callable[..., None], name: str
) -> None:
    injects(name, ORDINARY)
    for job, code, state in (("well", 0, "Succeeded"), ("failing", 3, "Failed")):
        uid = team.run(job, "python3", "-c", f"exit({code})")
        team.until(job, state, timeout=180)
        told = team.condition(job, "Complete" if state == "Succeeded" else "Failed")["message"]
        assert f"container {name} runs on, and ends with the child Job" in told
        eventually(partial(gone, team, uid), 60, what="the end of its pods")


@pytest.mark.parametrize("name", ["istio-proxy", "linkerd-proxy"])
def test_a_native_sidecar_ends_with_the_program(
    operator: OperatorProcess, team: Trainers, injects: Callable[..., None], name: str
) -> None:
    injects(name, NATIVE)
    uid = team.run("native", "python3", "-c", "print('done')")
    assert team.result("native", uid, timeout=120) == ("Succeeded", ["done\n"])
    (pod,) = team.pods(uid)
    assert name in {each["name"] for each in pod["spec"]["initContainers"]}
    assert team.condition("native", "Complete")["message"] == "the pod ended well"


def test_pods_opt_out_of_the_meshes_that_ask(
    operator: OperatorProcess, team: Trainers, injects: Callable[..., None]
) -> None:
    label, note = "sidecar.istio.io/inject", "linkerd.io/inject"
    injects(
        "istio-proxy",
        ORDINARY,
        f"has(object.metadata.labels) && object.metadata.labels[?'{label}'] == optional.of('false')",
    )
    injects(
        "linkerd-proxy",
        ORDINARY,
        f"has(object.metadata.annotations) && object.metadata.annotations[?'{note}'] == optional.of('disabled')",
    )
    uid = team.run("alone", "python3", "-c", "print('done')")
    assert team.result("alone", uid, timeout=120) == ("Succeeded", ["done\n"])
    (pod,) = team.pods(uid)
    assert [each["name"] for each in pod["spec"]["containers"]] == ["train"]
