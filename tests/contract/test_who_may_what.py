"""What the chart's roles and its policy let people do, asked of a real API server as they would."""

import json
import subprocess
from typing import Any

import pytest

from tests.contract.chart_in_cluster import POLICY, allow, get, gpujob, jobs_only, kubectl, run, submit
from tests.e2e.cluster import Cluster, eventually

pytestmark = pytest.mark.e2e


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
