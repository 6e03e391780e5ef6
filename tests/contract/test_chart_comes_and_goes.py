"""Installing, upgrading and uninstalling; first of the tests in a cluster, before anything else of the chart is there."""

import shutil
from pathlib import Path

import pytest
import yaml

from gpujob.render.runner_files import load_runner
from tests.contract.chart_in_cluster import (
    CRDS,
    IMAGE,
    ensure_namespace,
    everything,
    get,
    gpujob,
    helm,
    install,
    kubectl,
    names,
    run,
)
from tests.contract.test_chart_rendering import CHART, NAMESPACE, RELEASE
from tests.e2e.cluster import Cluster, eventually

pytestmark = pytest.mark.e2e


def test_install_upgrade_uninstall_leaves_crds_and_jobs_and_nothing_else(cluster: Cluster) -> None:
    ensure_namespace(cluster, NAMESPACE)
    namespace = ensure_namespace(cluster, next(names))
    before = everything(cluster)
    install(cluster)
    assert {f"CustomResourceDefinition <none> {name}" for name in CRDS} <= everything(cluster)
    deployment = get(cluster, "deployment", RELEASE, f"-n{NAMESPACE}")
    assert deployment["spec"]["replicas"] == 0

    kubectl(cluster, "create", "-f", "-", stdin=gpujob("kept", namespace, nodes=1))
    uid = get(cluster, "gpujobs", "kept", f"-n{namespace}")["metadata"]["uid"]
    helm(cluster, "upgrade", str(CHART), "--set=replicaCount=0", IMAGE, "--set=logLevel=debug")
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
        if not template.name.startswith("_") and template.name != "rbac.yaml":
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


def test_an_upgrade_without_crds_leaves_them_or_is_refused(cluster: Cluster, namespace: str) -> None:
    kubectl(cluster, "create", "-f", "-", stdin=gpujob("dear", namespace, nodes=1))
    uid = get(cluster, "gpujobs", "dear", f"-n{namespace}")["metadata"]["uid"]
    without = ("upgrade", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--set=crds.enabled=false,replicaCount=0")
    try:
        helm(cluster, "upgrade", str(CHART), "--set=replicaCount=0", "--set=crds.keep=false")
        refused = run(cluster, "helm", *without)
        assert refused.returncode != 0
        assert (
            "crds.enabled=false deletes CRD gpujobprofiles.gpujob.dev and every object of its kind: "
            "upgrade with crds.keep=true first, then with crds.enabled=false"
        ) in refused.stderr
        helm(cluster, "upgrade", str(CHART), "--set=replicaCount=0", "--set=crds.keep=true")
        helm(cluster, "upgrade", str(CHART), "--set=crds.enabled=false,replicaCount=0")
        assert get(cluster, "gpujobs", "dear", f"-n{namespace}")["metadata"]["uid"] == uid
    finally:
        # The release has its CRDs again, as the tests after this one find it.
        helm(cluster, "upgrade", str(CHART), "--set=replicaCount=0", IMAGE, "--take-ownership")
