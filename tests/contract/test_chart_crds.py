"""Upgrades that bring, keep or would delete the CRDs."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.contract.chart_in_cluster import IMAGE, get, gpujob, helm, kubectl, run
from tests.contract.test_chart_rendering import CHART, NAMESPACE, RELEASE
from tests.e2e.cluster import Cluster, eventually

pytestmark = pytest.mark.e2e


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
