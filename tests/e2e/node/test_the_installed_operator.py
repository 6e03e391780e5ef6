"""The chart with two replicas of the built image on real nodes: what an admin sees from the installation to its end."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.e2e.api_server import GPUJOBS, NODES, ApiServer, Object
from tests.e2e.chart import RELEASE, install_chart
from tests.e2e.cluster import Cluster, eventually
from tests.e2e.node import operator_image
from tests.e2e.node.cluster import MACHINES
from tests.e2e.node.installed import LABEL, Installed, put_image_on_nodes
from tests.e2e.node.training import Trainers
from tests.e2e.operator_process import NAMESPACE, OperatorProcess, operator_kubeconfig

pytestmark = [pytest.mark.e2e, pytest.mark.node]

SERVICE = f"{RELEASE}.{NAMESPACE}.svc"
LEASE_SECONDS = 15
"""A dead leader's Lease lasts this long; the other looks for it every 2 seconds."""


@pytest.fixture(scope="module")
def installed(cluster: Cluster, api: ApiServer, resident: OperatorProcess) -> Iterator[Installed]:
    """Two replicas in place of the process that other tests use; that one comes back afterwards."""
    put_image_on_nodes(cluster, tuple(each.name for each in MACHINES), operator_image.build())
    resident.stop()
    release = Installed(cluster, api)
    try:
        release.install("--set=replicaCount=2")
        yield release
    finally:
        api.kubectl("uncordon", "--selector=kubernetes.io/hostname")
        install_chart(cluster)
        eventually(lambda: not release.pods(), 60, what="operators that are gone")
        # The account of its token went with the release.
        operator_kubeconfig(api, cluster.dir / "operator.kubeconfig")
        resident.start_without_waiting_for_the_lease()


def test_they_are_ready_on_two_nodes_and_one_of_them_leads(installed: Installed) -> None:
    assert len({installed.node_of(pod) for pod in installed.ready()}) == 2
    leader = installed.leader()
    (other,) = set(installed.ready()) - {leader}
    for pod in (leader, other):
        assert "Traceback" not in installed.log(pod)
        assert '"level": "error"' not in installed.log(pod)
    # Nothing was restarted on the way.
    assert [status["restartCount"] for pod in installed.pods() for status in pod["status"]["containerStatuses"]] == [
        0,
        0,
    ]


def test_a_job_is_placed_runs_and_ends(installed: Installed, team: Trainers) -> None:
    installed.leader()
    uid = team.run("first", "python3", "-c", "print('ran')")
    assert team.result("first", uid) == ("Succeeded", ["ran\n"])


def test_the_other_takes_over_from_a_killed_leader_within_the_lease(installed: Installed, team: Trainers) -> None:
    leader, holder = installed.leader(), installed.holder()
    installed.kill(leader)
    began = time.monotonic()
    installed.leader(instead_of=holder)
    assert time.monotonic() - began < LEASE_SECONDS + 10
    uid = team.run("after", "python3", "-c", "print('ran')")
    assert team.result("after", uid) == ("Succeeded", ["ran\n"])
    eventually(lambda: len(installed.ready()) == 2, 60, what="the killed operator back")


def test_helm_test_plans_a_job(installed: Installed, api: ApiServer) -> None:
    said = installed.helm("test", RELEASE, "--logs", "--timeout=120s")
    assert "Phase:          Succeeded" in said
    assert "the operator planned a job: Suspended: " in said
    assert not api.items(GPUJOBS.format(NAMESPACE))


def test_a_roll_of_the_deployment_leaves_a_running_job_alone(installed: Installed, team: Trainers) -> None:
    uid = team.run_on("long")
    (pod,) = [each["metadata"]["uid"] for each in team.pods(uid)]
    before = set(installed.ready())
    installed.kubectl("rollout", "restart", f"deployment/{RELEASE}", f"--namespace={NAMESPACE}")
    installed.kubectl("rollout", "status", f"deployment/{RELEASE}", f"--namespace={NAMESPACE}", "--timeout=60s")
    eventually(lambda: len(installed.ready()) == 2 and not before & set(installed.ready()), 60, what="new operators")
    assert installed.leader() not in before
    team.end(uid)
    assert team.result("long", uid) == ("Succeeded", ["ran\n"])
    assert [each["metadata"]["uid"] for each in team.pods(uid)] == [pod]
    assert len(team.jobs(uid)) == 1


