"""What the chart's roles and its policy let people do, asked of a real API server as they would."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.contract.chart_in_cluster import (
    OF_CHILDREN,
    POLICY,
    allow,
    get,
    gpujob,
    job,
    jobs_only,
    kubectl,
    run,
    service,
    submit,
)
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


@pytest.mark.parametrize("kind", ["Job", "Service"])
def test_only_who_may_write_statuses_makes_what_says_it_is_a_child(
    cluster: Cluster, namespace: str, kind: str, as_operator: Path
) -> None:
    allow(cluster, namespace, "eve", "admin")
    made = (job if kind == "Job" else service)("forged", namespace, "00000000-0000-4000-8000-000000000000")
    # Without an owner, which the garbage collector would look for.
    owners = made["metadata"].pop("ownerReferences")
    plain = json.dumps(made)
    made["metadata"]["labels"] = {"gpujob.dev/job-uid": "u", "gpujob.dev/attempt": "9"}
    # The API server notices a new policy after a moment.
    refused = eventually(
        lambda: (found := submit(cluster, json.dumps(made), "eve")).returncode and found, what="policy in force"
    )
    assert OF_CHILDREN in refused.stderr
    assert "leave the label out" in refused.stderr
    kubectl(cluster, "create", "--as=eve", "-f", "-", stdin=plain)
    label = ("label", kind.lower(), "forged", f"-n{namespace}", "--as=eve")
    assert OF_CHILDREN in run(cluster, "kubectl", *label, "gpujob.dev/job-uid=u").stderr
    assert run(cluster, "kubectl", *label, "mine=yes").returncode == 0
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("owner", namespace, nodes=1))
    uid = get(cluster, "gpujobs", "owner", f"-n{namespace}")["metadata"]["uid"]
    made["metadata"]["name"] = "made"
    made["metadata"]["labels"]["gpujob.dev/job-uid"] = uid
    made["metadata"]["ownerReferences"] = [{**owners[0], "name": "owner", "uid": uid}]
    kubectl(cluster, f"--kubeconfig={as_operator}", "create", "-f", "-", stdin=json.dumps(made))
    # What leaves the label alone is anybody's who may change the object at all.
    of_child = ("label", kind.lower(), "made", f"-n{namespace}", "--as=eve")
    assert run(cluster, "kubectl", *of_child, "mine=yes").returncode == 0
    assert OF_CHILDREN in run(cluster, "kubectl", *of_child, "gpujob.dev/job-uid=another", "--overwrite").stderr
    # Without its owner it would run on when the GPUJob goes.
    patch = ("patch", kind.lower(), "made", f"-n{namespace}", "--type=merge")
    (owner,) = made["metadata"]["ownerReferences"]
    for references in (None, [{**owner, "controller": False}], [{**owner, "uid": "another"}]):
        change = json.dumps({"metadata": {"ownerReferences": references}})
        disowned = run(cluster, "kubectl", *patch, "--as=eve", f"--patch={change}").stderr
        assert OF_CHILDREN in disowned
        assert "the GPUJob of a child controls it" in disowned
    # The garbage collector may.
    kubectl(cluster, "delete", "gpujobs", "owner", f"-n{namespace}", "--cascade=orphan", "--timeout=30s")
    assert "ownerReferences" not in get(cluster, kind.lower(), "made", f"-n{namespace}")["metadata"]


OTHER_NODE = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["h100-2"]}]}
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [OTHER_NODE]}}}
OTHER_PODS: dict[str, tuple[dict[str, Any], ...]] = {
    "other nodes": ({"op": "add", "path": "/spec/template/spec/affinity", "value": AFFINITY},),
    "more GPUs": (
        {"op": "add", "path": "/spec/template/spec/containers/0/resources", "value": {"limits": {"nvidia.com/gpu": 8}}},
    ),
    "any taint": ({"op": "add", "path": "/spec/template/spec/tolerations", "value": [{"operator": "Exists"}]},),
    "more pods": tuple(
        {"op": "replace", "path": f"/spec/{name}", "value": 4} for name in ("completions", "parallelism")
    ),
    "no pods": tuple({"op": "replace", "path": f"/spec/{name}", "value": 0} for name in ("completions", "parallelism")),
    "fewer at once": ({"op": "replace", "path": "/spec/parallelism", "value": 0},),
    "pods again": ({"op": "replace", "path": "/spec/backoffLimit", "value": 6},),
}
"""What Kubernetes lets change of a Job's pods while it is suspended."""


def test_others_suspend_a_child_and_do_not_change_its_pods(cluster: Cluster, namespace: str) -> None:
    """The status has the nodes and the price of what the operator made."""
    allow(cluster, namespace, "eve", "admin")
    made = job("made", namespace, "u")
    made["metadata"] = {"name": "made", "namespace": namespace, "labels": {"gpujob.dev/job-uid": "u"}}
    made["spec"] |= {"suspend": True, "completionMode": "Indexed", "completions": 1, "parallelism": 1}
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps(made))

    def patch(kind: str, change: Any, *more: str) -> subprocess.CompletedProcess[str]:
        return run(
            cluster, "kubectl", "patch", "job", "made", f"-n{namespace}", f"--type={kind}",
            f"--patch={json.dumps(change)}", *more,
        )  # fmt: skip

    eventually(lambda: patch("json", OTHER_PODS["any taint"], "--as=eve", "--dry-run=server").returncode, what="policy")
    for what, change in OTHER_PODS.items():
        # It is the policy that refuses it, not Kubernetes.
        assert patch("json", change, "--dry-run=server").returncode == 0, what
        refused = patch("json", change, "--as=eve").stderr
        assert OF_CHILDREN in refused, what
        assert "change the GPUJob, or suspend the child" in refused
    for free in ({"activeDeadlineSeconds": 600}, {"suspend": False}, {"suspend": True}):
        assert patch("merge", {"spec": free}, "--as=eve").returncode == 0, free


def test_the_pods_of_a_child_keep_its_label(cluster: Cluster, namespace: str) -> None:
    """The next attempt waits for the pods that have it."""
    allow(cluster, namespace, "eve", "admin")
    container = {"name": "main", "image": "none"}
    metadata = {"name": "made", "namespace": namespace, "labels": {"gpujob.dev/job-uid": "u"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps(pod))
    label = ("label", "pod", "made", f"-n{namespace}", "--as=eve")
    for change in ("gpujob.dev/job-uid-", "gpujob.dev/job-uid=another"):
        refused = eventually(
            lambda change=change: (
                (done := run(cluster, "kubectl", *label, "--dry-run=server", "--overwrite", change)).returncode and done
            ),
            what="policy in force",
        )
        assert OF_CHILDREN in refused.stderr
    kubectl(cluster, *label, "mine=yes")
