"""Two releases of the chart in one cluster: each runs the jobs of its own namespaces, and what cannot work is refused in a sentence."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.e2e.api_server import NAMESPACES, ApiServer, AuditLog
from tests.e2e.chart import CHART, set_values
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.conftest import Fleet, Leaders, Operators
from tests.e2e.operator_process import NAMESPACE, ROOT, OperatorProcess, operator_kubeconfig
from tests.e2e.team import Team, new_team

pytestmark = pytest.mark.e2e

SECOND, SECOND_NAMESPACE = "second-gpujob-operator", "gpujob-second"
FIRST = f"release gpujob-operator in namespace {NAMESPACE}"
OFF = {
    "crds.enabled": "false", "userRoles.create": "false", "admission.requirePodsCreate": "false", "admission.protectChildren": "false",
    "admission.limitServiceAccounts": "false",
}  # fmt: skip


def helm(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [cluster.tool("helm"), *words], env=cluster.environment(), cwd=ROOT,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def documented() -> list[str]:
    """The command of the page about a second release, after `helm`."""
    page = (ROOT / "docs" / "guides" / "operations.md").read_text()
    (block,) = re.findall(r"```\n(helm install second-gpujob-operator .*?)```", page, re.DOTALL)
    written = block.replace("\\\n", " ").replace("YOUR-REGISTRY", "registry.example.com")
    return shlex.split(written, comments=True)[1:]


def install_second(cluster: Cluster, *values: str) -> subprocess.CompletedProcess[str]:
    words = (
        "install",
        SECOND,
        str(CHART),
        f"--namespace={SECOND_NAMESPACE}",
        "--create-namespace",
        "--set=replicaCount=0",
    )
    return helm(cluster, *words, *(f"--set={each}" for each in values))


@pytest.fixture(scope="module")
def teams(api: ApiServer) -> Iterator[tuple[Team, Team]]:
    """The namespaces of the two releases, for all tests: a second release costs half a minute."""
    name = f"two-{os.getpid()}"
    with new_team(api, name) as first, new_team(api, f"{name}-second") as second:
        yield first, second


@pytest.fixture
def team(teams: tuple[Team, Team], fleet: Fleet) -> Iterator[Team]:
    """The namespace of the first release; emptied before the nodes go."""
    yield teams[0]
    teams[0].clear()


@pytest.fixture
def other(teams: tuple[Team, Team], fleet: Fleet) -> Iterator[Team]:
    """The namespace of the second release."""
    yield teams[1]
    teams[1].clear()


def test_what_cannot_work_is_refused_with_the_remedy(cluster: Cluster, api: ApiServer, team: Team, other: Team) -> None:
    off = [f"{name}={value}" for name, value in OFF.items()]

    def refusal(*values: str) -> str:
        done = install_second(cluster, *values)
        assert done.returncode != 0
        return done.stderr

    try:
        mine = f"watchNamespaces={{{other.namespace}}}"
        two = "two operators may not write the same jobs; give both releases watchNamespaces that differ"
        assert (
            f"{FIRST} runs the GPUJobs of all namespaces, and this release those of {other.namespace}: {two}"
            in refusal(mine, *off)
        )
        set_values(cluster, watchNamespaces=[team.namespace])
        said = refusal(*off)
        assert f"{FIRST} runs the GPUJobs of {team.namespace}, and this release those of all namespaces: {two}" in said
        said = refusal(f"watchNamespaces={{{other.namespace},{team.namespace}}}", *off)
        remedy = "take it out of watchNamespaces of one of the two releases"
        assert f"{FIRST} runs the GPUJobs of namespace {team.namespace}: {remedy}" in said
        every = ", ".join(f"{name}={value}" for name, value in OFF.items())
        assert f"{FIRST} has objects that a cluster has once: set {every} for this release" in refusal(mine)
        assert "set crds.enabled=false for this release" in refusal(mine, *off, "crds.enabled=true")
    finally:
        set_values(cluster, watchNamespaces=[])
        api.kubectl("delete", "namespace", SECOND_NAMESPACE, "--ignore-not-found", "--timeout=120s")
    # The first release is still upgraded as before.
    assert api.get(f"{NAMESPACES}", NAMESPACE)["metadata"]["name"] == NAMESPACE


@pytest.fixture(scope="module")
def both(
    cluster: Cluster, api: ApiServer, leaders: Leaders, operators: Operators, teams: tuple[Team, Team]
) -> Iterator[tuple[OperatorProcess, OperatorProcess]]:
    """Both releases, each with an operator that leads in its own namespace."""
    leaders.stop()
    team, other = teams
    set_values(cluster, watchNamespaces=[team.namespace])
    words = [each.replace("{team-b}", f"{{{other.namespace}}}") for each in documented()]
    done = helm(cluster, *words, "--set=replicaCount=0")
    assert done.returncode == 0, done.stderr
    first = operators("first-of-two")
    first.settings["GPUJOB_WATCH_NAMESPACES"] = team.namespace
    kubeconfig = operator_kubeconfig(
        api, cluster.dir / "operator-second.kubeconfig", account=SECOND, namespace=SECOND_NAMESPACE
    )
    second = OperatorProcess(cluster, api, kubeconfig, "second-of-two")
    second.settings |= {"GPUJOB_NAMESPACE": SECOND_NAMESPACE, "GPUJOB_WATCH_NAMESPACES": other.namespace}
    first.start_without_waiting_for_the_lease()
    second.start()
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{SECOND_NAMESPACE}/leases"
    eventually(
        lambda: ((api.find(leases, "gpujob-operator") or {}).get("spec", {}).get("holderIdentity") or "").startswith(
            second.name
        ),
        40,
        what=f"the second operator leading; its log: {second.log}",
    )
    try:
        yield first, second
    finally:
        first.stop()
        second.stop()
        helm(cluster, "uninstall", SECOND, f"--namespace={SECOND_NAMESPACE}", "--wait")
        api.kubectl("delete", "namespace", SECOND_NAMESPACE, "--timeout=120s")
        set_values(cluster, watchNamespaces=[])
    assert first.errors() == []
    assert second.errors() == []


def test_each_runs_its_own_jobs_and_neither_takes_gpus_of_the_other(
    both: tuple[OperatorProcess, OperatorProcess],
    api: ApiServer,
    audit: AuditLog,
    fleet: Fleet,
    team: Team,
    other: Team,
) -> None:
    mark = audit.now()
    fleet(h100=1)
    team.submit("ours", gpusPerNode=8, runs_for="8s")
    team.until("ours", "Running")
    other.submit("theirs", gpusPerNode=8, runs_for="1s")
    other.until("theirs", "Queued")
    team.until("ours", "Succeeded", timeout=60)
    other.until("theirs", "Succeeded", timeout=60)
    # Each operator writes jobs of its own namespace alone, and is refused nothing.
    for process, own in zip(both, (team, other), strict=True):
        entries = [
            entry for entry in audit.since(mark)
            if process.credential in entry["user"].get("extra", {}).get("authentication.kubernetes.io/credential-id", [])
        ]  # fmt: skip
        assert entries, process.name
        assert [entry["requestURI"] for entry in entries if entry["responseStatus"]["code"] == 403] == []
        written = {
            entry["objectRef"]["namespace"]
            for entry in entries
            if entry["verb"] in ("create", "patch", "delete") and entry["objectRef"].get("namespace")
        }
        assert written - {NAMESPACE, SECOND_NAMESPACE, "default"} == {own.namespace}


def test_the_pools_that_both_publish_come_to_rest(
    both: tuple[OperatorProcess, OperatorProcess], audit: AuditLog, fleet: Fleet, api: ApiServer
) -> None:
    fleet(h100=2, mi300x=1)
    eventually(lambda: len(api.items("/apis/gpujob.dev/v1alpha1/gpupools")) >= 2, 30, what="pools")

    def quiet() -> bool:
        mark = audit.now()
        # Time without a write is what is looked for: no write of the one makes the other write.
        time.sleep(5)
        return not [
            entry
            for entry in audit.since(mark)
            if entry["objectRef"].get("resource") == "gpupools" and entry["verb"] != "watch"
        ]

    eventually(quiet, 60, what="five seconds without a write of a pool")


def test_the_second_account_is_limited_like_the_first(
    both: tuple[OperatorProcess, OperatorProcess], api: ApiServer, other: Team
) -> None:
    """A job of no GPUJob is refused to it, though RBAC lets it create jobs there."""
    # Its pod is confined, so that the one policy alone refuses it.
    container = {"name": "main", "image": "none", "securityContext": {"allowPrivilegeEscalation": False}}
    pod = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]}
    body = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "stolen", "namespace": other.namespace},
        "spec": {"template": {"spec": pod}},
    }  # fmt: skip
    as_second = f"--as=system:serviceaccount:{SECOND_NAMESPACE}:{SECOND}"

    def refused() -> str:
        return api.kubectl("create", "--dry-run=server", as_second, "-f", "-", stdin=json.dumps(body)).stderr

    eventually(
        lambda: f"the-operator-writes-children-only.{SECOND}.gpujob.dev" in refused(), 30, what="its policy in force"
    )
    assert "creates and deletes only what a GPUJob controls" in refused()