@pytest.fixture
def certificate(api: ApiServer, tmp_path: Path) -> Iterator[Path]:
    """The certificate of the release's Service, whose key is a Secret in the operator's namespace."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=operator", "-days", "2",
         "-addext", f"subjectAltName=DNS:{SERVICE}", "-keyout", "tls.key", "-out", "tls.crt"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    files = (f"--cert={tmp_path / 'tls.crt'}", f"--key={tmp_path / 'tls.key'}")
    assert api.kubectl("create", "secret", "tls", "metrics-tls", *files, f"-n{NAMESPACE}").returncode == 0
    yield tmp_path / "tls.crt"
    api.kubectl("delete", "secret", "metrics-tls", f"-n{NAMESPACE}")


def scrape(pod: Object, certificate: Path, token: str) -> tuple[int, str]:
    """Code and text of a scrape of a pod, as Prometheus makes it: at the pod's address, under the Service's name."""
    context = ssl.create_default_context(cafile=str(certificate))
    with socket.create_connection((pod["status"]["podIP"], 9464), timeout=10) as plain:
        connection = HTTPConnection(SERVICE)
        connection.sock = context.wrap_socket(plain, server_hostname=SERVICE)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_metrics_behind_tokens_are_read_of_both_replicas_by_who_may(
    installed: Installed, api: ApiServer, certificate: Path
) -> None:
    """The Deployment's own account asks the API server who a token is and what he may, with the chart's rights alone."""
    installed.install(
        "--set=replicaCount=2", "--set=metrics.tlsSecret=metrics-tls", "--set=metrics.authentication.enabled=true"
    )
    try:
        bind = ("create", "clusterrolebinding", "scraper", "--clusterrole=gpujob-metrics-reader")
        installed.kubectl(*bind, f"--serviceaccount={NAMESPACE}:scraper")
        tokens = {}
        for account in ("scraper", "passer-by"):
            installed.kubectl("create", "serviceaccount", account, f"-n{NAMESPACE}")
            tokens[account] = installed.kubectl("create", "token", account, f"-n{NAMESPACE}").strip()
        leader = installed.leader()
        shown = {}
        for pod in installed.pods():
            status, text = scrape(pod, certificate, tokens["scraper"])
            assert status == 200, text
            shown[pod["metadata"]["name"]] = re.findall(r"^gpujob_operator_leader (\S+)", text, re.MULTILINE)
            refused = (
                403,
                f"system:serviceaccount:{NAMESPACE}:passer-by may not get /metrics: bind ClusterRole gpujob-metrics-reader to it\n",
            )
            assert scrape(pod, certificate, tokens["passer-by"]) == refused
            assert scrape(pod, certificate, "")[0] == scrape(pod, certificate, "not-a-token")[0] == 401
        assert len(shown) == 2
        assert {name for name, value in shown.items() if value == ["1.0"]} == {leader}
    finally:
        api.kubectl("delete", "clusterrolebinding", "scraper")
        api.kubectl("delete", "serviceaccount", "scraper", "passer-by", f"-n{NAMESPACE}")
        installed.install("--set=replicaCount=2")


def test_a_drain_takes_one_operator_and_waits_with_the_other(
    installed: Installed, api: ApiServer, team: Trainers
) -> None:
    leader = installed.leader()
    (other,) = set(installed.ready()) - {leader}
    first, second = installed.node_of(leader), installed.node_of(other)
    # No node takes another pod, as while a cluster's nodes are replaced.
    installed.kubectl("cordon", *(each.name for each in MACHINES))
    drain = ("drain", "--delete-emptydir-data", "--ignore-daemonsets", f"--pod-selector={LABEL}")
    installed.kubectl(*drain, first, "--timeout=60s")
    refused = api.kubectl(*drain, second, "--timeout=5s")
    assert refused.returncode != 0
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused.stderr
    # The one that is left leads, at once: a leader that is asked to go gives its Lease back.
    assert installed.leader(timeout=LEASE_SECONDS) == other
    installed.kubectl("uncordon", *(each.name for each in MACHINES))
    eventually(lambda: len(installed.ready()) == 2, 60, what="two operators again")
    uid = team.run("drained", "python3", "-c", "print('ran')")
    assert team.result("drained", uid) == ("Succeeded", ["ran\n"])
    assert not any(node["spec"].get("unschedulable") for node in api.items(NODES))


def test_an_uninstalled_operator_leaves_the_crds_the_jobs_and_what_runs(
    installed: Installed, api: ApiServer, team: Trainers
) -> None:
    uid = team.run_on("runs-on")
    installed.helm("uninstall", RELEASE, "--wait")
    eventually(lambda: not installed.pods(), 60, what="operators that are gone")
    ours = ("get", "all,pdb,sa,role,rolebinding", f"--selector={LABEL}", f"-n{NAMESPACE}", "--output=name")
    eventually(lambda: installed.kubectl(*ours) == "", 60, what="nothing left of the release")
    kept = installed.kubectl("get", "crd", "--output=name", f"--selector={LABEL}").split()
    assert len(kept) == 4
    # The child Job goes on to its end; the status of its GPUJob stays as it was until an operator is back.
    (job,) = team.jobs(uid)
    team.end(uid)
    installed.kubectl(
        "wait", "--for=condition=Complete", f"job/{job['metadata']['name']}", f"-n{team.namespace}", "--timeout=60s"
    )
    assert team.state("runs-on") == "Running"
    installed.install("--take-ownership")
    assert team.result("runs-on", uid) == ("Succeeded", ["ran\n"])
